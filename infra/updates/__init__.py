"""Compares what is deployed with what is synthesized: what an update can't do, and what to do."""
