"""Finds what an environment has left behind, and deletes it or has it adopted."""
