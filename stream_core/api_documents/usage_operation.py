"""The call that tells what was used."""

from __future__ import annotations

from evenflow.stream_core.http import routes
from evenflow.stream_core.http.operation import Answer, Operation, Parameter, refusals
from evenflow.stream_core.http.refusal_codes import ANY, KEY
from evenflow.stream_core.protocols.evenflow.http_bodies import UsageReport

_DAY = {"type": "string", "format": "date"}

USAGE_OPERATION = Operation(
    routes.USAGE,
    "readUsage",
    "What the tenant of the key has used by day and model, and what is left of its budgets. With a "
    "session's token: what the session's user has.",
    answers=(Answer(200, "The days that have any answers, and the budgets now.", UsageReport),),
    refusals=refusals(
        ANY,
        KEY,
        {
            400: ("invalid_field",),
            404: ("usage_not_found", "path_not_found"),
            503: ("store_unavailable",),
        },
    ),
    parameters=(
        Parameter("from", "query", "The first day of UTC. Default: of the month of `to`.", _DAY),
        Parameter("to", "query", "The last day of UTC. Default: today.", _DAY),
    ),
    security=("tenantKey", "session"),
)
