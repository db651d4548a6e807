"""From an accepted message to a finished response: acceptance, fair queue, generations."""
