"""Evenflow's protocol in the events of OpenAI's Realtime API."""
