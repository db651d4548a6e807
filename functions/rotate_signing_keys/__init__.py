"""Rotation of the keys that sign session tokens, by Secrets Manager's steps."""
