"""The WebSocket dialect of `/v1/realtime`."""
