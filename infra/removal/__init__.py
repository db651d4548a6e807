"""Finds what an environment has left behind, to delete or adopt it."""
