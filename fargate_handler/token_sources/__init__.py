"""Token sources: where a handler's tokens come from, behind one port."""
