"""Evenflow: a resumable streaming server between language models and their readers."""

__version__ = "0.1.0"
