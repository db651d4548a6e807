"""What the APIs share whose requests bring their whole conversation."""
