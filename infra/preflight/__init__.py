"""Looks before a deployment whether the account has what it needs (`make preflight`)."""
