"""Whose turn it is: by tokens that were given, service classes, addresses and deadlines."""
