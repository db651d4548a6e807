"""Limits of what a client, an address or a node uses: rates, connections, memory."""
