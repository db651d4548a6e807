from __future__ import annotations

import pytest

from evenflow.fargate_handler.token_sources.port import ModelOptions


def test_what_is_given() -> None:
    assert ModelOptions().given() == {}
    assert ModelOptions(temperature=0, seed=0, stop=("x",)).given() == {
        "temperature": 0,
        "seed": 0,
        "stop": ("x",),
    }


def test_the_parameters_of_a_request() -> None:
    options = ModelOptions(seed=0, passed={"top_k": 5, "seed": 7})
    assert options.parameters() == {"top_k": 5, "seed": 0}


@pytest.mark.parametrize(
    ("options", "most", "bounded"),
    [
        (ModelOptions(), None, ModelOptions()),
        (ModelOptions(), 9, ModelOptions(max_tokens=9)),
        (ModelOptions(max_tokens=5), 9, ModelOptions(max_tokens=5)),
        (ModelOptions(max_tokens=-1), 9, ModelOptions(max_tokens=9)),
        (ModelOptions(max_completion_tokens=0), 9, ModelOptions(max_completion_tokens=9)),
        (ModelOptions(max_tokens=50), 9, ModelOptions(max_tokens=9)),
        (ModelOptions(max_completion_tokens=50), 9, ModelOptions(max_completion_tokens=9)),
        (ModelOptions(max_completion_tokens=50), None, ModelOptions(max_completion_tokens=50)),
    ],
)
def test_the_longest_answer_is_the_shorter_of_both(
    options: ModelOptions, most: int | None, bounded: ModelOptions
) -> None:
    assert options.within(most) == bounded
