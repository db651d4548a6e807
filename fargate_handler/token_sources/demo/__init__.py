"""The built-in demo model: true answers about Evenflow from its own docs, with the timing of a real model."""
