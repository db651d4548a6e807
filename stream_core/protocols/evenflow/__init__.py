"""Evenflow's own protocol: WebSocket frames, events, long polls, session start."""
