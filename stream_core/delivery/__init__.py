"""When and how much is delivered to whom."""
