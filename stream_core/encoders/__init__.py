"""Encoders: a response's log as bytes of a protocol. There is one a protocol, without a socket."""
