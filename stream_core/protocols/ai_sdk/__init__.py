"""The data stream of Vercel's AI SDK, which `useChat` reads."""
