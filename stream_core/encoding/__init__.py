"""What encoders of answers share: server-sent events, blocks, the end of an answer."""
