"""The table of routes: what the edge makes of it."""

from __future__ import annotations

import fnmatch

import pytest

from evenflow.stream_core.auth.rights import Right
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.http.routes import (
    EVENTS,
    GET_MODEL,
    LIMITS_OF,
    OPENAPI,
    ROUTES,
    Bound,
    Credential,
    Route,
    ServedBy,
    edge_patterns,
    paths_of,
    routes_of,
)

# CloudFront's behaviors, in the order in which it tries them.
_AT_THE_EDGE = (ServedBy.HANDLER, ServedBy.SESSION_INIT, ServedBy.POLL_RESPONSE)


@pytest.mark.parametrize("route", ROUTES, ids=str)
def test_the_first_pattern_that_matches_a_path_leads_to_its_origin(route: Route) -> None:
    names = {"response_id": "r1", "session_id": "ses_1", "chat_id": "c1"}
    names |= {"model": "org/m", "name": "page.js"}
    path = route.with_names(**names, epoch="1", first="0", last="9")
    leads_to = next(
        (
            origin
            for origin in _AT_THE_EDGE
            if any(fnmatch.fnmatchcase(path, pattern) for pattern in edge_patterns(origin))
        ),
        None,
    )
    behind_the_edge = route.served_by in _AT_THE_EDGE
    assert leads_to == (route.served_by if behind_the_edge else None)


def test_a_method_of_a_path_is_answered_once() -> None:
    assert len({(route.method, route.path) for route in ROUTES}) == len(ROUTES)


def test_no_route_is_without_terms() -> None:
    with pytest.raises(TypeError):
        Route("GET", "/new")  # type: ignore[call-arg]


@pytest.mark.parametrize("route", ROUTES, ids=str)
def test_the_terms_of_a_route_are_those_of_its_kind(route: Route) -> None:
    terms = route.terms
    needs_none = terms.credential in (Credential.NOTHING, Credential.OPERATOR, Credential.OPENER)
    assert (terms.right is None) is needs_none
    assert (terms.bound is Bound.MACHINE) is (route.served_by is ServedBy.MACHINE)
    assert terms.cost > 0
    if terms.bound is Bound.STREAM:
        assert (route.method, terms.right) == ("GET", Right.READ)
    if route.method != "GET":
        assert terms.right is not Right.READ, "a call that changes something needs another right"


@pytest.mark.parametrize("bound", Bound)
def test_what_bounds_a_call_are_limits(bound: Bound) -> None:
    assert set(LIMITS_OF[bound]) <= set(Limits.model_fields)


def test_paths() -> None:
    assert EVENTS.pattern == "/chat/message/*/events"
    assert EVENTS.with_names(response_id="a") == "/chat/message/a/events"
    assert GET_MODEL.public_path == "/v1/models/{model}"
    assert paths_of(ServedBy.MACHINE) == {"/health", "/metrics", "/drain", "/operator"}
    assert {route.path for route in routes_of(ServedBy.SESSION_INIT)} == {"/session"}


@pytest.mark.parametrize(
    ("route", "path", "names"),
    [
        (EVENTS, "/chat/message/a/events", {"response_id": "a"}),
        (EVENTS, "/chat/message/a/b/events", None),
        (EVENTS, "/chat/message//events", None),
        (GET_MODEL, "/v1/models/org/m", {"model": "org/m"}),
        (OPENAPI, "/openapi.json", {}),
        (OPENAPI, "/openapiXjson", None),
    ],
)
def test_a_route_matches_its_paths(route: Route, path: str, names: dict[str, str] | None) -> None:
    assert route.match(path) == names
