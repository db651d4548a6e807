"""Limits, agents, session tokens and keys: who may do what, and how much."""
