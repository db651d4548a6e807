"""Clients as they come from their registries, under chaos: each in a process of its own."""
