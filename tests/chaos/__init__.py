"""The chaos harness: several handlers under load, faults, and clients that check every index.

`python -m tests.chaos --help`.
"""
