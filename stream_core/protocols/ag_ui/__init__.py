"""AG-UI: runs of an agent as events."""
