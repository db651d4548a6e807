"""The backends of `examples/`, run by FastAPI behind a handler."""

from __future__ import annotations

from pathlib import Path

from tests.integration.conftest import OpenSession, ServeProcess
from tests.integration.stock_clients.backends import running_backend


async def test_it_answers_a_user_about_the_page_that_the_application_names(
    serve_process: ServeProcess, opened: OpenSession, tmp_path: Path
) -> None:
    with running_backend("examples.backend", tmp_path / "log") as url:
        session = await opened(serve_process(model="openai", model_url=url), user="Zoe")
        payload = {"text": "What is this?", "metadata": {"page": "7"}}
        posted = await session.call(
            "POST", "/chat/message", {"message_id": "m1", "payload": payload}
        )
        _, text, _ = await session.poll_whole(posted.json["response_id"])
    assert text == "Zoe, on page 7 you asked: What is this?"


async def test_an_agents_call_and_its_result_are_parts_of_its_answer(
    serve_process: ServeProcess, opened: OpenSession, tmp_path: Path
) -> None:
    with running_backend("examples.pydantic_ai_backend", tmp_path / "log") as url:
        session = await opened(serve_process(model="openai", model_url=url))
        async with session.connect() as connection:
            first = await connection.ask("m1", None, "How many bikes have you?")
            then = await connection.ask("m2", "m1", "And now?")
    parts = [frame for frame in first.frames if frame["type"] == "chat.response.event"]
    call, arguments, call_end, result = parts
    assert (call["kind"], call["name"]) == ("call", "in_stock")
    assert (arguments["kind"], call_end["kind"]) == ("arguments", "call_end")
    assert (result["kind"], result["id"]) == ("result", call["id"])
    assert (result["text"], result["name"]) == ('{"left":0}', "in_stock")
    assert (first.text, first.finish_reason) == ('{"in_stock":{"left":0}}', "stop")
    assert (then.finish_reason, bool(then.text)) == ("stop", True), "it knows what was said"
