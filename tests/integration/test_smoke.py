"""`make smoke` and the canary, in front of a server that is well and behind proxies that are
not.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from http.client import HTTPConnection

import pytest

from evenflow.functions.canary.behaviours import answer_goes_on_after_a_cut, headers_come_through
from evenflow.functions.canary.checks import CheckResult, as_table
from evenflow.functions.canary.front_door import FrontDoor
from evenflow.functions.canary.reading import WrongAnswer
from evenflow.functions.canary.smoke import CanaryCaller, canary, smoke
from tests.integration.chat_client import demo
from tests.integration.conftest import Serve
from tests.integration.faulty_proxy import Fault, faulty_proxy
from tests.integration.server_process import ROOT, free_port

QUESTION = demo(tokens=20, gap_ms=20)
SOCKETS = {"WebSocket v1", "WebSocket v1 compact", "realtime"}
STREAMED = {
    "/v1/chat/completions, streamed",
    "/v1/responses, streamed",
    "/v1/messages, streamed",
    "/api/chat",
    "/agui",
}
WHOLE = {f"/v1/{name}, whole" for name in ("chat/completions", "responses", "messages")}
OF_MODELS = STREAMED | WHOLE
EVENT_STREAMS = STREAMED | {"server-sent events", "/streams"}


async def smoke_through(port: int, fault: Fault, key: str | None = None) -> list[CheckResult]:
    """What `make smoke` finds behind a proxy with this fault, in front of the server's port."""
    async with faulty_proxy(port, fault) as proxy:
        front_door = FrontDoor(f"http://127.0.0.1:{proxy.port}", silence_seconds=10)
        return await asyncio.to_thread(smoke, CanaryCaller(front_door, QUESTION, key=key))


def wrong(findings: list[CheckResult]) -> dict[str, str]:
    """What is wrong, by the check's name."""
    return {finding.check.name: finding.wrong for finding in findings if finding.wrong is not None}


async def test_a_server_that_is_well_has_every_call_in_order(serve: Serve) -> None:
    server = await serve()
    findings = await smoke_through(server.port, Fault.NONE)
    assert wrong(findings) == {}
    assert len(findings) == 20
    table = as_table(findings)
    assert table.count("✓") == 20
    assert "all as it should be" in table
    read = {finding.check.name: finding.reading for finding in findings if finding.reading}
    assert {*SOCKETS, *EVENT_STREAMS, "long poll", "resume after a cut"} <= read.keys()
    for name in SOCKETS | EVENT_STREAMS:
        assert 0 < read[name].first_seconds < read[name].last_seconds, name


@pytest.mark.parametrize(
    ("fault", "checks", "said"),
    [
        (Fault.DROPS_UPGRADES, SOCKETS | {"cancel"}, "403"),
        (Fault.BUFFERS_STREAMS, EVENT_STREAMS, "at once"),
        (Fault.CUTS_STREAMS, EVENT_STREAMS | {"resume after a cut"}, "cut"),
        (Fault.STRIPS_COOKIES, {"sticky cookie"}, "no cookie WSID"),
        (Fault.SPREADS_COOKIES, {"sticky cookie"}, "reached 4 tasks"),
        (Fault.CACHES_ERRORS, {"errors are not cached"}, "401"),
        (Fault.DROPS_VIA, {"headers"}, "Evenflow-Via is None"),
        (Fault.DROPS_PAGE_POLICY, {"headers"}, "Content-Security-Policy"),
        (Fault.FORGETS_LAST_EVENT_ID, {"resume after a cut"}, "characters over the cut"),
        (Fault.REFUSES_CANCEL, {"cancel", "headers", "errors are not cached"}, "somebody else"),
        (Fault.CHANGES_HOST, {"/session"}, "it tells clients to call http://127.0.0.1:9"),
        (Fault.DROPS_NO_STORE, {"/session"}, "Cache-Control is None instead of 'no-store'"),
        (Fault.TIRES_OF_SILENCE, WHOLE, "504"),
        (Fault.CHANGES_POLLED_TEXT, {"long poll", "resume after a cut"}, "characters"),
        (
            Fault.HIDES_MODELS,
            OF_MODELS | {"sticky cookie"},
            "not what the protocol says: IndexError",
        ),
        (Fault.STREAMS_A_LIST, {"/api/chat"}, "not what the protocol says: AttributeError"),
        (Fault.ADDS_ODD_COOKIE, {"sticky cookie"}, "not what the protocol says: CookieError"),
    ],
)
async def test_a_fault_on_the_way_is_found_by_its_checks_and_by_no_others(
    serve: Serve, fault: Fault, checks: set[str], said: str
) -> None:
    server = await serve()
    found = wrong(await smoke_through(server.port, fault))
    if found.keys() > checks:  # a machine that stood still looks like a hop that holds pieces back
        found = wrong(await smoke_through(server.port, fault))
    assert found.keys() == checks
    assert any(said in text for text in found.values()), found


async def test_calls_of_v1_that_somebody_else_answers_are_told_from_evenflows(
    serve: Serve,
) -> None:
    server = await serve()
    findings = await smoke_through(server.port, Fault.REFUSES_V1)
    found = wrong(findings)
    assert "/v1/messages, streamed" in found
    somebody_else = "403 (not in Evenflow's shape: somebody else answered) instead of 200"
    assert found["sticky cookie"] == somebody_else
    assert "Look at: the behavior and the rule of /v1/*" in as_table(findings)


async def test_a_stream_that_evenflow_itself_refuses_is_told_by_its_code(serve: Serve) -> None:
    server = await serve()
    assert wrong(await smoke_through(server.port, Fault.DRAINS_EVENTS)) == dict.fromkeys(
        ["server-sent events", "resume after a cut", "headers"], "503 draining instead of 200"
    )


async def test_a_tenants_key_opens_and_without_it_only_the_session_is_tried(serve: Serve) -> None:
    key = "key-of-the-public-tenant-0123456789"
    server = await serve(tenant_keys=json.dumps({"public": key}))
    (refused,) = await smoke_through(server.port, Fault.NONE)
    assert refused.wrong == "401 tenant_key_invalid instead of 201"
    assert wrong(await smoke_through(server.port, Fault.NONE, key)) == {}


async def test_an_answer_that_failed_is_no_answer(serve: Serve) -> None:
    server = await serve()
    front_door = FrontDoor(server.http_url, silence_seconds=10)
    failing = CanaryCaller(front_door, demo(tokens=20, gap_ms=5, fail_after=3, fail_attempts=9))
    found = wrong(await asyncio.to_thread(canary, failing))
    assert found.keys() == SOCKETS | {"server-sent events", "long poll", "/streams"}


async def test_an_answer_too_short_to_cut_is_said(serve: Serve) -> None:
    server = await serve()
    front_door = FrontDoor(server.http_url, silence_seconds=10)
    session = await asyncio.to_thread(front_door.open_session)
    with pytest.raises(WrongAnswer, match="it had ended before it could be cut: ask for a longer"):
        await asyncio.to_thread(answer_goes_on_after_a_cut, session, demo(tokens=1, gap_ms=1))


async def test_an_https_page_that_browsers_may_open_without_is_found(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In front of the server nobody adds the header, as CloudFront does."""
    server = await serve()
    monkeypatch.setattr(
        "evenflow.functions.canary.front_door.HTTPSConnection",
        lambda host, timeout, context: HTTPConnection(host, timeout=timeout),
    )
    front_door = FrontDoor(server.http_url.replace("http", "https", 1), silence_seconds=10)
    session = await asyncio.to_thread(front_door.open_session)
    with pytest.raises(WrongAnswer, match="the page has no Strict-Transport-Security"):
        await asyncio.to_thread(headers_come_through, session, QUESTION)


async def test_what_does_not_listen_is_one_finding() -> None:
    caller = CanaryCaller(FrontDoor(f"http://127.0.0.1:{free_port()}"))
    (found,) = await asyncio.to_thread(canary, caller)
    assert found.wrong is not None
    assert found.wrong.startswith("ConnectionRefusedError")


@pytest.mark.parametrize("url", ["127.0.0.1:8080", "ftp://host", "https://"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="must be https://host or http://host:port"):
        FrontDoor(url)


async def test_the_commands_status_says_whether_all_is_well(serve: Serve) -> None:
    server = await serve()

    async def status_of(url: str, *more: str) -> tuple[int, str]:
        process = await asyncio.create_subprocess_exec(
            *(
                sys.executable,
                "-m",
                "evenflow.functions.canary",
                "canary",
                url,
                "--times",
                "1",
                *more,
            ),
            *("--question", QUESTION),
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        said, _ = await process.communicate()
        return await process.wait(), said.decode()

    status, said = await status_of(server.http_url)
    assert (status, said.count("✓")) == (0, 6)
    status, said = await status_of(f"http://127.0.0.1:{free_port()}")
    assert (status, said.count("✗")) == (1, 1)
    status, said = await status_of("nowhere")
    assert (status, said) == (2, "'nowhere' must be https://host or http://host:port\n")
