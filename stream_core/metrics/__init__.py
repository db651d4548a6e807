"""The metric catalogue, and snapshots of its values."""
