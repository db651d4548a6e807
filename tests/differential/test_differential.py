"""What a stock client reads directly, it reads the same through Evenflow: a few streams of the many
of `python -m tests.differential`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from random import Random

import pytest

from tests.differential.clients import ClientProcess, PythonClient, javascript_client
from tests.differential.comparison import WANTED, compared, differences, readings_differ
from tests.differential.reading import Reading
from tests.differential.streams import UpstreamStream, upstream_stream
from tests.differential.through_evenflow import passed_on

_PYTHON = PythonClient()


@pytest.fixture(scope="module")
def javascript() -> Iterator[ClientProcess]:
    """OpenAI's client for JavaScript."""
    with javascript_client() as client:
        yield client


def test_both_of_openai_s_clients_read_the_same(javascript: ClientProcess) -> None:
    seen = Counter[str]()
    for number in range(200):
        stream = upstream_stream(Random(number))
        assert compared([_PYTHON, javascript], stream, seen) == [], stream
    # Most streams must be equal in everything.
    assert seen["nothing odd"] > 100


def test_every_difference_that_is_wanted_is_met() -> None:
    met = {trait for number in range(3_000) for trait in upstream_stream(Random(number)).traits}
    assert met == set(WANTED)


def _stream(*deltas: dict[str, object]) -> UpstreamStream:
    choices = [[{"index": 0, "delta": delta}] for delta in deltas]
    choices.append([{"index": 0, "delta": {}, "finish_reason": "stop"}])
    events = [f"data: {json.dumps({'choices': each})}\n\n".encode() for each in choices]
    return UpstreamStream((*events, b"data: [DONE]\n\n"), frozenset(), 1)


def test_a_difference_is_found() -> None:
    stream = _stream({"content": "a"}, {"content": "b"})
    less = replace(stream, pieces=stream.pieces[1:])
    found, *_ = differences(_PYTHON, stream, passed_on(less.pieces, 1))
    assert found.startswith("openai-python: text: directly 'ab', through 'b'")


@pytest.mark.parametrize(
    ("direct", "through"),
    [
        (Reading(), Reading(error="it broke off")),
        (Reading(reasoning="a"), Reading()),
        (Reading(second="a"), Reading(second="b")),
        (Reading(calls=[["c", "f", "{}"]]), Reading()),
        (Reading(calls=[["c", "f", "{}"]]), Reading(calls=[["d", "f", "{}"]])),
        (Reading(finish="length"), Reading(finish="stop")),
        (Reading(usage=[1, 2]), Reading()),
        (Reading(text="a", error="what"), Reading()),
    ],
)
def test_each_field_is_compared(direct: Reading, through: Reading) -> None:
    assert readings_differ("a client", _stream(), direct, through)
    assert not readings_differ("a client", _stream(), direct, direct)
