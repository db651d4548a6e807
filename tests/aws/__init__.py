"""Evenflow on an emulated AWS: `python -m tests.aws` (make run-aws), and the tests that look at
it.
"""
