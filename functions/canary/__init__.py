"""Reads answers through the public address as a client does: `make smoke`, and the canary."""
