"""Content filters between a model and its response's log."""
