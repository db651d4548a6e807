"""What all HTTP calls share: routes, error answers, content encodings, pieces of OpenAPI."""
