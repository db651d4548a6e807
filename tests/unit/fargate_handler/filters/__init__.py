"""Tests of content filters before the log."""
