"""Answers over HTTP: server-sent events, and whole answers."""
