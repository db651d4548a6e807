"""Adapters of the core's ports to AWS."""
