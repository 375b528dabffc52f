"""The systems of the papers and their baselines, each with its prompts, reward and teacher in its folder."""
