"""Training with verl (>= 0.9, < 0.10) on many machines: our systems roll out, verl samples and learns.

engine             verl's rollout servers as an engine of ours, token ids in and out
loop               an agent loop that returns every trajectory of an episode, the planner last
roles, advantages  the trainer that DECOR needs, with its advantages and weights
reward             a reward function in verl's form, for setups that score elsewhere
data               questions in verl's form

Nothing here is imported by the rest of Subquest, and verl is imported by `loop` and `roles` alone; `docs/scale.md` has
the configuration.
"""
