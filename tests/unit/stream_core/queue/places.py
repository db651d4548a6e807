"""A node's places in small: each answer that has one is given a token a step."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle

from evenflow.stream_core.queue.fair_queue import FairQueue, Line
from evenflow.stream_core.queue.token_counters import AnswerMeter, TokenCounters

OUTPUT_COST = 2


@dataclass(eq=False)
class Answer:
    """A message that waits, or its answer."""

    line: Line
    input_tokens: int
    tokens: int

    def __post_init__(self) -> None:
        self.meter = AnswerMeter(self.input_tokens)
        self.given = 0


class Places:
    """So many answers at once.

    Args:
        weights: of tenants. Others have 1.
        saved_up: by how much service who was idle is behind others.
    """

    def __init__(
        self, places: int, weights: Mapping[str, float] | None = None, saved_up: float = 0.0
    ) -> None:
        weights = weights or {}
        self.counters = TokenCounters(
            lambda tenant: weights.get(tenant, 1.0), lambda _tenant: saved_up
        )
        self.queue: FairQueue[Answer] = FairQueue(100_000, self.counters)
        self.running: list[Answer] = []
        self.service: dict[str, float] = defaultdict(float)
        self.ended: list[Answer] = []
        self._places = places
        self._endless: dict[Line, Iterator[tuple[int, int]]] = {}
        self._waiting: Counter[Line] = Counter()

    @property
    def idle(self) -> int:
        """How many places nobody has."""
        return self._places - len(self.running)

    def ask(self, line: Line, tokens: int, input_tokens: int = 1) -> Answer:
        """A message comes."""
        answer = Answer(line, input_tokens, tokens)
        self.queue.put(line, answer)
        self._waiting[line] += 1
        return answer

    def ask_always(self, line: Line, tokens: Sequence[int], inputs: Sequence[int] = (1,)) -> None:
        """From now on more messages wait than places can come free."""
        self._endless[line] = zip(cycle(tokens), cycle(inputs), strict=True)

    def step(self) -> None:
        """Whoever has a turn begins, and all that run are given a token."""
        for line, sizes in self._endless.items():
            while self._waiting[line] <= self._places:
                self.ask(line, *next(sizes))
        while self.idle and (answer := self.queue.take()) is not None:
            self.running.append(answer)
            self._waiting[answer.line] -= 1
            self._charge(answer)
        for answer in self.running:
            answer.given += 1
            self._charge(answer)
        self.ended += [answer for answer in self.running if answer.given == answer.tokens]
        self.running = [answer for answer in self.running if answer.given < answer.tokens]

    def _charge(self, answer: Answer) -> None:
        service = answer.meter.update_charged(answer.given)
        self.counters.charge(answer.line.tenant, service)
        self.service[answer.line.tenant] += service
