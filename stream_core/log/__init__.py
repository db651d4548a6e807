"""The log of a response, and the conversation of a session."""
