"""The shared parts of HTTP: routes, error answers, content encodings, pieces of OpenAPI."""
