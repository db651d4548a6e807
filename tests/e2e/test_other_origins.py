"""A frontend of another origin in a real Chromium: the README's very lines, over each transport,
allowed and not.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tarfile
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, WebSocket, expect

from evenflow.fargate_handler.token_sources.demo.script import demo_tokens
from tests.e2e.other_site import OtherSite, other_site
from tests.e2e.readme_snippets import at, blocks, commands
from tests.integration.server_process import ROOT, ServerProcess, free_port

OpenPage = Callable[[str], Page]

_WEB = ROOT / "web"
_OPENAI = ROOT / "tests" / "integration" / "openai" / "javascript"
_QUESTION = "#demo tokens=80 gap_ms=20 seed=11"
_TEXT = "".join(demo_tokens(11, 80))
_WHOLE_MS = 40_000
_KEY = "only-the-backend-knows"
# A client gives up after its tries are spent: without chance, without waiting.
_NO_BACKOFF = "Math.random = () => 0;"
(_ELEMENT,) = blocks("html")
(_LIBRARY,) = blocks("js")


@pytest.fixture(scope="module")
def site() -> Iterator[OtherSite]:
    with other_site() as running:
        yield running


def _serving(
    tmp_path_factory: pytest.TempPathFactory, variables: dict[str, str]
) -> Iterator[ServerProcess]:
    running = ServerProcess(
        tmp_path_factory.mktemp("server") / "log", variables
    ).wait_until_serving()
    yield running
    running.stop()


@pytest.fixture(scope="module")
def allowing(site: OtherSite, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that lets the site's pages call."""
    yield from _serving(tmp_path_factory, {"EVENFLOW_ALLOWED_ORIGINS": site.origin})


@pytest.fixture(scope="module")
def allowing_others(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One that lets others' pages call, but not the site's."""
    yield from _serving(tmp_path_factory, {"EVENFLOW_ALLOWED_ORIGINS": "https://app.example.com"})


@pytest.fixture(scope="module")
def allowing_without_websocket(
    site: OtherSite, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    """One whose WebSocket can't be reached, as behind a firewall."""
    unreachable = f"ws://127.0.0.1:{free_port()}/ws"
    yield from _serving(
        tmp_path_factory,
        {"EVENFLOW_ALLOWED_ORIGINS": site.origin, "EVENFLOW_PUBLIC_WS_URL": unreachable},
    )


@pytest.fixture(scope="module")
def keyed(site: OtherSite, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One whose sessions take the key of a tenant."""
    keys = json.dumps({"public": _KEY})
    yield from _serving(
        tmp_path_factory, {"EVENFLOW_ALLOWED_ORIGINS": site.origin, "EVENFLOW_TENANT_KEYS": keys}
    )


def _script(code: str) -> str:
    return f'<output></output><script type="module">{code}</script>'


def _expect_output(page: Page, text: str) -> None:
    output = page.locator("output")
    expect(output).to_have_text(text, timeout=_WHOLE_MS)
    assert output.text_content() == text  # the former takes white space lightly


def _hear(page: Page) -> list[Any]:
    """The frames that come over WebSockets from now on: objects, and compact deltas."""
    frames: list[Any] = []

    def on_websocket(websocket: WebSocket) -> None:
        websocket.on("framereceived", lambda frame: frames.append(json.loads(frame)))

    page.on("websocket", on_websocket)
    return frames


def _said(frames: list[Any]) -> str:
    entries = [frame[2] for frame in frames if isinstance(frame, list)]
    return "".join(entry for entry in entries if isinstance(entry, str))


def _completed(frame: Any) -> bool:
    return isinstance(frame, dict) and frame["type"] == "chat.response.completed"


# -- the README's lines ----------------------------------------------------------------------------


def test_the_library_s_lines_show_the_answer(
    open_page: OpenPage, site: OtherSite, allowing: ServerProcess
) -> None:
    assert len([line for line in _LIBRARY.splitlines() if line]) <= 5
    page = open_page("about:blank")
    frames = _hear(page)
    page.goto(site.page(_script(at(allowing, _LIBRARY))))
    expect(page.locator("output")).not_to_be_empty(timeout=_WHOLE_MS)
    while not any(map(_completed, frames)):
        page.wait_for_timeout(50)
    said = _said(frames)
    assert len(said) > 200
    _expect_output(page, said)


@pytest.mark.parametrize("transport", ["websocket", "sse", "long-poll"])
def test_they_do_over_each_transport_and_go_on_after_a_reload(
    open_page: OpenPage, site: OtherSite, allowing: ServerProcess, transport: str
) -> None:
    code = at(allowing, _LIBRARY).replace("What is Evenflow?", _QUESTION)
    code = code.replace("connect({", f"window.client = connect({{ transports: ['{transport}'],")
    page = open_page(site.page(_script(code)))
    expect(page.locator("output")).not_to_be_empty(timeout=_WHOLE_MS)
    assert page.evaluate("client.transport") == transport
    page.reload()
    _expect_output(page, _TEXT)
    assert page.evaluate("client.transport") == transport


def test_the_element_s_lines_are_a_whole_chat(
    open_page: OpenPage, site: OtherSite, allowing: ServerProcess
) -> None:
    assert len(_ELEMENT.splitlines()) == 2
    _ask_the_element(open_page(site.page(at(allowing, _ELEMENT))), "websocket")


def test_the_element_reaches_the_answer_where_no_websocket_can_be_had(
    open_page: OpenPage, site: OtherSite, allowing_without_websocket: ServerProcess
) -> None:
    _ask_the_element(open_page(site.page(at(allowing_without_websocket, _ELEMENT))), "sse")


def test_the_element_works_under_a_strict_policy_of_the_other_page(
    open_page: OpenPage, site: OtherSite, allowing: ServerProcess
) -> None:
    """What docs/element.md says that it needs."""
    websocket = f"ws://127.0.0.1:{allowing.port}"
    policy = (
        f"default-src 'none'; script-src {allowing.http_url}; connect-src {allowing.http_url} "
        f"{websocket}"
    )
    page = open_page("about:blank")
    refused: list[str] = []
    page.on(
        "console",
        lambda message: (
            refused.append(message.text) if "Content Security" in message.text else None
        ),
    )
    meta = f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    page.goto(site.page(meta + at(allowing, _ELEMENT)))
    _ask_the_element(page, "websocket")
    assert [text for text in refused if "favicon" not in text] == []


def test_the_element_colours_code_on_the_other_page(
    open_page: OpenPage, site: OtherSite, allowing: ServerProcess
) -> None:
    element = at(allowing, _ELEMENT).replace("<evenflow-chat", "<evenflow-chat code-colours")
    page = open_page(site.page(element))
    page.get_by_test_id("question").fill("How do I use it from my OpenAI code?")
    page.keyboard.press("Enter")
    expect(page.locator("code .hljs-string").first).to_be_visible(timeout=_WHOLE_MS)


def _ask_the_element(page: Page, transport: str) -> None:
    page.get_by_test_id("question").fill(_QUESTION)
    page.keyboard.press("Enter")
    expect(page.get_by_test_id("status")).to_have_attribute("data-state", "done", timeout=_WHOLE_MS)
    chat = page.locator("evenflow-chat")
    assert chat.evaluate("it => [it.lastText, it.client.transport]") == [_TEXT, transport]


def test_the_package_is_what_a_bundler_takes(
    open_page: OpenPage, site: OtherSite, allowing: ServerProcess, tmp_path: Path
) -> None:
    (pack,) = commands("web/README.md")
    _run(
        ["bash", "-c", pack],
        ROOT,
        {"npm_config_pack_destination": str(tmp_path), "npm_config_cache": str(tmp_path)},
    )
    with tarfile.open(tmp_path / "evenflow-client-0.1.0.tgz") as package:
        package.extractall(tmp_path / "unpacked", filter="data")
    installed = tmp_path / "node_modules" / "@evenflow"
    installed.mkdir(parents=True)
    (tmp_path / "unpacked" / "package").rename(installed / "client")
    assert (installed / "client" / "lib" / "index.d.ts").read_text() == (
        _WEB / "api.d.ts"
    ).read_text()
    assert (installed / "client" / "lib" / "index.js").read_bytes() == (
        _WEB / "dist" / "client.js"
    ).read_bytes()
    code = at(allowing, _LIBRARY).replace(f"{allowing.http_url}/client.js", "@evenflow/client")
    (tmp_path / "app.js").write_text(code.replace("What is Evenflow?", _QUESTION))
    bundle = [
        _WEB / "node_modules/.bin/esbuild",
        "app.js",
        "--bundle",
        "--format=esm",
        "--outfile=bundle.js",
    ]
    _run(list(map(str, bundle)), tmp_path, {})
    page = open_page(site.page(_script((tmp_path / "bundle.js").read_text())))
    _expect_output(page, _TEXT)


def _run(command: list[str], folder: Path, variables: dict[str, str]) -> None:
    subprocess.run(
        command, cwd=folder, env=os.environ | variables, check=True, timeout=50, capture_output=True
    )


# -- a client of the element's own -----------------------------------------------------------------


def test_the_element_connects_to_the_server_in_its_attribute(
    open_page: OpenPage, site: OtherSite, server: ServerProcess, allowing: ServerProcess
) -> None:
    """The module comes from a server that allows nobody: anybody may load it."""
    element = at(server, _ELEMENT).replace(
        "<evenflow-chat>", f'<evenflow-chat url="{allowing.http_url}/">'
    )
    _ask_the_element(open_page(site.page(element)), "websocket")


def test_the_key_of_a_tenant_stays_with_the_site_s_own_backend(
    open_page: OpenPage, site: OtherSite, keyed: ServerProcess
) -> None:
    site.upstream = (keyed.http_url, _KEY)
    tags = '<evenflow-chat session-url="/our/session">'
    page = open_page("about:blank")
    posted: list[str] = []
    page.on(
        "request", lambda request: posted.append(request.url) if request.method == "POST" else None
    )
    page.goto(site.page(at(keyed, _ELEMENT).replace("<evenflow-chat>", tags)))
    _ask_the_element(page, "websocket")
    assert posted == [f"{site.origin}/our/session"]


def test_a_client_that_the_page_gives_is_the_only_one(
    open_page: OpenPage, site: OtherSite, allowing: ServerProcess
) -> None:
    page = open_page("about:blank")
    sessions: list[str] = []
    page.on(
        "request",
        lambda request: sessions.append(request.url) if request.method == "POST" else None,
    )
    given = (
        "import { connect } from "
        f'"{allowing.http_url}/client.js";document.querySelector("evenflow-chat").client = '
        f'connect({{ url: "{allowing.http_url}", transports: ["sse"] }});'
    )
    page.goto(site.page(at(allowing, _ELEMENT) + _script(given)))
    _ask_the_element(page, "sse")
    assert sessions.count(f"{allowing.http_url}/session") == 1


def test_a_client_that_comes_later_takes_the_place_of_the_element_s_own(
    open_page: OpenPage, site: OtherSite, allowing: ServerProcess
) -> None:
    page = open_page(site.page(at(allowing, _ELEMENT)))
    page.wait_for_function(
        "document.querySelector('evenflow-chat').client?.connection === 'open'", timeout=_WHOLE_MS
    )
    replaced = page.evaluate(
        """async (url) => {
            const { connect } = await import(`${url}/client.js`);
            const chat = document.querySelector("evenflow-chat");
            const first = chat.client;
            chat.client = connect({ url, transports: ["sse"], storage: null });
            return [first.connection, chat.client.connection !== "closed"];
        }""",
        allowing.http_url,
    )
    assert replaced == ["closed", True]
    _ask_the_element(page, "sse")


def test_a_client_that_was_there_before_the_module_is_used(
    open_page: OpenPage, site: OtherSite, allowing: ServerProcess
) -> None:
    url = allowing.http_url
    early = (
        "const { connect } = await "
        f'import("{url}/client.js");document.querySelector("evenflow-chat").client = connect({{ '
        f'url: "{url}", transports: ["sse"] }});await import("{url}/evenflow-chat.js");'
    )
    _ask_the_element(
        open_page(site.page(f"<evenflow-chat></evenflow-chat>{_script(early)}")), "sse"
    )


def test_an_element_made_by_a_script_stays_connected_where_it_moves_and_leaves_with_its_page(
    open_page: OpenPage, site: OtherSite, allowing: ServerProcess
) -> None:
    script = _ELEMENT.splitlines()[0]
    page = open_page(site.page(f"{at(allowing, script)}<main></main><aside></aside>"))
    page.evaluate("""() => {
        window.chat = document.createElement("evenflow-chat");
        document.querySelector("main").append(window.chat);
    }""")
    page.wait_for_function("chat.client?.connection === 'open'", timeout=_WHOLE_MS)
    page.evaluate("window.first = chat.client; document.querySelector('aside').append(chat)")
    page.wait_for_timeout(100)
    assert page.evaluate("[chat.client === first, first.connection]") == [True, "open"]
    page.evaluate("chat.remove()")
    page.wait_for_function("first.connection === 'closed'", timeout=_WHOLE_MS)
    page.evaluate("document.querySelector('main').append(chat)")
    page.wait_for_function(
        "chat.client !== first && chat.client.connection === 'open'", timeout=_WHOLE_MS
    )


# -- where they are not allowed --------------------------------------------------------------------


@pytest.mark.parametrize("which", ["server", "allowing_others"])
def test_the_calls_of_a_page_that_is_not_allowed_reject_with_a_typed_error(
    open_page: OpenPage, site: OtherSite, request: pytest.FixtureRequest, which: str
) -> None:
    closed: ServerProcess = request.getfixturevalue(which)
    code = at(closed, _LIBRARY).replace(
        "import { connect }", "import { connect, isEvenflowError, ConnectionError }"
    )
    lines = code.splitlines()
    caught = (
        "(error) => { window.failure = [isEvenflowError(error), error instanceof ConnectionError, "
        "error.kind]; }"
    )
    lines[-1] = f"client.messages().catch({caught});"
    page = open_page(site.page(_script("\n".join([_NO_BACKOFF, *lines]))))
    failure = page.wait_for_function("window.failure", timeout=_WHOLE_MS).json_value()
    assert failure == [True, True, "connection"]
    assert page.locator("output").text_content() == ""


_AT_ONCE_MS = 8_000
"""The tries of a page that is not let in would never end."""


def _heard_in_the_console(page: Page) -> list[str]:
    """What the element tells whoever has made the page."""
    lines: list[str] = []
    page.on(
        "console",
        lambda line: lines.append(line.text) if line.text.startswith("Evenflow:") else None,
    )
    return lines


def _expect_not_let_in(page: Page) -> None:
    problem = page.get_by_test_id("error").last
    expect(problem).to_contain_text("This page may not use this server.", timeout=_AT_ONCE_MS)
    expect(page.get_by_test_id("status")).to_have_attribute("data-state", "error")


@pytest.mark.parametrize("which", ["server", "allowing_others"])
def test_the_element_says_at_once_that_the_page_is_not_let_in_and_the_console_how_it_would_be(
    open_page: OpenPage, site: OtherSite, request: pytest.FixtureRequest, which: str
) -> None:
    chosen: ServerProcess = request.getfixturevalue(which)
    page = open_page("about:blank")
    console = _heard_in_the_console(page)
    page.goto(site.page(at(chosen, _ELEMENT)))
    _expect_not_let_in(page)
    page.get_by_test_id("question").fill(_QUESTION)
    page.keyboard.press("Enter")
    expect(page.get_by_test_id("error")).to_have_count(2, timeout=_AT_ONCE_MS)
    _expect_not_let_in(page)
    expect(page.get_by_test_id("ask")).to_be_visible()
    (line,) = console
    assert f"EVENFLOW_ALLOWED_ORIGINS={site.origin}" in line
    assert chosen.http_url in line


def test_so_it_does_on_a_page_that_was_opened_as_a_file(
    open_page: OpenPage, server: ServerProcess, tmp_path: Path
) -> None:
    file = tmp_path / "page.html"
    file.write_text(f'<!doctype html><meta charset="utf-8">{at(server, _ELEMENT)}', "utf-8")
    page = open_page("about:blank")
    console = _heard_in_the_console(page)
    page.goto(file.as_uri())
    _expect_not_let_in(page)
    (line,) = console
    assert "opened as a file" in line
    assert "EVENFLOW_ALLOWED_ORIGINS=" in line


def test_two_elements_on_a_page_keep_their_own_conversations_over_a_reload(
    open_page: OpenPage, site: OtherSite, allowing: ServerProcess
) -> None:
    page = open_page(site.page(at(allowing, _ELEMENT) + "<evenflow-chat></evenflow-chat>"))
    for number, seed in enumerate((31, 32)):
        chat = page.locator("evenflow-chat").nth(number)
        chat.get_by_test_id("question").fill(f"#demo tokens=150 gap_ms=40 seed={seed}")
        chat.get_by_test_id("question").press("Enter")
    for number in (0, 1):
        chat = page.locator("evenflow-chat").nth(number)
        expect(chat.get_by_test_id("status")).to_have_attribute(
            "data-state", "streaming", timeout=_WHOLE_MS
        )
    page.reload()
    for number, seed in enumerate((31, 32)):
        chat = page.locator("evenflow-chat").nth(number)
        expect(chat.get_by_test_id("status")).to_have_attribute(
            "data-state", "done", timeout=_WHOLE_MS
        )
        assert chat.evaluate("it => it.lastText") == "".join(demo_tokens(seed, 150))


@pytest.mark.parametrize(
    ("which", "outcome"), [("allowing", "open"), ("allowing_others", "close"), ("server", "open")]
)
def test_a_token_does_not_open_a_websocket_from_a_page_that_is_not_named(
    open_page: OpenPage, site: OtherSite, request: pytest.FixtureRequest, which: str, outcome: str
) -> None:
    chosen: ServerProcess = request.getfixturevalue(which)
    with urllib.request.urlopen(
        urllib.request.Request(f"{chosen.http_url}/session", b"{}")
    ) as answer:
        opened = json.load(answer)
    page = open_page(site.page(""))
    happened = page.evaluate(
        """([url, token]) => new Promise((resolve) => {
            const socket = new WebSocket(url, ["evenflow.v1", `bearer.${token}`]);
            for (const event of ["open", "close"])
                socket.addEventListener(event, () => resolve(event));
        })""",
        [opened["ws_url"], opened["token"]],
    )
    assert happened == outcome


def test_the_server_s_own_page_goes_on_where_others_are_named(
    open_page: OpenPage, allowing: ServerProcess
) -> None:
    page = open_page(f"{allowing.http_url}/")
    _ask_the_element(page, "websocket")


# -- OpenAI's client -------------------------------------------------------------------------------


@pytest.fixture
def openai(site: OtherSite) -> str:
    """The address of OpenAI's own JavaScript client, unmodified."""
    if not (_OPENAI / "node_modules" / "openai").is_dir():
        assert shutil.which("npm"), (
            "this test needs Node.js 20 or newer with npm; nothing was tested"
        )
        subprocess.run(
            ["npm", "ci", "--silent", "--no-audit", "--no-fund"],
            cwd=_OPENAI,
            check=True,
            timeout=50,
        )
    site.folders["/openai"] = _OPENAI / "node_modules" / "openai"
    return f"{site.origin}/openai/index.mjs"


def test_openai_s_own_client_streams_into_a_page(
    open_page: OpenPage, site: OtherSite, allowing: ServerProcess, openai: str
) -> None:
    page = open_page(site.page(""))
    told = page.evaluate(
        """async ([module, baseURL, content]) => {
            const { OpenAI } = await import(module);
            const options = { apiKey: "anything", dangerouslyAllowBrowser: true };
            const client = new OpenAI({ baseURL, ...options });
            const call = client.chat.completions.create(
                { model: "demo", messages: [{ role: "user", content }], stream: true });
            const { data: stream, request_id } = await call.withResponse();
            let text = "";
            for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? "";
            const refused = await client.models.retrieve("nobody")
                .catch((error) => [error.status, error.code]);
            return { text, request_id, refused };
        }""",
        [openai, f"{allowing.http_url}/v1", _QUESTION],
    )
    assert told["text"] == _TEXT
    assert told["request_id"].startswith("rsp_")
    assert told["refused"] == [404, "model_not_found"]
