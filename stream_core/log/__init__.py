"""Responses: text in order, and what is remembered of a conversation."""
