"""What is right in an input."""

from __future__ import annotations

from dataclasses import dataclass, replace

_DIGITS = 72


@dataclass(frozen=True)
class OpenSession:
    """A session's token, and what an input may name of it.

    Args:
        response_id: a response of the session.
        session_id: its id.
        public_id: the id of a response of the Responses API that was made with its token.
        others: another session, which must not be harmed.
    """

    token: bytes
    response_id: bytes
    session_id: bytes = b"ses_1"
    public_id: bytes = b"resp_" + b"0" * _DIGITS
    others: OpenSession | None = None

    def fill(self, form: bytes) -> bytes:
        """A form with what is right in its places."""
        item = self.public_id.replace(b"resp_", b"msg_") + b"_0"
        for place, value in (
            (b"{token}", self.token),
            (b"rsp_x", self.response_id),
            (b"ses_x", self.session_id),
            (b"resp_x", self.public_id),
            (b"msg_x", item),
        ):
            form = form.replace(place, value)
        return form

    @property
    def trespassing(self) -> OpenSession:
        """This session, with the other one's names."""
        return self if self.others is None else replace(self.others, token=self.token)
