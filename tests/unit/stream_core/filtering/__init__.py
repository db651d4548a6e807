"""Tests of content filters."""
