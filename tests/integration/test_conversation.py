"""The conversation again, over real sockets: in another tab, after a reload, and ended."""

from __future__ import annotations

from tests.integration.chat_client import demo
from tests.integration.conftest import OpenSession
from tests.integration.local_server import LocalServer

_QUICK = demo(tokens=5, gap_ms=1, seed=7)


async def test_a_tab_follows_reads_the_conversation_again_and_ends_it(
    shared_server: LocalServer, opened: OpenSession
) -> None:
    session = await opened(shared_server)
    path = f"/session/{session.session_id}"
    async with session.connect() as tab:
        accepted = (await session.post("m1", None, _QUICK)).json
        told = await tab.next_of("session.message")
        assert (told["message_id"], told["text"]) == ("m1", _QUICK)
        assert told["response_id"] == accepted["response_id"]
        await tab.resume(told["response_id"], -1)
        answer = await tab.whole(told["response_id"])
        page = (await session.call("GET", f"{path}/messages?limit=5")).json
        (message,) = page["messages"]
        assert (message["text"], message["status"]) == (_QUICK, "completed")
        assert message["answer"] == {"text": answer.text, "parts": []}
        assert page["next_before"] is None
        for _ in range(2):
            assert (await session.call("DELETE", path)).status == 204
    ended = await session.call("GET", f"{path}/messages")
    assert (ended.status, ended.error["code"]) == (410, "session_ended")
    assert (await session.post("m2", "m1", _QUICK)).error["code"] == "session_ended"
