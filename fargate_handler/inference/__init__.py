"""Handlers and workers: the model in a process of its own, over gRPC."""
