"""The time of an inference engine with continuous batching and chunked prefill. No clock, no
socket: a step is given the batch, and says how long it takes and who has got a token.

The costs are those of vLLM with Llama 3.1 8B (BF16) on one A100:

- A step alone takes 13.3 ms: 75 tokens/s were measured for one request at a time
  (johnmusgrave.com/p/vllm-throughput-latency-sweep-on: vLLM 0.23, A100 40 GB).
- Each sequence adds 0.13 ms: its keys and values are read, 128 KiB a token, of 1,200 tokens, at the
  77 % of 1,555 GB/s that were reached there. (There 8 at once gave 6.6 times as many tokens.)
- A token of a prompt takes 0.085 ms: 2 operations for each of 8 billion weights, at 60 % of the
  A100's 312 TFLOPS.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

CHARACTERS_A_TOKEN = 4  # of a prompt


@dataclass(frozen=True)
class Costs:
    """Times in seconds, counts of the batch."""

    step: float = 0.0132
    sequence: float = 0.00013
    prompt_token: float = 0.000085
    sequences: int = 32  # vLLM's --max-num-seqs
    tokens: int = 512  # of a step, prompts' and answers': --max-num-batched-tokens


@dataclass(eq=False)
class Request:
    """One request: how much of it is done, and when what happened to it.

    `preferred`: each step computes what is left of its prompt before that of others.
    """

    prompt: int
    answer: int
    preferred: bool = False
    arrived: float = 0.0
    admitted: float | None = None
    prefilled: int = field(default=0)
    generated: int = field(default=0)

    @property
    def ended(self) -> bool:
        return self.generated >= self.answer


@dataclass(frozen=True)
class Step:
    """What one step does."""

    seconds: float
    answered: Sequence[Request]  # each has one more token when it is over


class Engine:
    """The batch, and a queue in front of it: first come, first served."""

    def __init__(self, costs: Costs) -> None:
        self._costs = costs
        self._running: list[Request] = []
        self._waiting: deque[Request] = deque()

    @property
    def idle(self) -> bool:
        return not self._running and not self._waiting

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def running(self) -> int:
        return len(self._running)

    def add(self, sequence: Request) -> None:
        self._waiting.append(sequence)

    def remove(self, sequence: Request) -> None:
        """Its caller has left."""
        for place in (self._running, self._waiting):
            if sequence in place:
                place.remove(sequence)

    def step(self, now: float) -> Step:
        """Begin a step at `now` (seconds). What it does has happened when its time is over."""
        costs = self._costs
        while self._waiting and len(self._running) < costs.sequences:
            self._waiting[0].admitted = now
            self._running.append(self._waiting.popleft())
        decoding = [it for it in self._running if it.prefilled == it.prompt]
        room = prompts = costs.tokens - len(decoding)
        answered = list(decoding)
        for sequence in sorted(self._running, key=lambda it: not it.preferred):
            if sequence.prefilled < sequence.prompt and room:
                chunk = min(room, sequence.prompt - sequence.prefilled)
                room -= chunk
                sequence.prefilled += chunk
                if sequence.prefilled == sequence.prompt:
                    answered.append(sequence)  # the prompt's last token gives the first one
        for sequence in answered:
            sequence.generated += 1
        self._running = [it for it in self._running if not it.ended]
        seconds = (
            costs.step + costs.sequence * len(answered) + costs.prompt_token * (prompts - room)
        )
        return Step(seconds, answered)
