"""Connections of clients: accepting, addresses, credentials, limits; what endpoints share."""
