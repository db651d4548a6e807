from __future__ import annotations

import pytest

from evenflow.stream_core.base.agents import (
    Agent,
    Agents,
    AgentsError,
    agents_as_json,
    agents_from_json,
    agents_from_toml,
)
from evenflow.stream_core.base.errors import NotFound

TEXT = """
[support]
model = "small"
instructions = "You help."
temperature = 1
max_tokens = 800
context_tokens = 32768
silence_seconds = 20
deadline_seconds = 90.5
suggestions = ["How do I begin?"]

[plain]
"""
SUPPORT = Agent(
    model="small",
    instructions="You help.",
    temperature=1,
    max_tokens=800,
    context_tokens=32_768,
    silence_seconds=20,
    deadline_seconds=90.5,
    suggestions=["How do I begin?"],
)


def test_a_table_is_an_agent_and_json_says_the_same() -> None:
    agents = agents_from_toml(TEXT, "agents.toml")
    assert agents == {"support": SUPPORT, "plain": Agent()}
    assert agents_from_json(agents_as_json(agents), "variable") == agents


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[a]\ntemperature = 3", r"^agents.toml: \[a\] temperature: must be a number from 0 to 2 "),
        (
            "[a]\n[b]\nmax_tokens = 0",
            r"^agents.toml: \[b\] max_tokens: must be a whole number from 1 ",
        ),
        ('[a]\nmax_tokens = "many"', r"\[a\] max_tokens: must be a whole number"),
        (
            "[a]\nprompt = 1",
            r"\[a\] prompt: there is no such field; there are model, instructions, ",
        ),
        (
            '[a]\nsuggestions = ["ok", ""]',
            r"\[a\] suggestions: must be a list of at most 8 questions",
        ),
        ("[a]\nsilence_seconds = 0", r"\[a\] silence_seconds: must be seconds from 0.1"),
        ('["a b"]', r"\[a b\]: an agent's name has"),
        ("a = 1", r"a must be an agent's table, \[a\]"),
        ("", r"one agent at least"),
        ("[a", r"this is not TOML"),
    ],
)
def test_what_is_wrong_is_said_with_its_place_in_one_line(text: str, said: str) -> None:
    with pytest.raises(AgentsError, match=said) as refused:
        agents_from_toml(text, "agents.toml")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", "7"])
def test_json_that_is_no_agents(text: str) -> None:
    with pytest.raises(AgentsError, match=r"^EVENFLOW_AGENTS_JSON: "):
        agents_from_json(text, "EVENFLOW_AGENTS_JSON")


def test_who_names_none_gets_the_default_or_the_first() -> None:
    assert Agents({"b": Agent(), "a": Agent()}).chosen(None) == "b"
    agents = Agents({"b": Agent(), "default": Agent()})
    assert (agents.chosen(None), agents.chosen("b")) == ("default", "b")


def test_an_unknown_agent_is_refused_with_the_names_there_are_now() -> None:
    agents = Agents({"b": Agent()})
    agents.replace({f"a{number}": Agent() for number in range(30)})
    with pytest.raises(NotFound, match=r"'b'.* a0, a1, .*a19, …$"):
        agents.chosen("b")
