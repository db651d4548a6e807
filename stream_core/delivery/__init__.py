"""When each reader is sent what is new, and how much at once."""
