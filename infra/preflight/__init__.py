"""Looks before a deployment whether the account has what it needs: `python -m infra.preflight`."""
