"""The requirements that the table judges by.

Those that are metrics too have the same targets in docs/metrics.md.
"""

IDLE_KB = 12.0  # server memory for an idle connection (bare picows: 9.0, a tuned Centrifugo: 10.9)
SHARE_OF_BARE_PERCENT = 85.0  # frames a second, of what picows does without Evenflow
JITTER_P95_MS = 10.0  # 10,000 streams at 100 ms on one core, seen by the client
JITTER_P99_MS = 50.0
SHARE_OF_WEBSOCKET_PERCENT = 80.0  # frames a second of SSE and /v1
SHARE_OF_EVENTS_PERCENT = 80.0  # frames a second of an encoder, of the events of evenflow.v1
JITTER_SSE_P95_MS = 15.0  # 10,000 readers at 100 ms, by each transport
SETUP_P95_MS = 100.0  # alone and beside streams (metric ws.connection_setup_ms)
RELAY_TOKENS_PER_CORE = 40_000.0  # a second
RELAY_P50_MS = 2.0  # what /v1 to /v1 adds to 100 streams
RELAY_P95_MS = 10.0
VANISHED_SECONDS = (60.0, 75.0)  # the pong timeout, and what its jitter and the polling may add
FALLBACK_EXTRA_MS = 200.0  # p95 (metric fallback.poll_latency_ms)
FALLBACK_POLLS = 10.0  # mean for each response (metric fallback.poll_count_per_response)
STORE_WRITE_UNITS = 35.0  # of DynamoDB, an answer of 400 tokens in 20 s that is read at its task
BURST_P50_OF_P95_PERCENT = 60.0  # of the first delta: who asks first reads first
INTERVAL_BACK_SECONDS = 2.0  # after a burst or a storm
AUDIENCE_JITTER_P95_MS = 30.0  # 20,000 readers of one answer at 200 ms, seen by the client
TRACING_PERCENT = 2.0  # of the CPU of an answer, with as many traces as by default
ENDED_BYTES = 1_024.0  # memory of an ended answer, beside twice its text
