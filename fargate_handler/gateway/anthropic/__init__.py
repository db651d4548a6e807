"""Anthropic's API, `/v1/messages`, over the same log as everything else."""
