"""What each error code means to the program that receives it: the text of the reference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class ErrorText(NamedTuple):
    """The text of one code.

    Args:
        cause: what happened.
        kept: what the server kept, or did not do.
        remedy: what the caller, or the operator, does next.
    """

    cause: str
    kept: str
    remedy: str


_NOTHING_DONE = "Nothing was done."
_NOTHING_ACCEPTED = "Nothing was accepted."
_NOT_ACCEPTED = "The message was not accepted. Running answers go on."
_NOTHING_GENERATED = "Nothing was generated."
_DELIVERED = "What was delivered."
_RENEW = "Get a new token from the identity provider."
_LATER = "Send it again after `retry_after_ms`."
_SAME_LATER = "Send the same request again after `retry_after_ms`."

ERROR_TEXTS: Mapping[str, Mapping[str, ErrorText]] = {
    "The request": {
        "invalid_json": ErrorText(
            "The body or the frame is not JSON.",
            _NOTHING_ACCEPTED,
            "Correct the JSON; the message says where it breaks.",
        ),
        "invalid_field": ErrorText(
            "A field is missing, has the wrong type, or has a value outside its range.",
            _NOTHING_ACCEPTED,
            "Correct the field that `param` names.",
        ),
        "invalid_request": ErrorText(
            "`replaces` or `parent_message_id` names no message of this conversation, or both are "
            "set.",
            _NOTHING_ACCEPTED,
            "Read the session's messages, and send the id of one of them.",
        ),
        "unknown_type": ErrorText(
            "A WebSocket frame has no `type`, or one that the protocol does not have.",
            "Nothing was changed.",
            "Use one of the types that the message lists.",
        ),
        "bad_request": ErrorText(
            "The request breaks HTTP or the WebSocket handshake, or its body is not what its "
            "`Content-Encoding` says.",
            _NOTHING_ACCEPTED,
            "Correct the request. Behind a proxy, run `evenflow doctor`.",
        ),
        "array_above_max_length": ErrorText(
            "The request has more messages, parts or tools than a request may have.",
            _NOTHING_GENERATED,
            "Send fewer; [limits.md](../limits.md) has the numbers.",
        ),
        "message_too_large": ErrorText(
            "The body, the message or the conversation is larger than a message may be.",
            _NOTHING_ACCEPTED,
            "Send less, or raise `EVENFLOW_MESSAGE_BYTES`.",
        ),
        "head_too_large": ErrorText(
            "A header, or the head of a WebSocket handshake, is longer than 16 KiB.",
            _NOTHING_ACCEPTED,
            "Send fewer cookies, or a shorter token.",
        ),
        "body_timeout": ErrorText(
            "The body arrived too slowly.",
            _NOTHING_ACCEPTED,
            "Send it again. If it recurs, look for a proxy that delays uploads.",
        ),
        "unsupported_media_type": ErrorText(
            "A page of another origin sent a body without `Content-Type: application/json` and "
            "without a token.",
            _NOTHING_ACCEPTED,
            "Set the content type that `expected` names.",
        ),
        "unsupported_encoding": ErrorText(
            "The body's `Content-Encoding` is not supported.",
            _NOTHING_ACCEPTED,
            "Use one that `Accept-Encoding` of the answer lists, or none.",
        ),
        "unsupported_subprotocol": ErrorText(
            "None of the offered WebSocket subprotocols is served at this path.",
            "No connection was opened.",
            "Offer one that the message lists.",
        ),
        "upgrade_required": ErrorText(
            "A WebSocket path was called without a WebSocket handshake, or with a version other "
            "than 13.",
            "No connection was opened.",
            "Use a WebSocket client. A proxy must pass `Upgrade` and `Connection`: run `evenflow "
            "doctor`.",
        ),
        "method_not_allowed": ErrorText(
            "The path exists, but does not accept this method.",
            _NOTHING_DONE,
            "Use the method that openapi.json gives.",
        ),
        "unsupported_parameter": ErrorText(
            "A parameter is not supported here, or the model does not accept it.",
            _NOTHING_GENERATED,
            "Leave out the parameter that `param` names.",
        ),
        "unsupported_value": ErrorText(
            "A parameter has a value that is not supported here.",
            _NOTHING_GENERATED,
            "Change the field that `param` names as the message says.",
        ),
        "idempotency_key_reused": ErrorText(
            "The `Idempotency-Key` was used for a different request.",
            _NOTHING_GENERATED,
            "Use a new key for a new request, and the old key only for the same body.",
        ),
        "causal_violation": ErrorText(
            "`previous_message_id` is not the session's last message.",
            _NOTHING_ACCEPTED,
            "Read the new messages, then send this one after the message in `expected`.",
        ),
        "call_not_open": ErrorText(
            "No tool call of this answer waits for that result.",
            "Nothing was changed.",
            "Resume the answer to see its open calls.",
        ),
    },
    "Keys, tokens and rights": {
        "token_missing": ErrorText(
            "The call needs a session token.",
            _NOTHING_DONE,
            "Open a session with `POST /session`, and send its token.",
        ),
        "token_invalid": ErrorText(
            "The session token has no valid signature, or does not open this response.",
            "Nothing was changed.",
            "Get a new one with `POST /session` and the same `session_id`.",
        ),
        "token_expired": ErrorText(
            "The session token has expired.",
            "The session and its running answers.",
            "Get a new one with `POST /session` and the same `session_id`, then connect again.",
        ),
        "token_revoked": ErrorText(
            "The key that opened the session was removed, or the server now requires a key.",
            "The session, until it expires.",
            "Call `POST /session` with a valid key and the same `session_id`.",
        ),
        "tenant_key_invalid": ErrorText(
            "The tenant's key is missing or wrong.",
            "No session was opened.",
            "Send the key as `Authorization: Bearer <key>`.",
        ),
        "invalid_api_key": ErrorText(
            "A call of `/v1`, or an operator's call, has no valid key.",
            _NOTHING_DONE,
            "Send the tenant's key, or `EVENFLOW_DRAIN_KEY`, as `Authorization: Bearer <key>`.",
        ),
        "key_scope": ErrorText(
            "The key is valid, but its scopes do not include this call.",
            _NOTHING_DONE,
            "Use a key with the scope that the message names.",
        ),
        "not_permitted": ErrorText(
            "The token lacks a right: read, write or cancel.",
            "Nothing was changed.",
            "Use a token whose `may` has that right.",
        ),
        "origin_not_allowed": ErrorText(
            "The page's origin is not allowed by the server or by the tenant.",
            _NOTHING_DONE,
            "Add the origin to `EVENFLOW_ALLOWED_ORIGINS`, or to the tenant's record.",
        ),
        "host_not_allowed": ErrorText(
            "The request's `Host` is none of this server's names. In AWS, the HTTP API was called "
            "directly.",
            _NOTHING_ACCEPTED,
            "Add the name to `EVENFLOW_ALLOWED_HOSTS`; in AWS, call the CloudFront address.",
        ),
        "tenant_removed": ErrorText(
            "The tenant was removed, with everything opened for it.",
            _NOTHING_DONE,
            "Ask the operator.",
        ),
        "tenant_unknown": ErrorText(
            "The identity token names a tenant without a record, while other tenants have one.",
            _NOTHING_DONE,
            "Add it with `evenflow tenants add`.",
        ),
        "identity_token_invalid": ErrorText(
            "The identity token is not signed by its issuer, or never expires.",
            _NOTHING_DONE,
            _RENEW,
        ),
        "identity_token_algorithm": ErrorText(
            "The identity token is signed with an algorithm that is not accepted.",
            _NOTHING_DONE,
            "Let the provider sign with an algorithm that the message lists.",
        ),
        "identity_token_issuer": ErrorText(
            "The token's `iss` is not a configured issuer.",
            _NOTHING_DONE,
            "Compare `iss` with `EVENFLOW_OIDC_ISSUER`, letter by letter.",
        ),
        "identity_token_audience": ErrorText(
            "The token has a different audience.",
            _NOTHING_DONE,
            "Compare `aud` (Cognito: `client_id`) with `EVENFLOW_OIDC_AUDIENCE`.",
        ),
        "identity_token_expired": ErrorText(
            "The identity token has expired.", _NOTHING_DONE, _RENEW
        ),
        "identity_token_early": ErrorText(
            "The identity token is not valid yet.",
            _NOTHING_DONE,
            "Check the clocks of the server and of the provider.",
        ),
        "identity_key_unknown": ErrorText(
            "The token names a signing key that its issuer does not publish.",
            _NOTHING_DONE,
            _RENEW,
        ),
        "identity_keys_unavailable": ErrorText(
            "The identity provider's keys cannot be fetched.",
            _NOTHING_DONE,
            _SAME_LATER,
        ),
        "identity_claim_invalid": ErrorText(
            "The token is valid, but a claim has no acceptable tenant or user.",
            _NOTHING_DONE,
            "Correct the claim at the provider, or the `EVENFLOW_OIDC_…` setting that names it.",
        ),
        "identity_mismatch": ErrorText(
            "The body names another tenant or user than the identity token.",
            "No session was opened.",
            "Leave `tenant` and `user` out of the body.",
        ),
        "keys_unavailable": ErrorText(
            "The keys of tenants or tokens cannot be read at the moment.",
            "Nothing was changed.",
            _SAME_LATER,
        ),
    },
    "Not found": {
        "path_not_found": ErrorText(
            "The server has no such path, or not at this port.",
            _NOTHING_DONE,
            "Compare the path with openapi.json.",
        ),
        "session_not_found": ErrorText(
            "The token belongs to another session.",
            "Nothing was changed.",
            "Use the session's own token.",
        ),
        "session_ended": ErrorText(
            "The session was ended.",
            "Nothing of it is kept.",
            "Open a new one: `POST /session` without a `session_id`.",
        ),
        "message_not_found": ErrorText(
            "The session has no message with this id.",
            "Nothing was changed.",
            "Read without the parameter, for the newest messages.",
        ),
        "response_not_found": ErrorText(
            "The session has no such response, or this connection does not read it.",
            "Nothing was changed.",
            "Check the id; over a WebSocket, resume the response first.",
        ),
        "response_expired": ErrorText(
            "The response ended too long ago.",
            "Its text is no longer kept (`EVENFLOW_RESPONSE_TTL_SECONDS`, a day).",
            "Ask again with a new message.",
        ),
        "entries_not_found": ErrorText(
            "Some entries of the requested range do not exist under this epoch.",
            "The response.",
            "Read the response live, after the entries that you have.",
        ),
        "agent_not_found": ErrorText(
            "There is no agent with this name.",
            "No session was opened.",
            "Use a name that the message lists.",
        ),
        "model_not_found": ErrorText(
            "There is no model with this name.",
            _NOTHING_GENERATED,
            "Use a name that `GET /v1/models` lists.",
        ),
        "usage_not_found": ErrorText(
            "No usage is reported to this caller.",
            _NOTHING_DONE,
            "Use a tenant's key, or the token of a session that was opened for a named user.",
        ),
        "previous_response_not_found": ErrorText(
            "`previous_response_id` names a response that belongs to another caller, was deleted, "
            "or has expired.",
            _NOTHING_GENERATED,
            "Send the whole conversation as `input`.",
        ),
        "previous_response_in_progress": ErrorText(
            "`previous_response_id` names a response that has not ended.",
            _NOTHING_GENERATED,
            "Ask again when it has ended.",
        ),
    },
    "Rates, limits and budgets": {
        "rate_limited": ErrorText(
            "The session, the key or the address sends calls, frames or messages too fast.",
            _NOTHING_DONE,
            _LATER,
        ),
        "address_rate": ErrorText(
            "In AWS, the firewall counted too many requests from one address.",
            _NOTHING_DONE,
            _LATER,
        ),
        "address_bytes": ErrorText(
            "Requests from one address have too many bytes.",
            _NOTHING_ACCEPTED,
            _LATER,
        ),
        "address_sessions": ErrorText(
            "Too many sessions were opened from one address without a tenant's key.",
            "No session was opened.",
            "Try later, or open sessions with a key. Behind a proxy, set "
            "`EVENFLOW_TRUSTED_PROXIES`.",
        ),
        "tenant_limit": ErrorText(
            "The tenant has reached one of its limits: per minute, or concurrent.",
            "The message was not accepted, and nothing was charged.",
            f"{_LATER} `limit` names it.",
        ),
        "key_limit": ErrorText(
            "The key has reached one of its limits.",
            "The message was not accepted, and nothing was charged.",
            f"{_LATER} `limit` names it.",
        ),
        "user_limit": ErrorText(
            "The user has reached one of their limits.",
            "The message was not accepted, and nothing was charged.",
            f"{_LATER} `limit` names it.",
        ),
        "budget_exhausted": ErrorText(
            "A budget has less left than the most that this answer may cost.",
            _NOT_ACCEPTED,
            "Ask for a shorter answer, wait for the next period, or have the budget raised.",
        ),
        "model_without_price": ErrorText(
            "The tenant has a budget in dollars, and the model has no price.",
            _NOT_ACCEPTED,
            "Name the price in `EVENFLOW_MODEL_PRICES`, or use another model.",
        ),
        "session_in_flight": ErrorText(
            "The session has the maximum number of messages in progress.",
            _NOT_ACCEPTED,
            "Send it again when one has ended.",
        ),
        "tenant_in_flight": ErrorText(
            "The tenant has the maximum number of messages in progress.",
            _NOT_ACCEPTED,
            _LATER,
        ),
        "session_connections": ErrorText(
            "The session has the maximum number of connections.",
            "The open connections.",
            "Close one, or connect with `?replace=1`.",
        ),
        "session_streams": ErrorText(
            "The token has the maximum number of open event streams and polls.",
            "The open streams; a poll's position.",
            "Close one, or poll again from the same index.",
        ),
        "response_readers": ErrorText(
            "The response has the maximum number of readers.",
            "Its readers.",
            "Close one, or raise `EVENFLOW_READERS_PER_RESPONSE`.",
        ),
        "presence_listeners": ErrorText(
            "The response has the maximum number of listeners of its presence.",
            "The response, which can still be read.",
            "Try later.",
        ),
    },
    "The node and its store": {
        "queue_full": ErrorText(
            "The model's queue is full.",
            _NOT_ACCEPTED,
            _LATER,
        ),
        "sessions_full": ErrorText(
            "The node has the maximum number of sessions.",
            _NOTHING_ACCEPTED,
            _LATER,
        ),
        "node_full": ErrorText(
            "The node has the maximum number of connections or requests.",
            _NOTHING_ACCEPTED,
            "Connect again after `retry_after_ms`. If it recurs, add a node.",
        ),
        "node_memory": ErrorText(
            "The node has reached its memory limit.",
            _NOTHING_ACCEPTED,
            f"{_LATER} [limits.md](../limits.md#memory) shows what uses it.",
        ),
        "draining": ErrorText(
            "The node is shutting down.",
            "Running answers, which finish or move to another node.",
            "Connect again, and send the message on the new connection.",
        ),
        "reconnect_storm": ErrorText(
            "Too many clients connect at the same time. Each gets a time of its own.",
            "Their sessions and answers.",
            "Connect again after `retry_after_ms`.",
        ),
        "store_unavailable": ErrorText(
            "The store cannot be reached at the moment.",
            "All that was stored. Nothing was changed.",
            _SAME_LATER,
        ),
        "store_behind": ErrorText(
            "Too much text waits to be stored.",
            _NOT_ACCEPTED,
            _LATER,
        ),
        "store_full": ErrorText(
            "The store is nearly full, and this tenant or address uses much of it.",
            _NOT_ACCEPTED,
            "Send it again when something has expired. The operator can enlarge the store.",
        ),
        "session_contended": ErrorText(
            "Several nodes accept messages of this session at the same time.",
            "This message was not accepted.",
            "Send it again at once.",
        ),
        "response_elsewhere": ErrorText(
            "The response is changing its owner, or the last part is not stored yet.",
            "The response, and all that you have received.",
            "Resume again from the same place.",
        ),
        "newer_form": ErrorText(
            "During a deployment: a newer version writes this response, and this node cannot read "
            "it.",
            "The response, which continues.",
            "Ask again after a second.",
        ),
        "owner_unreachable": ErrorText(
            "The node that generates this response cannot be reached.",
            "Nothing was changed.",
            "Send the call again. If the node is lost, another one resumes within seconds.",
        ),
        "internal_error": ErrorText(
            "A fault of the server. Its log has the details.",
            "What was delivered; nothing is known to be lost.",
            "Try again. Report it with the time and the `response_id`.",
        ),
        "attempts_exhausted": ErrorText(
            "Every node that generated this answer was lost.",
            "What was delivered, and the message, as a dead letter.",
            "Send it again as a new message. The operator reads the runbook on dead letters.",
        ),
        "filter_failed": ErrorText(
            "A content filter failed, so no further text could be cleared.",
            "The text that was cleared.",
            "Ask again. The log names the filter.",
        ),
    },
    "Streams and resuming": {
        "too_slow": ErrorText(
            "The client is more than 30 s or 256 KB behind, so its stream ends.",
            "The whole response. What you have is valid.",
            "Resume after the last index that you have.",
        ),
        "response_restarted": ErrorText(
            "The model began again, and the new text does not continue what was sent; or what you "
            "have was never stored.",
            "The new text.",
            "Drop the text that you have, and ask again with the same `Idempotency-Key` and "
            "without a resume point.",
        ),
        "response_cancelled": ErrorText(
            "The answer was cancelled before its end: it had no reader, or a call stopped it.",
            _DELIVERED,
            "Ask again, with another `Idempotency-Key`.",
        ),
        "timeout": ErrorText(
            "The answer was not complete within the time that the request allows.",
            _DELIVERED,
            "Allow more time in `timeout_ms`, or ask for less.",
        ),
        "realtime_not_served": ErrorText(
            "A client of OpenAI's Realtime API connected; this server has no audio.",
            "No session was opened.",
            "Use `/v1/responses`, `/v1/chat/completions`, or the protocol of `/realtime`.",
        ),
    },
    "The model": {
        "model_refused": ErrorText(
            "The model's server rejected the message, or the model cannot do what it asks for.",
            _NOTHING_GENERATED,
            "Change the message as the text says.",
        ),
        "context_length_exceeded": ErrorText(
            "The conversation is longer than the model's context.",
            _NOTHING_GENERATED,
            "Shorten it. `EVENFLOW_MODEL_CONTEXT_TOKENS` lets the server leave out old exchanges.",
        ),
        "content_policy_violation": ErrorText(
            "The policy of the model's provider does not allow the message.",
            _NOTHING_GENERATED,
            "Put it another way.",
        ),
        "model_not_set_up": ErrorText(
            "The model's key, name or address is wrong.",
            _NOTHING_GENERATED,
            "Asking again does not help. The server's log says what to correct.",
        ),
        "insufficient_quota": ErrorText(
            "The operator's quota at the model's provider is used up.",
            _NOTHING_GENERATED,
            "Asking again does not help. The operator raises the quota.",
        ),
        "upstream_throttled": ErrorText(
            "The model's server accepts no more calls for now.",
            _DELIVERED,
            _LATER,
        ),
        "upstream_overloaded": ErrorText(
            "The model's server answered 503 without a reason.",
            _DELIVERED,
            "Ask again in a few seconds.",
        ),
        "overloaded": ErrorText(
            "The model's server reports that it is overloaded.",
            _DELIVERED,
            "Ask again in a few seconds.",
        ),
        "upstream_unavailable": ErrorText(
            "The model's server failed many times in a row, and is not called for some seconds.",
            _NOT_ACCEPTED,
            _LATER,
        ),
        "upstream_failed": ErrorText(
            "The model's server failed, cannot be reached, or sent an answer that cannot be read.",
            _DELIVERED,
            "Ask again. The server's log has the details.",
        ),
        "upstream_explained": ErrorText(
            "Your backend failed, and sent an explanation.",
            _DELIVERED,
            "Do what the message says. The same request fails again.",
        ),
        "first_token_timeout": ErrorText(
            "The model sent nothing in time (60 s by default).",
            _NOTHING_GENERATED,
            "Ask again, or raise `EVENFLOW_MODEL_FIRST_SIGN_SECONDS`.",
        ),
        "model_timeout": ErrorText(
            "The model sent nothing for too long, or did not finish in time and sent no text.",
            _DELIVERED,
            "Ask again, or ask for less.",
        ),
        "queue_timeout": ErrorText(
            "No model was free for this message in time; or all readers paused, and others waited.",
            _DELIVERED,
            "Send it again as a new message.",
        ),
        "queue_displaced": ErrorText(
            "The full queue dropped this message in favour of senders with fewer waiting messages.",
            _DELIVERED,
            "Send it again as a new message.",
        ),
        "not_repeated": ErrorText(
            "The node that generated the answer was lost. Its backend must not be called twice.",
            _DELIVERED,
            "Send a new message that asks the model to continue.",
        ),
    },
}
"""By section, then by code."""
