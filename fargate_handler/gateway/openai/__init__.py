"""OpenAI's API, `/v1/chat/completions` and `/v1/models`, over the same log as everything else."""
