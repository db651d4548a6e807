"""What takes minutes of real time: `make soak`."""
