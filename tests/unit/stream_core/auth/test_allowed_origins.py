from __future__ import annotations

import pytest

from evenflow.stream_core.auth.allowed_origins import AllowedOrigins, is_own_page, parse_origins

APP, OTHER = "https://app.example.com", "https://other.example.com"
ONE = AllowedOrigins([APP])
EVERY = AllowedOrigins(["*"])


@pytest.mark.parametrize(
    ("text", "origins"),
    [
        ("", ()),
        (" , ", ()),
        ("*", ("*",)),
        (APP, (APP,)),
        (f"{APP}/", (APP,)),
        (f" {APP} ,http://localhost:3000,", (APP, "http://localhost:3000")),
        ("http://127.0.0.1:5173", ("http://127.0.0.1:5173",)),
        ("http://[::1]:3000", ("http://[::1]:3000",)),
        (
            "http://app_1.example:443,https://app.example:80",
            ("http://app_1.example:443", "https://app.example:80"),
        ),
        ("capacitor://localhost", ("capacitor://localhost",)),
        ("chrome-extension://abcdefghijklmnop", ("chrome-extension://abcdefghijklmnop",)),
    ],
)
def test_origins_are_read(text: str, origins: tuple[str, ...]) -> None:
    assert parse_origins(text) == origins


@pytest.mark.parametrize(
    "text",
    [
        "app.example.com",
        "//app.example.com",
        "https://app.example.com//",
        "https://app.example.com/chat",
        "https://app.example.com?a",
        "https://App.example.com",
        "HTTPS://app.example.com",
        "https://app.example.com:443",
        "http://app.example.com:80",
        "https://app.example.com:0",
        "https://app.example.com:65536",
        "https://user@app.example.com",
        "https://*.example.com",
        "https://app.example.com https://other.example.com",
        "https://app..example.com",
        "https://äpp.example.com",
        "https://",
        "null",
        "file://",
        f"{APP},nonsense",
        f"{APP}\nhttps://x.example",
    ],
)
def test_what_no_browser_writes_is_refused_and_named(text: str) -> None:
    with pytest.raises(ValueError, match="must be origins as browsers write them"):
        parse_origins(text)


def test_a_refusal_has_no_endless_text() -> None:
    with pytest.raises(ValueError, match="xxx") as refusal:
        parse_origins("x" * 5_000)
    assert len(str(refusal.value)) < 400


def test_every_origin_stands_alone_and_none_twice() -> None:
    with pytest.raises(ValueError, match="alone"):
        parse_origins(f"*,{APP}")
    with pytest.raises(ValueError, match="twice"):
        parse_origins(f"{APP},{APP}")


def test_without_origins_no_answer_changes() -> None:
    none = AllowedOrigins()
    assert not none.are_named
    assert not none.admits(APP)
    assert none.answer_headers(APP) == none.answer_headers(None) == {}
    assert none.preflight_headers("OPTIONS", APP, "POST") is None


def test_a_named_origin_may_read_and_another_is_told_nothing() -> None:
    assert ONE.are_named
    told = ONE.answer_headers(APP)
    assert (told["Access-Control-Allow-Origin"], told["Vary"]) == (APP, "Origin")
    assert {"Retry-After", "X-Request-Id"} <= set(told["Access-Control-Expose-Headers"].split(", "))
    # A browser with cookies would need to be told so; ours come without.
    assert "Access-Control-Allow-Credentials" not in told
    for origin in (None, OTHER, "null", "http://app.example.com", f"{APP}:8443", APP.upper(), ""):
        assert ONE.answer_headers(origin) == {"Vary": "Origin"}


def test_every_origin_may_read_what_is_the_same_for_all() -> None:
    for origin in (None, APP, "null"):
        told = EVERY.answer_headers(origin)
        assert told["Access-Control-Allow-Origin"] == "*"
        assert "Vary" not in told
    assert EVERY.admits("null")


def test_a_preflight_is_told_what_the_contract_uses() -> None:
    for allowed in (ONE, EVERY):
        told = allowed.preflight_headers("OPTIONS", APP, "POST")
        assert told is not None
        assert told["Access-Control-Allow-Methods"] == "GET, POST, DELETE"
        names = told["Access-Control-Allow-Headers"].split(", ")
        # `*` stands for all but Authorization (Fetch standard, CORS non-wildcard request-header
        # name).
        assert {"Authorization", "Content-Type", "Idempotency-Key", "Last-Event-ID", "*"} <= set(
            names
        )
        assert int(told["Access-Control-Max-Age"]) > 0


@pytest.mark.parametrize(
    ("method", "origin", "asked_method"),
    [
        ("POST", APP, "POST"),
        ("OPTIONS", None, "POST"),
        ("OPTIONS", APP, None),
        ("OPTIONS", OTHER, "POST"),
    ],
)
def test_what_is_no_allowed_preflight_is_answered_as_ever(
    method: str, origin: str | None, asked_method: str | None
) -> None:
    assert ONE.preflight_headers(method, origin, asked_method) is None


@pytest.mark.parametrize(
    ("origin", "host", "own"),
    [
        ("https://chat.example.com", "chat.example.com", True),
        ("https://chat.example.com", "Chat.Example.com", True),
        ("http://chat.example.com:9000", "chat.example.com:9000", True),
        ("http://127.0.0.1:8080", "127.0.0.1:8081", True),
        ("http://[::1]:8080", "[::1]:8081", True),
        ("http://127.0.0.1:3000", "127.0.0.1:8081", False),
        ("http://localhost:8080", "127.0.0.1:8081", False),
        ("https://app.example.com", "chat.example.com", False),
        ("https://chat.example.com.evil.example", "chat.example.com", False),
        ("https://chat.example.com", "", False),
        ("https://chat.example.com", "chat.example.com:x", False),
        ("null", "null", False),
        ("", "", False),
    ],
)
def test_a_page_of_the_server_itself(origin: str, host: str, own: bool) -> None:
    assert is_own_page(origin, host, http_port=8080) is own


def test_a_port_that_goes_without_saying_is_the_http_port() -> None:
    assert is_own_page("http://chat.example", "chat.example:8081", http_port=80)
    assert is_own_page("https://chat.example", "chat.example:8081", http_port=443)
    assert not is_own_page("https://chat.example", "chat.example:8081", http_port=80)
