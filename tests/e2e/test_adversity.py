"""Networks that fail, as a person at the page has them: the text is the log's, nothing is seen
twice, Stop stops the model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.e2e.conftest import Converse
from tests.e2e.conversation import Conversation, generations_running, until_no_model_runs
from tests.e2e.rough_network import LIKE_3G, RoughNetwork, WebSockets
from tests.integration.chat_client import demo
from tests.integration.conftest import ServeProcess
from tests.integration.server_process import ServerProcess

Interruption = Callable[[Conversation, RoughNetwork], None]
Condition = Callable[[Conversation, RoughNetwork], None]


_QUERIES = {"websocket": "", "sse": "?transport=sse", "long-poll": "?transport=poll"}
_QUESTION = demo(tokens=120, gap_ms=40, seed=41)
# It goes on when the client has found, in three seconds, which transport works.
_LONG = demo(tokens=160, gap_ms=40, seed=43)
_LONGER = demo(tokens=300, gap_ms=40, seed=44)
"""For pages that are loaded again, which takes its time."""
_ENDLESS = demo(tokens=5_000, gap_ms=40, seed=42)
_AWAY_MS = 1_500
_GRACE_SECONDS = 12


@pytest.fixture(name="network", scope="module")
def network_of_all_tests() -> Iterator[RoughNetwork]:
    with RoughNetwork() as running:
        yield running


@pytest.fixture(scope="module")
def server(serve_module: ServeProcess, network: RoughNetwork) -> ServerProcess:
    """Pages, calls and WebSockets have one address.

    Who comes no more is waited for shorter than usual.
    """
    server = serve_module(public_ws_url=network.ws_url, grace_seconds=_GRACE_SECONDS)
    network.lead_to(server)
    return server


@pytest.fixture(autouse=True)
def healed(network: RoughNetwork) -> Iterator[None]:
    yield
    network.heal()


def begin(conversation: Conversation, question: str) -> None:
    """Ask, and wait for a piece of the answer."""
    conversation.ask(question)
    conversation.wait_for("streaming")
    conversation.wait_for_more(30)


def check_that_stop_stops(conversation: Conversation) -> None:
    """The answer goes on; then the stop button is pressed."""
    conversation.wait_for_more()
    conversation.stop()
    until_no_model_runs(conversation.server)
    conversation.check_the_end("cancelled")


# -- interruptions ---------------------------------------------------------------------------------


def goes_offline(conversation: Conversation, _network: RoughNetwork) -> None:
    """The browser knows that it has no network."""
    conversation.page.context.set_offline(True)
    conversation.page.wait_for_timeout(_AWAY_MS)
    conversation.page.context.set_offline(False)


def loses_its_connections(conversation: Conversation, network: RoughNetwork) -> None:
    """Nothing can be reached, which the browser learns from the connections only."""
    network.go_away()
    conversation.page.wait_for_timeout(_AWAY_MS)
    network.come_back()


def stands_still(conversation: Conversation, network: RoughNetwork) -> None:
    """Packets are lost for a while, and sent again."""
    network.swallow()
    conversation.page.wait_for_timeout(2 * _AWAY_MS)
    network.let_flow()


def is_reloaded(conversation: Conversation, _network: RoughNetwork) -> None:
    """In mid-answer, and again as soon as it goes on."""
    conversation.reload()
    conversation.wait_for_more()
    conversation.reload()


@pytest.mark.parametrize("transport", _QUERIES)
@pytest.mark.parametrize(
    "interruption", [goes_offline, loses_its_connections, stands_still, is_reloaded]
)
def test_an_interruption_leaves_no_gap_and_nothing_twice(
    converse: Converse,
    network: RoughNetwork,
    server: ServerProcess,
    interruption: Interruption,
    transport: str,
) -> None:
    conversation = converse(server, _QUERIES[transport])
    begin(conversation, _LONGER if interruption is is_reloaded else _QUESTION)
    assert conversation.transport == transport
    interruption(conversation, network)
    conversation.check_the_end()
    begin(conversation, _ENDLESS)
    interruption(conversation, network)
    check_that_stop_stops(conversation)


def test_connections_that_die_without_a_word_are_given_up(
    converse: Converse, network: RoughNetwork, server: ServerProcess
) -> None:
    """A phone changes networks: its connections are dead, others can be made."""
    conversation = converse(server)
    begin(conversation, demo(tokens=600, gap_ms=40, seed=43))
    network.forget()
    conversation.wait_for_more(seconds=10)
    assert conversation.transport == "websocket"
    conversation.check_the_end()


def test_stop_without_a_network_is_felt_at_once_and_the_model_ends_with_the_grace_period(
    converse: Converse, network: RoughNetwork, server: ServerProcess
) -> None:
    conversation = converse(server)
    begin(conversation, _ENDLESS)
    network.go_away()
    conversation.stop()
    conversation.wait_for("cancelled")
    conversation.check_what_was_seen()
    assert generations_running(server) == 1
    until_no_model_runs(server, _GRACE_SECONDS + 10)


# -- conditions that last --------------------------------------------------------------------------


def like_3g(_conversation: Conversation, network: RoughNetwork) -> None:
    """750 kbit/s, a round trip of 200 to 600 ms, and now and then nothing for 0.8 s."""
    network.line = LIKE_3G


def like_3g_in_the_browser(conversation: Conversation, _network: RoughNetwork) -> None:
    """As its developer tools simulate it."""
    throttle = {
        "offline": False,
        "latency": 300,
        "downloadThroughput": 93_750,
        "uploadThroughput": 31_250,
    }
    devtools = conversation.page.context.new_cdp_session(conversation.page)
    devtools.send("Network.enable")
    devtools.send("Network.emulateNetworkConditions", throttle)


def without_websockets(conversation: Conversation, network: RoughNetwork) -> None:
    """They are refused from now on; the page finds out when it is opened."""
    network.websockets = WebSockets.REFUSED


def websockets_swallowed(conversation: Conversation, network: RoughNetwork) -> None:
    """The same, but there is no answer at all."""
    network.websockets = WebSockets.SWALLOWED


def websockets_mute(conversation: Conversation, network: RoughNetwork) -> None:
    """The same, but only the handshake is answered."""
    network.websockets = WebSockets.MUTE


def event_streams_held_back(_conversation: Conversation, network: RoughNetwork) -> None:
    """A proxy without WebSockets that passes an answer on once it has it whole."""
    network.websockets = WebSockets.REFUSED
    network.held_back = 0


def event_streams_in_blocks(_conversation: Conversation, network: RoughNetwork) -> None:
    """One that passes it on by 4 KB."""
    network.websockets = WebSockets.REFUSED
    network.held_back = 4_096


_CONDITIONS = [
    (like_3g, ("websocket", "sse")),
    (like_3g_in_the_browser, ("websocket",)),
    (without_websockets, ("sse",)),
    (websockets_swallowed, ("sse",)),
    (websockets_mute, ("sse",)),
    (event_streams_held_back, ("long-poll",)),
    (event_streams_in_blocks, ("sse", "long-poll")),
]


@pytest.mark.parametrize(("condition", "transports"), _CONDITIONS)
def test_whatever_the_network_is_like(
    converse: Converse,
    network: RoughNetwork,
    server: ServerProcess,
    condition: Condition,
    transports: tuple[str, ...],
) -> None:
    conversation = converse(server)
    condition(conversation, network)
    network.cut()
    conversation.page.reload()
    begin(conversation, _LONG)
    conversation.check_the_end()
    assert conversation.transport in transports
    begin(conversation, _ENDLESS)
    check_that_stop_stops(conversation)


@pytest.mark.parametrize("condition", [like_3g, event_streams_held_back, event_streams_in_blocks])
def test_a_reload_where_the_network_is_bad(
    converse: Converse, network: RoughNetwork, server: ServerProcess, condition: Condition
) -> None:
    conversation = converse(server)
    condition(conversation, network)
    network.cut()
    begin(conversation, _LONGER)
    conversation.reload()
    conversation.check_the_end()


def test_these_tests_see_what_is_on_the_screen_for_a_moment_only(
    converse: Converse, server: ServerProcess
) -> None:
    conversation = converse(server)
    conversation.ask(demo(tokens=5, gap_ms=10))
    conversation.check_the_end()
    answer = conversation.page.get_by_test_id("answer")
    answer.evaluate(
        "it => { it.append(it.textContent); return new Promise(requestAnimationFrame); }"
    )
    answer.evaluate("it => { it.lastChild.remove(); return new Promise(requestAnimationFrame); }")
    assert conversation.shown == conversation.logged()["full_text"]
    with pytest.raises(AssertionError, match="is shown wrongly"):
        conversation.check_what_was_seen()
