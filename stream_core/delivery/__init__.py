"""When and how much each reader is given."""
