"""Dead letters that a test reads."""

from __future__ import annotations

from evenflow.stream_core.stores.dead_letters import DeadLetter, DeadLettersUnavailable


class ToldLetters:
    """See `evenflow.stream_core.stores.dead_letters.DeadLetters`."""

    def __init__(self) -> None:
        self.letters: list[DeadLetter] = []
        self.down = False

    async def send(self, letter: DeadLetter) -> None:
        """See the port."""
        if self.down:
            raise DeadLettersUnavailable("the queue doesn't answer")
        self.letters.append(letter)
