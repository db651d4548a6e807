"""The tool that the chaos model calls."""

QUERY = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
TOOLS = [
    {
        "type": "function",
        "function": {"name": "look_up", "description": "Looks something up.", "parameters": QUERY},
    }
]
