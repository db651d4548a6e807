"""A backend of your own behind Evenflow: any server that speaks OpenAI's streaming API, here with FastAPI.

pip install fastapi uvicorn && uvicorn examples.backend:app --port 9000
EVENFLOW_MODEL=openai EVENFLOW_MODEL_URL=http://127.0.0.1:9000/v1 make run
"""

import json
from collections.abc import AsyncIterator
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse

app = FastAPI()


@app.post("/v1/chat/completions")
async def answer(request: Request) -> StreamingResponse:
    asked = await request.json()
    who = request.headers.get("Evenflow-User", "you")
    about = json.loads(request.headers.get("Evenflow-Metadata", "{}"))

    async def stream() -> AsyncIterator[str]:
        for word in f"Hello {who}, {about.get('topic', 'what')}? {asked['messages'][-1]['content']}".split():
            yield _event({"content": f"{word} "}, None)
        yield _event({}, "stop") + "data: [DONE]\n\n"

    return StreamingResponse(stream(), media_type="text/event-stream")


def _event(delta: dict[str, Any], finish_reason: str | None) -> str:
    chunk = {
        "id": "c",
        "object": "chat.completion.chunk",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}],
    }
    return f"data: {json.dumps(chunk)}\n\n"
