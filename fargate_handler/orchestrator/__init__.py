"""From an accepted message to a finished response: admission, fair bounded queue, generations with deadlines."""
