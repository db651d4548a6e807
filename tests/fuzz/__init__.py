"""Random bytes from clients and from the model's server, for as long as one likes: `__main__`."""
