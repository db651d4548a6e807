"""What the load asks of the demo model, and what the demo model must then have answered."""

from dataclasses import dataclass

from evenflow.fargate_handler.token_sources.demo.script import demo_tokens


@dataclass(frozen=True)
class Script:
    """A scripted answer: `tokens` tokens of the text that belongs to `seed`, one every `gap_ms`."""

    tokens: int
    gap_ms: int
    seed: int

    @property
    def question(self) -> str:
        return (
            f"#demo tokens={self.tokens} gap_ms={self.gap_ms} first_token_ms=10 jitter_ms=0 "
            f"seed={self.seed}"
        )

    @property
    def answer(self) -> str:
        return "".join(demo_tokens(self.seed, self.tokens))
