"""`/api/chat`, which Vercel's AI SDK calls."""
