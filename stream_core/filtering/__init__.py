"""Content filters: what may stand in an answer, decided while it streams."""
