"""A response as OpenAI's Responses API tells it: events with sequence numbers, and one object."""
