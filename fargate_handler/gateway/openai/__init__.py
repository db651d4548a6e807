"""`/v1/chat/completions` and `/v1/models`: what OpenAI's clients speak, over the same log as everything else."""
