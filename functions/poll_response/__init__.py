"""`GET /chat/message/{response_id}`: the long-poll over the response buffer."""
