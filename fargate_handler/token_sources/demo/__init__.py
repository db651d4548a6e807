"""The demo model: answers about Evenflow from its own docs, with the timing of a real model."""
