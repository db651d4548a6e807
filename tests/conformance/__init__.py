"""Clients of other protocols as they come from their registries, unmodified, against a handler."""
