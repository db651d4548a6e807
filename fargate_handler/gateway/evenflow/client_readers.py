"""The readers of one client: one for each response that is delivered to it."""

from __future__ import annotations

from evenflow.fargate_handler.gateway.evenflow.client_reader import (
    ClientReader,
    ReadingClient,
    start_frame,
)
from evenflow.stream_core.bounds.call_rates import cost_of_answer
from evenflow.stream_core.delivery.credit_cursor import FlowControl
from evenflow.stream_core.delivery.flow_control import FlowEvent
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.log.response_log import REPLACES_ALL, ResumePoint
from evenflow.stream_core.protocols.evenflow.close_codes import CloseCode
from evenflow.stream_core.protocols.evenflow.response_frames import restart_frame


class ClientReaders(dict[str, ClientReader]):
    """The readers of one client, by the ids of their responses.

    They have no reference to their client: a cycle would wait for the garbage collector.
    """

    __slots__ = ("_numbered",)

    def __init__(self) -> None:
        super().__init__()
        self._numbered = 0

    def read(
        self,
        client: ReadingClient,
        stream: ResponseStream,
        point: ResumePoint,
        flow_state: FlowControl,
        *,
        duplicate: bool,
    ) -> None:
        """Send `chat.response.start`, and deliver the response from `point` on.

        Raises:
            RateLimited: the response has as many readers as allowed.
        """
        stream.readers.check_limit(shared=client.session.claims.shared)
        replay = cost_of_answer(stream.log.bytes_from(point.next_index))
        client.context.calls.add(client.rate_keys, replay, client.context.monotonic())
        dialect, channel = client.session.dialect, client.channel
        numbered = self._numbered
        number = numbered if dialect.numbers_responses else None
        encoder = stream.readers.encoder(
            (dialect.name, number),
            lambda: dialect.encoder(channel.session, stream.response_id, numbered),
        )
        self._numbered += 1
        client.send_frame(start_frame(stream, point.next_index, number, duplicate=duplicate))
        if point.restarted is not None:
            client.send_frame(restart_frame(stream, point.restarted, REPLACES_ALL))
        if client.session.over:
            return  # the client doesn't read, and that frame was one too many
        reader = ClientReader(client, stream, point.next_index, encoder, number, flow_state)
        self[stream.response_id] = reader
        if flow_state.paused:
            reader.pause(client.context.monotonic())
        stream.attach(reader)

    def remove(self, reader: ClientReader) -> None:
        """Remove a reader that has delivered everything, or is replaced."""
        if self.get(reader.stream.response_id) is reader:
            del self[reader.stream.response_id]
        reader.detach()

    def remove_all(self) -> None:
        """Remove all readers: the client has disconnected."""
        for reader in tuple(self.values()):
            self.remove(reader)

    def block(self) -> None:
        """Stop all readers: the transport is full."""
        for reader in self.values():
            reader.block()

    def catch_up(self, now: float) -> None:
        """Deliver what was missed, joined: the transport takes frames again."""
        for reader in tuple(self.values()):
            reader.deliver(now, None)

    def why_too_slow(self) -> str:
        """The reason for closing a slow client, with the resume point of its first response."""
        return next(map(_too_slow, self.values()), "too slow; connect again")

    def look(self, client: ReadingClient, now: float) -> None:
        """Notify readers that lag, and close the connection if one lags too far."""
        for reader in tuple(self.values()):
            if reader.look(now) is FlowEvent.EXCEED:
                client.close(CloseCode.TOO_SLOW, _too_slow(reader))
                return
        if all(reader.current for reader in self.values()):
            client.context.registry.slow.discard(client)


def _too_slow(reader: ClientReader) -> str:
    return f"too slow; resume {reader.stream.response_id} after {reader.next_index - 1}"
