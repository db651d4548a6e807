"""Requests that bring their whole conversation: submission, models, resuming."""
