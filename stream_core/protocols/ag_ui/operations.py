"""The calls of AG-UI's runs, as OpenAPI describes them."""

from __future__ import annotations

from evenflow.stream_core.http import routes
from evenflow.stream_core.http.error_codes import (
    ANY,
    BODY,
    COMPLETING,
    KEY,
    STOPPING,
)
from evenflow.stream_core.http.operation import (
    FIRST_TOKEN,
    KEYS,
    LAST_CHUNK_ID,
    Answer,
    Operation,
    merged_codes,
)
from evenflow.stream_core.protocols.ag_ui.bodies import RunEvent, RunName, RunRequest
from evenflow.stream_core.protocols.ai_sdk.bodies import (
    Stopped,
)

_RUN = Operation(
    routes.RUN,
    "runAgent",
    "Run an agent for AG-UI's `HttpAgent`. The same `threadId` and `runId` again give the same "
    "run, and nothing is generated twice.",
    answers=(
        Answer(
            200,
            "The events of the run.",
            content_type="text/event-stream",
            headers=("Evenflow-Via",),
            chunks=(RunEvent,),
        ),
    ),
    errors=merged_codes(ANY, BODY, KEY, COMPLETING, {404: ("agent_not_found",)}),
    parameters=(LAST_CHUNK_ID, FIRST_TOKEN),
    body=RunRequest,
    security=KEYS,
)
_RUN_STOP = Operation(
    routes.RUN_STOP,
    "stopRun",
    "Stop a run, and its model, even if it has readers.",
    answers=(Answer(200, "The run has ended.", Stopped),),
    errors=merged_codes(ANY, BODY, KEY, STOPPING),
    body=RunName,
    security=KEYS,
)

AG_UI_OPERATIONS = (_RUN, _RUN_STOP)
