"""One folder a protocol: bodies, encoder and operations of its API. No socket."""
