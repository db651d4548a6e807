"""The ports of a node's stores, and these stores in memory."""
