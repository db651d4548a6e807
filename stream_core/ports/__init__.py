"""What a node needs of the outside, and the store in memory."""
