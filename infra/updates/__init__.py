"""Compares deployed with synthesized stacks: what an update can't do, and the steps to take."""
