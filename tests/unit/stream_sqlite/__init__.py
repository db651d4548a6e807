"""The stores in a file."""
