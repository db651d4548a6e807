"""The handler: gateway (WebSocket, SSE, HTTP), orchestrator, token sources."""
