"""Training: supervised fine-tuning on gold traces and reinforcement learning, with the systems that users run.

recipe, launch, components     what to train, and its parts: model, policy, rollout engine, system, reward data,
world_sources            questions and passages facts, conclusions, gold       what a gold teacher writes; teacher and
traces make episodes of it rule_teacher, instruct         teachers that reword, and the pipeline around them;
rerank_traces for judging passages rollouts, sampler              episodes of a step with their rewards advantage, loss
how much better a rollout was, and what is minimised batch, policy, optimiser       packed trajectories through the
model; lora, merged_weights, operations, kernels, logprobs trainer, rl, sft               the loops; run, checkpoints,
guards and monitoring around them distributed, verl              several processes; training with verl
"""
