"""The pages that are written by code."""
