"""HTTP: connections, the intake of calls, senders, error shapes, cookies, CORS."""
