"""The traffic that costs and quotas are computed for."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

LARGEST_TEXT_IN_ENTRY = 2_048
"""The longest text, in bytes, that the store in DynamoDB puts into its message's item."""

_UNIT_BYTES = 1_024
# A message's item without the texts of message and answer.
_ENTRY_BYTES = 450
_TEXT_ITEM_BYTES = 150  # of its key, and when it expires
_BYTES_PER_TOKEN = 4


@dataclass(frozen=True, slots=True)
class Traffic:
    """The assumed traffic of 1,000 concurrent streams.

    It is assumed, but for the pace of 20 events a second (measured with a model on Bedrock), the
    bytes of a frame, and what an answer costs in DynamoDB (`make bench`, scenario `store`).

    Args:
        streams: answers being generated at each moment.
        connections_per_stream: most readers read or type.
        answers_per_session: of one opened session and socket.
        frame_bytes: what our own client is sent for a token, `evenflow.v1.compact`.
        worker_seconds: of a worker's core for each event, in the SDK and gRPC.
        chunk_seconds: between two writes of the text of an answer that is read at its task.
        polled_chunk_seconds: the same of a polled one, on average.
        other_writes: units for head, index, ledger and session; transactions count double.
        prompt_bytes: of a message's text. The rest of the model's input is the history.
        keyed: share of answers for tenants with a key or a record. Their usage is recorded.
        usage_writes, usage_reads: units for an answer's usage record and its day's total, where no
            other answer ends at the same moment.
        event_bytes: of an event of the model's stream, as Bedrock sends it.
        stored_bytes: of an answer in the tables, chunks, head and message, for a day.
        record_bytes: of a usage record.
        typed: share of the answers with parts: their schema version costs one more write.
        polled: share of the answers that are read by long polls. Each poll is a write, too.
        polls_per_answer: after 0, 1, 3, 6 s … and at the end: no poll lingers for more than 3 s.
        reads_per_poll: measured: 78 units for 20 s in six polls; and one more read of the head.
        answer_line_bytes, reader_line_bytes: of the log, as `make smoke` leaves them.
        call_line_bytes: what a call of a function logs, its metrics.
    """

    streams: int = 1_000
    answer_seconds: float = 20
    input_tokens: int = 1_000
    output_tokens: int = 400
    connections_per_stream: int = 10
    answers_per_session: int = 5
    frames_per_second: float = 20
    frame_bytes: int = 25
    worker_seconds: float = 135e-6
    chunk_seconds: float = 20 / 17
    polled_chunk_seconds: float = 0.83
    other_writes: int = 12
    prompt_bytes: int = 200
    keyed: float = 0
    usage_writes: int = 4
    usage_reads: int = 2
    event_bytes: int = 280
    stored_bytes: int = 12_000
    record_bytes: int = 700
    typed: float = 0.3
    other_reads: int = 3
    polled: float = 0.05
    polls_per_answer: int = 9
    reads_per_poll: int = 9
    answer_line_bytes: int = 700
    reader_line_bytes: int = 450
    call_line_bytes: int = 600

    @property
    def answers_per_hour(self) -> float:
        """How many answers begin in an hour."""
        return self.streams * 3600 / self.answer_seconds

    @property
    def polls_per_hour(self) -> float:
        """How many long polls begin in an hour."""
        return self.answers_per_hour * self.polled * self.polls_per_answer

    @property
    def sessions_per_hour(self) -> float:
        """How many sessions are opened in an hour."""
        return self.answers_per_hour / self.answers_per_session

    @property
    def calls_per_hour(self) -> float:
        """Requests in an hour: a session and its socket, or a message by HTTP and its polls."""
        messages = self.answers_per_hour * self.polled
        return 2 * self.sessions_per_hour + messages + self.polls_per_hour

    @property
    def writes_per_answer(self) -> float:
        """Write units of an answer. The end is written at once, so it is one write more."""
        read, polled = (
            self.answer_seconds / seconds + 1
            for seconds in (self.chunk_seconds, self.polled_chunk_seconds)
        )
        text = (1 - self.polled) * read + self.polled * (polled + self.polls_per_answer)
        usage = self.keyed * self.usage_writes
        return text + self.other_writes + self.typed + usage + self.prompt_writes()

    def prompt_writes(self, *, apart: bool = True) -> int:
        """Write units of a message's text, beyond those of a short one.

        Args:
            apart: whether a long text is an item of its own. Else it is in the message's, which is
                written in a transaction and once more when it is answered.
        """
        if apart and self.prompt_bytes > LARGEST_TEXT_IN_ENTRY:
            return _units(self.prompt_bytes + _TEXT_ITEM_BYTES)
        answer = self.output_tokens * _BYTES_PER_TOKEN
        whole, short = (
            2 * _units(_ENTRY_BYTES + text) + _units(_ENTRY_BYTES + text + answer)
            for text in (self.prompt_bytes, 0)
        )
        return whole - short

    @property
    def reads_per_answer(self) -> float:
        """Read units of an answer."""
        usage = self.keyed * self.usage_reads
        return self.other_reads + self.polled * self.polls_per_answer * self.reads_per_poll + usage

    @property
    def gigabytes_per_hour(self) -> float:
        """Gigabytes sent to readers in an hour."""
        return self.streams * self.frames_per_second * self.frame_bytes * 3600 / 1e9

    @property
    def model_gigabytes_per_hour(self) -> float:
        """Gigabytes sent to the model and received from it in an hour."""
        events = self.streams * self.frames_per_second * self.event_bytes * 3600
        return (events + self.answers_per_hour * self.input_tokens * _BYTES_PER_TOKEN) / 1e9


def _units(size: int) -> int:
    return ceil(size / _UNIT_BYTES)
