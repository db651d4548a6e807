"""Durable Streams."""
