"""The contract for machines: an OpenAPI and an AsyncAPI document, made from the message models.

A new HTTP call is a row of `http_operations.OPERATIONS`; a new WebSocket is one of `websocket_endpoints.WEBSOCKETS`, and a new
frame on one that there is belongs to a union of its messages.
"""
