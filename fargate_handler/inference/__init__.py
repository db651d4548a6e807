"""Handlers and workers: the model called from a process of its own, over gRPC."""
