"""Asks through the front door as a client does: `make smoke`, and the canary of each minute."""
