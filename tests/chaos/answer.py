"""One question, what came of it, and who reads the answer."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Any

from tests.chaos.answer_check import AnswerCheck, Kind
from tests.chaos.script import Script
from tests.chaos.session import ChaosSession, HttpAnswer

if TYPE_CHECKING:
    from tests.chaos.window import Window

# Nothing was accepted: the message may be sent again. Everything else that refuses one is a
# problem.
_TRY_AGAIN = (429, 502, 503, 504)


class Answer:
    """A message of a session and its one response.

    Args:
        window: the stretch of the run that it counts for; a fault that finds it in flight takes it
            over.
    """

    def __init__(
        self,
        session: ChaosSession,
        message_id: str,
        previous: str | None,
        script: Script,
        window: Window,
    ) -> None:
        self.session = session
        self.script = script
        self.text = script.text()
        self.message_id = message_id
        self.window = window
        self.began_at = monotonic()
        self.response_id: str | None = None
        self.owner = ""
        """The id of the node that generates it, as far as it is known."""
        self.checks: list[AnswerCheck] = []
        self.lost_owner: tuple[float, int] | None = None
        """When its owner was killed, and the epoch until then."""
        self._previous = previous
        self._sent = 0

    @property
    def message(self) -> dict[str, Any]:
        """The body of the message."""
        self._sent += 1
        return {
            "message_id": self.message_id,
            "previous_message_id": self._previous,
            "payload": {"text": self.script.question},
        }

    def new_check(self) -> AnswerCheck:
        """For a further reader."""
        check = AnswerCheck(self.text)
        self.checks.append(check)
        return check

    def accepted(
        self, check: AnswerCheck, response_id: str, node_id: str, *, is_owner: bool
    ) -> None:
        """A node says which response answers the message."""
        if self.response_id is None:
            self.response_id = response_id
        elif self.response_id != response_id:
            check.problem(
                Kind.PROTOCOL,
                f"{self.message_id} has two responses: {self.response_id}, {response_id}",
            )
        if is_owner:
            self.owner = node_id

    def posted(self, check: AnswerCheck, answer: HttpAnswer, node_id: str) -> bool:
        """The answer to `POST /chat/message`; returns whether the message is accepted now."""
        check.note("POST", (answer.status, answer.body))
        if answer.status == 202:
            self.accepted(check, answer.body["response_id"], node_id, is_owner=self._sent == 1)
        elif answer.code == "response_elsewhere" and "response_id" in answer.body["error"]:
            self.accepted(check, answer.body["error"]["response_id"], node_id, is_owner=False)
        elif answer.status not in _TRY_AGAIN:
            check.problem(Kind.LOST, f"the message was answered with {answer.status} {answer.body}")
        return self.response_id is not None
