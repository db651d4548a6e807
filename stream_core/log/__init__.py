"""The log of a response: entries, folding, resume points."""
