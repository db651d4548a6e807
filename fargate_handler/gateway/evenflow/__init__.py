"""Evenflow's own protocol: `/ws`, `/session`, `/chat/…`, `/usage`."""
