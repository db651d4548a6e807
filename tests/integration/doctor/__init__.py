"""`evenflow doctor` in front of real proxies that are set up wrongly."""
