"""Session tokens, OIDC tokens, rights, and the hosts and origins that are allowed."""
