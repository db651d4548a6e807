"""`GET /openapi.json` and `GET /asyncapi.json`, with this node's limits."""

from __future__ import annotations

import orjson
from aiohttp import web

from evenflow.stream_core.api_documents.asyncapi import asyncapi_document
from evenflow.stream_core.api_documents.openapi import openapi_document
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.http.routes import ASYNCAPI, OPENAPI

_HEADERS = {"Cache-Control": "public, max-age=3600"}


class DocumentsEndpoint:
    """Serves both documents. They are written at the start."""

    def __init__(self, limits: Limits) -> None:
        self._bodies = {
            OPENAPI.path: orjson.dumps(openapi_document(limits)),
            ASYNCAPI.path: orjson.dumps(asyncapi_document(limits)),
        }

    async def get(self, request: web.Request) -> web.Response:
        """The document of the path."""
        return web.Response(
            body=self._bodies[request.path], headers=_HEADERS, content_type="application/json"
        )
