"""The page under the headers that CloudFront sends in AWS: all of it works, and what is inline
doesn't.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Route

from evenflow.stream_core.auth.allowed_origins import page_policy
from tests.e2e.conftest import OpenPage
from tests.e2e.conversation import Conversation, until_no_model_runs
from tests.e2e.rough_network import RoughNetwork
from tests.integration.chat_client import demo
from tests.integration.conftest import ServeProcess
from tests.integration.server_process import ROOT, ServerProcess

_TEMPLATE = ROOT / "tests/infrastructure/snapshots/prod/edge.json"
_NOTE_VIOLATIONS = """window.violations = [];
addEventListener("securitypolicyviolation",
    (event) => window.violations.push(event.violatedDirective));"""
_QUERIES = {"websocket": "", "sse": "?transport=sse", "long-poll": "?transport=poll"}


def _found(tree: Any, key: str) -> Iterator[Any]:
    """Whatever stands under this key, at any depth."""
    for name, value in (
        tree.items()
        if isinstance(tree, dict)
        else enumerate(tree)
        if isinstance(tree, list)
        else ()
    ):
        if name == key:
            yield value
        yield from _found(value, key)


@pytest.fixture(scope="module")
def headers() -> dict[str, str]:
    """The page's headers in AWS, from the template."""
    policies = _found(json.loads(_TEMPLATE.read_text("utf-8")), "SecurityHeadersConfig")
    # The other one is that of the modules, which other pages load.
    (security,) = (policy for policy in policies if "ContentSecurityPolicy" in policy)
    policy = security["ContentSecurityPolicy"]["ContentSecurityPolicy"]
    assert policy == page_policy(), "the template and the handler have one source"
    assert "unsafe" not in policy
    return {
        "content-security-policy": policy,
        "x-content-type-options": "nosniff",
        "x-frame-options": security["FrameOptions"]["FrameOption"],
        "referrer-policy": security["ReferrerPolicy"]["ReferrerPolicy"],
    }


@pytest.fixture(scope="module", name="network")
def network_of_all_tests() -> Iterator[RoughNetwork]:
    with RoughNetwork() as running:
        yield running


@pytest.fixture(scope="module")
def server(serve_module: ServeProcess, network: RoughNetwork) -> ServerProcess:
    """Page and WebSocket have one origin, as in AWS: `'self'` must be enough."""
    server = serve_module(public_ws_url=network.ws_url)
    network.lead_to(server)
    return server


@pytest.mark.parametrize("transport", _QUERIES)
def test_the_headers_of_aws_are_enough(
    open_page: OpenPage,
    network: RoughNetwork,
    server: ServerProcess,
    headers: dict[str, str],
    transport: str,
) -> None:
    page = open_page("about:blank")
    page.add_init_script(_NOTE_VIOLATIONS)
    # A document that a test puts in the place of the network's is of no address, and may by itself
    # not connect to this machine's.
    page.context.grant_permissions(["clipboard-read", "clipboard-write", "local-network-access"])
    replaced: list[str] = []

    def as_from_cloudfront(route: Route) -> None:
        answer = route.fetch()
        kept = {
            name: value
            for name, value in answer.headers.items()
            if name in ("content-type", "cache-control")
        }
        route.fulfill(response=answer, headers=kept | headers)
        replaced.append(route.request.resource_type)

    page.route(f"{network.url}/", as_from_cloudfront)
    page.route(f"{network.url}/?*", as_from_cloudfront)
    page.route("**/assets/*", as_from_cloudfront)
    conversation = Conversation(page, server).open(_QUERIES[transport], network.url)
    conversation.ask("How does Evenflow treat slow readers?")
    conversation.wait_for("done")
    assert conversation.shown == conversation.logged()["full_text"]
    assert (conversation.transport, page.evaluate("violations")) == (transport, [])
    page.get_by_test_id("copy").click()
    conversation.ask(demo(tokens=5_000, gap_ms=20))
    conversation.wait_for("streaming")
    conversation.wait_for_more(30)
    conversation.stop()
    until_no_model_runs(server)
    conversation.check_the_end("cancelled")
    assert {"document", "stylesheet", "script"} <= set(replaced)
    assert page.evaluate("violations") == []
    # They are in force.
    page.evaluate(
        "document.body.insertAdjacentHTML('beforeend', '<p style=\"color: red\" "
        'onclick="x()">a</p>\')'
    )
    page.evaluate("document.body.lastElementChild.click()")
    page.wait_for_timeout(200)
    assert set(page.evaluate("violations")) == {"style-src-attr", "script-src-attr"}
