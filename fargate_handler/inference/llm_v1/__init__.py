"""Messages and stubs of `proto/llm/v1/inference.proto`, written by `make proto`."""
