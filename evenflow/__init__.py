"""The operator's command, `evenflow`: what is done beside running servers, on their store."""
