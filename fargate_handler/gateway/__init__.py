"""Where clients come in: the WebSocket listener and the HTTP endpoints."""
