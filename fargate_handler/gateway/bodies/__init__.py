"""Reads what request bodies have in common: JSON values, chat messages, answer lengths."""
