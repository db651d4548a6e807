"""How a response's log leaves: one encoder a protocol, without a socket."""
