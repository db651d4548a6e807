"""From an accepted message to a finished response: admission, fair bounded queue, workers with deadlines."""
