"""The protocol between clients and Evenflow."""
