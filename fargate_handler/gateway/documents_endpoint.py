"""`GET /openapi.json` and `GET /asyncapi.json`, with this node's limits."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import orjson
from aiohttp import web

from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.http.routes import ASYNCAPI, OPENAPI

_HEADERS = {"Cache-Control": "public, max-age=3600"}


class DocumentsEndpoint:
    """Serves both documents. They are written at the first call for one."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._bodies: Mapping[str, bytes] = {}

    async def get(self, request: web.Request) -> web.Response:
        """The document of the path."""
        if not self._bodies:
            # In a thread, since it takes 0.2 s. Answers are delivered meanwhile.
            self._bodies = await asyncio.to_thread(_documents, self._limits)
        return web.Response(
            body=self._bodies[request.path], headers=_HEADERS, content_type="application/json"
        )


def _documents(limits: Limits) -> dict[str, bytes]:
    """Both documents, by their paths."""
    # To import and write them would be a seventh of a start, and few servers are called for them.
    from evenflow.stream_core.api_documents.asyncapi import asyncapi_document  # noqa: PLC0415
    from evenflow.stream_core.api_documents.openapi import openapi_document  # noqa: PLC0415

    return {
        OPENAPI.path: orjson.dumps(openapi_document(limits)),
        ASYNCAPI.path: orjson.dumps(asyncapi_document(limits)),
    }
