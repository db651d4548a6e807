"""`POST /session`: a token for a session, new or continued."""
