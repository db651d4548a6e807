"""A backend of your own behind Evenflow: it answers as OpenAI's streaming API does, and knows
for whom.

    pip install fastapi uvicorn
    python -m uvicorn examples.backend:app
"""

import json
from collections.abc import AsyncIterator

from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse

app = FastAPI()


@app.post("/v1/chat/completions")
async def answer(request: Request) -> StreamingResponse:
    question = (await request.json())["messages"][-1]["content"]
    user = request.headers.get("Evenflow-User", "You")
    about = json.loads(request.headers.get("Evenflow-Metadata", "{}"))

    async def words() -> AsyncIterator[str]:
        # Look things up, call your tools, ask a model: whatever yields text.
        for word in (f"{user}, ", f"on page {about.get('page')} ", "you asked: ", question):
            yield f"data: {json.dumps({'choices': [{'index': 0, 'delta': {'content': word}}]})}\n\n"
        yield (
            'data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}\n\ndata: '
            "[DONE]\n\n"
        )

    return StreamingResponse(words(), media_type="text/event-stream")
