"""The OpenAPI and the AsyncAPI document, made from the message models.

A new HTTP call is a row of one of the tables that `http_operations.OPERATIONS` joins. A new
WebSocket is a row of `websocket_endpoints.WEBSOCKETS`. A new frame belongs to a union of its
endpoint's messages.
"""
