"""`evenflow doctor URL`: what the hops between readers and a server do to its streams."""
