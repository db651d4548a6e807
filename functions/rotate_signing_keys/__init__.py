"""Rotation of the keys that sign session tokens, as Secrets Manager calls it."""
