"""What a client, an address or a tenant may use: rates, connections, memory."""
