"""A session's conversation: its messages, their order and their rates."""
