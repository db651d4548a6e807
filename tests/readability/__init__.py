"""Measures how the product reads: sizes, circles between folders, names and phrases."""
