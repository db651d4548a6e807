"""Random bytes and odd requests, for as long as one likes: `__main__`."""
