"""Training: supervised fine-tuning on gold traces and reinforcement learning, with the systems that users run.

recipe, launch, components               what to train, and its parts: model, policy, rollout engine, system, reward
data, world_sources, unanswerable        questions and passages
facts, conclusions, computing, gold      what a gold teacher writes
detours                                  what goes wrong for it at first
teacher, traces, gold_traces             episodes of it, as token arrays, and those of a whole recipe
trace_prompts, rerank_traces             the prompts that traces were made with; traces for judging passages
rule_teacher, instruct                   teachers that reword, and the pipeline around them
rollouts, served_rollouts, sampler       episodes of a step with their rewards
advantage, loss, loss_settings           how much better a rollout was, and what is minimised
batch, prefixes, policy, optimiser       packed trajectories through the model
lora, lora_settings                      trained adapters, and their size
lora_products, merged_weights            their products in the policy
operations, kernels, logprobs            what the policy computes between its matrix products, and after the last
trainer, rl, sft, distributed            the loops, on one process or several
run, checkpoints, guards, monitoring     around the loops
cost, model_card, random_model           what a step costs; what a run has trained; a tiny model for tests
verl                                     training with verl
"""
