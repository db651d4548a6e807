"""LiteLLM's reader, as a process: a body a line in base64, and what was read as a line of JSON.

It runs in an environment of its own, which has LiteLLM and nothing of Evenflow's.
"""

from __future__ import annotations

import base64
import json
import logging
import os
import sys

import httpx
import litellm
from openai import OpenAI

from tests.differential.reading import Reading, read_chunks


class _Bodies(httpx.BaseTransport):
    """Answers with the body that is set."""

    body = b""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """The answer to any request."""
        headers = {"content-type": "text/event-stream"}
        return httpx.Response(200, headers=headers, content=self.body, request=request)


def main() -> None:
    """Read until the standard input ends."""
    litellm.suppress_debug_info = True
    logging.disable(logging.CRITICAL)
    told = os.fdopen(os.dup(1), "w")  # what others print is not for who reads this
    os.dup2(2, 1)
    bodies = _Bodies()
    openai = OpenAI(
        api_key="sk-none",
        base_url="http://127.0.0.1:9/v1",
        max_retries=0,
        http_client=httpx.Client(transport=bodies),
    )
    for line in sys.stdin:
        bodies.body = base64.b64decode(line)
        print(json.dumps(_read(openai).to_object()), file=told, flush=True)


def _read(client: OpenAI) -> Reading:
    try:
        chunks = litellm.completion(
            model="openai/m",
            messages=[{"role": "user", "content": "hi"}],
            stream=True,
            stream_options={"include_usage": True},
            client=client,
            max_retries=0,
        )
    except Exception as error:
        return Reading(error=f"{type(error).__name__}: {error}"[:200])
    reading = read_chunks(chunks)
    reading.usage = None  # where there is none, it is an estimate
    return reading


if __name__ == "__main__":
    main()
