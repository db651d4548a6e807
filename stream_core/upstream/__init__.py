"""How many calls a model server takes, and how they are divided between tenants and nodes."""
