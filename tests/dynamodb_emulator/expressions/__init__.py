"""Expressions: conditions, updates, projections, key conditions."""
