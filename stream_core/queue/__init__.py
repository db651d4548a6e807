"""The fair queue before a model: by tokens served, service classes, addresses and deadlines."""
