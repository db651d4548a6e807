"""`python -m fargate_handler --role worker`: a model behind gRPC, for handlers on other machines."""
