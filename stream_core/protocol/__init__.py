"""What clients and Evenflow say to each other."""
