"""The traffic that costs and quotas are computed for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Traffic:
    """The traffic of 1,000 concurrent streams.

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
        typed: share of the answers with parts, which have their form noted in one write more.
        polled: share of the answers that are read by long polls. Each poll is a write, too.
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
    typed: float = 0.3
    other_reads: int = 3
    polled: float = 0.05
    polls_per_answer: int = 6
    reads_per_poll: int = 13
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
        return text + self.other_writes + self.typed

    @property
    def reads_per_answer(self) -> float:
        """Read units of an answer."""
        return self.other_reads + self.polled * self.polls_per_answer * self.reads_per_poll

    @property
    def gigabytes_per_hour(self) -> float:
        """Gigabytes sent to readers in an hour."""
        return self.streams * self.frames_per_second * self.frame_bytes * 3600 / 1e9
