"""Faults that the tests must find, each some edits of the code, and the command that tries them:
`python -m tests.mutations`.
"""
