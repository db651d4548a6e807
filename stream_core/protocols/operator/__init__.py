"""What operators ask a node, and what it answers."""
