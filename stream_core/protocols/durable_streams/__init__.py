"""Durable Streams: an answer's log read by offset over plain HTTP."""
