"""The table of usage by day and model, and the statements that fill it in an earlier file."""

from __future__ import annotations

USAGE_TABLES = (
    # What a tenant's answers used: of each user, and of all users where `user` is empty.
    """CREATE TABLE usage_totals (
    tenant TEXT NOT NULL,
    user TEXT NOT NULL,
    day TEXT NOT NULL,
    model TEXT NOT NULL,
    answers INTEGER NOT NULL,
    input_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    cached_tokens INTEGER NOT NULL,
    reasoning_tokens INTEGER NOT NULL,
    nanodollars INTEGER NOT NULL,
    expires_at REAL NOT NULL,
    PRIMARY KEY (tenant, user, day, model)
) STRICT""",
    "CREATE INDEX expiring_usage_totals ON usage_totals (expires_at)",
)

# Earlier versions kept any count of a model's server, and the sum must fit into 64 bits.
_COUNTED_BEFORE = ", ".join(
    f"CAST(sum(min(ifnull(record ->> '{name}', 0), 1000000000000)) AS INTEGER)"
    for name in ("input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens")
)
TOTALS_OF_RECORDS = (
    f"""INSERT INTO usage_totals
SELECT tenant, user, day, record ->> 'model' AS model, count(*), {_COUNTED_BEFORE},
    CAST(sum(min(ifnull(record ->> 'nanodollars', 0), 1000000000000000)) AS INTEGER),
    max(expires_at)
FROM usage_records GROUP BY tenant, user, day, model""",
    # Until here the rows without a user are of answers without one. They become those of all users.
    """INSERT INTO usage_totals
SELECT tenant, '', day, model, sum(answers), sum(input_tokens), sum(output_tokens),
    sum(cached_tokens), sum(reasoning_tokens), sum(nanodollars), max(expires_at)
FROM usage_totals WHERE user <> '' GROUP BY tenant, day, model
ON CONFLICT DO UPDATE SET answers = answers + excluded.answers,
    input_tokens = input_tokens + excluded.input_tokens,
    output_tokens = output_tokens + excluded.output_tokens,
    cached_tokens = cached_tokens + excluded.cached_tokens,
    reasoning_tokens = reasoning_tokens + excluded.reasoning_tokens,
    nanodollars = nanodollars + excluded.nanodollars,
    expires_at = max(expires_at, excluded.expires_at)""",
)
"""The statements that fill it from the usage records of an earlier version."""
