"""Content filters, which check an answer while it streams."""
