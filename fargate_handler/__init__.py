"""The container: gateway (WebSocket, SSE, HTTP), orchestrator, token sources."""
