"""Streams of OpenAI-compatible servers, read by stock clients directly and through Evenflow."""
