"""The gateway: the WebSocket listener and the HTTP endpoints."""
