"""`GET /chat/message/{response_id}`: the long poll of the response store."""
