"""Training with verl (>= 0.9, < 0.10) on many machines: our systems roll out, verl samples and learns.

    engine   verl's rollout servers as an engine of ours, token ids in and out
    loop     an agent loop that returns every trajectory of an episode, the planner last
    roles    the trainer that DECOR needs, with the advantages and weights of `advantages`
    reward   a reward function in verl's form, for setups that score elsewhere

Nothing here is imported by the rest of Subquest, and verl is imported by `loop` and `roles` alone; `docs/scale.md` has
the configuration.
"""
