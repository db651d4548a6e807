"""Requests that are too large for an item of the ledger: another task asks its model the same."""

from __future__ import annotations

import asyncio

from evenflow.fargate_handler.token_sources.demo.script import demo_tokens
from evenflow.stream_aws.s3_large_texts import PREFIX
from tests.integration.answer import Frame
from tests.integration.aws_emulator import AwsEmulator
from tests.integration.chat_client import demo
from tests.integration.conftest import OpenSession
from tests.integration.deployment import AwsDeployment
from tests.integration.openai.completions import asking
from tests.integration.openai.conftest import At

_BUCKET = "requests-of-the-tests"
_WORDS = 250_000
_LONG = {"role": "system", "content": "wör " * _WORDS}
_ANSWER_SECONDS = 6
_DIRECTIVE = demo(tokens=150, gap_ms=_ANSWER_SECONDS * 1_000 / 150, seed=31)
# A client that comes back waits for an answer's next task no longer than 20 s.
_LEASE_SECONDS = 10


def _body() -> Frame:
    body = asking(_DIRECTIVE)
    body["messages"].insert(0, _LONG)
    return body


async def test_a_lost_task_s_megabyte_is_read_back(
    emulated_aws: AwsEmulator, aws_deployment: AwsDeployment, at: At, opened: OpenSession
) -> None:
    s3 = emulated_aws.client("s3")
    await asyncio.to_thread(s3.create_bucket, Bucket=_BUCKET)
    owner, other = await aws_deployment.handlers(
        2, requests_bucket=_BUCKET, lease_seconds=_LEASE_SECONDS
    )
    token = (await opened(owner)).token
    lost = asyncio.create_task(at(owner, token).post(_body(), Idempotency_Key="large"))
    await owner.until_metric("generations_running", 1)
    (kept,) = (await asyncio.to_thread(s3.list_objects_v2, Bucket=_BUCKET))["Contents"]
    assert kept["Key"].startswith(f"{PREFIX}rsp_")
    assert kept["Size"] > 1_000_000
    await owner.vanish()
    await asyncio.wait([lost])
    asking = asyncio.create_task(at(other, token).post(_body(), Idempotency_Key="large"))
    await aws_deployment.serve.time_passes(_LEASE_SECONDS + 1)
    await other.until_metric("generations_running", 1)
    await aws_deployment.serve.time_passes(_ANSWER_SECONDS)
    answer = await asking
    assert answer.status == 200, answer.json
    assert answer.json["choices"][0]["message"]["content"] == "".join(demo_tokens(31, 150))
    assert answer.json["usage"]["prompt_tokens"] == _WORDS + len(_DIRECTIVE.split())
    assert await other.metric("lease_take_overs_total") == 1


async def test_without_a_bucket_it_is_refused_by_its_size(
    aws_deployment: AwsDeployment, at: At, opened: OpenSession
) -> None:
    handler = await aws_deployment.handler()
    completions = at(handler, (await opened(handler)).token)
    refused = await completions.post(_body())
    assert (refused.status, refused.error["code"]) == (413, "message_too_large")
    assert "EVENFLOW_REQUESTS_BUCKET" in refused.error["message"]


async def test_a_bucket_that_is_not_there_is_found_when_it_is_needed(
    aws_deployment: AwsDeployment, at: At, opened: OpenSession
) -> None:
    handler = await aws_deployment.handler(requests_bucket="no-such-bucket")
    completions = at(handler, (await opened(handler)).token)
    assert (await completions.ask(demo(tokens=1))).status == 200
    refused = await completions.post(_body())
    assert (refused.status, refused.error["code"]) == (503, "store_unavailable")
