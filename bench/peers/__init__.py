"""Evenflow beside what a user might pick instead: one model server, one load, the same checks."""
