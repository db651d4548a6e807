"""Faults that the tests must find, each a patch, and the command that tries them:
`python -m tests.mutations`.
"""
