"""`cdk bootstrap` and `cdk deploy` of the real app, against an emulator; and what that emulator
is no proof of.
"""

from __future__ import annotations

import json
import time
from typing import Any

import aiohttp
import pytest
from botocore.exceptions import ClientError

from evenflow.functions.usage_file.daily_files import MOST_DAYS
from evenflow.functions.usage_file.usage_bucket import PREFIX as USAGE_PREFIX
from evenflow.stream_aws.s3_large_texts import PREFIX
from evenflow.stream_core.stores.stored_json import LARGEST_ITEM_TEXT
from tests.aws.emulator_gaps import as_json, find_gaps, reviewed_gaps
from tests.aws.refused_resources import REFUSED_TYPES
from tests.aws.running_system import RunningSystem
from tests.integration.chat_client import demo, open_session
from tests.integration.lambda_function import LambdaFunction
from tests.integration.server_process import ROOT

# The first test starts the system, on a machine that others may be using.
pytestmark = pytest.mark.timeout(300)


def test_every_stack_is_deployed(system: RunningSystem) -> None:
    described = system.aws.client("cloudformation").describe_stacks()["Stacks"]
    status = {stack["StackName"]: stack["StackStatus"] for stack in described}
    assert status == dict.fromkeys(
        ["CDKToolkit", *system.deployment.assembly.templates], "CREATE_COMPLETE"
    )


def test_what_the_emulator_leaves_out_or_changes_is_what_was_reviewed(
    system: RunningSystem,
) -> None:
    found, reviewed = find_gaps(system.deployment, system.refused), reviewed_gaps()
    found.covered_by.update(reviewed.covered_by)
    assert as_json(found) == as_json(reviewed), "see tests/aws/emulator_gaps.py"
    assert reviewed.covered_by.keys() == reviewed.kinds


@pytest.mark.parametrize(
    ("kind", "tests"), reviewed_gaps().covered_by.items(), ids=list(reviewed_gaps().covered_by)
)
def test_what_the_emulator_is_no_proof_of_is_asserted_on_the_template(
    kind: str, tests: list[str]
) -> None:
    assert tests, f"nothing asserts {kind}"
    for test in tests:
        path, *_, name = test.split("::")
        assert f"def {name}(" in (ROOT / path).read_text(), f"{test} is not there"


def test_what_is_taken_out_as_unknown_is_unknown(system: RunningSystem) -> None:
    unknown = {kind for kind, why in REFUSED_TYPES.items() if why == "unknown to it"}
    with pytest.raises(ClientError) as refusal:
        _create_stack(system, "unknown", {kind: {} for kind in unknown})
    listed = str(refusal.value).partition("Unrecognized resource types: [")[2].partition("]")[0]
    assert set(listed.split(", ")) == unknown


def test_alarms_taken_out_for_their_metric_math_are_refused(system: RunningSystem) -> None:
    expression = {"Id": "e", "Expression": "1", "ReturnData": True}
    _create_stack(system, "metric-math", {"AWS::CloudWatch::Alarm": {"Metrics": [expression]}})
    cloudformation = system.aws.client("cloudformation")
    give_up_at = time.monotonic() + 60
    while time.monotonic() < give_up_at:
        events = cloudformation.describe_stack_events(StackName="metric-math")["StackEvents"]
        if any("metric math" in event.get("ResourceStatusReason", "") for event in events):
            break
        time.sleep(0.1)
    else:
        pytest.fail(f"the emulator takes metric math now: {events}")
    cloudformation.delete_stack(StackName="metric-math")


def _create_stack(system: RunningSystem, name: str, resources: dict[str, dict[str, Any]]) -> None:
    template = {
        "Resources": {
            f"R{i}": {"Type": kind, "Properties": resources[kind]}
            for i, kind in enumerate(resources)
        }
    }
    system.aws.client("cloudformation").create_stack(
        StackName=name, TemplateBody=json.dumps(template)
    )


def test_a_first_key_signs_and_a_first_tenant_has_one(system: RunningSystem) -> None:
    secrets = system.aws.client("secretsmanager")
    held = {}
    for name in (
        "EVENFLOW_EDGE_KEYS_SECRET",
        "EVENFLOW_TOKEN_KEYS_SECRET",
        "EVENFLOW_TENANT_KEYS_SECRET",
    ):
        environment = system.deployment.function(
            system.routes.api_routes["ANY /session"]
        ).environment
        held[name] = json.loads(
            secrets.get_secret_value(SecretId=environment[name])["SecretString"]
        )
    assert {name: list(keys) for name, keys in held.items()} == {
        "EVENFLOW_EDGE_KEYS_SECRET": ["k1"],
        "EVENFLOW_TOKEN_KEYS_SECRET": ["k1"],
        "EVENFLOW_TENANT_KEYS_SECRET": ["public"],
    }
    assert all(len(key) == 64 for keys in held.values() for key in keys.values())


async def test_an_answer_is_in_the_tables_that_were_created(
    system: RunningSystem, http: aiohttp.ClientSession
) -> None:
    session = await open_session(http, system.url)
    async with session.connect() as connection:
        answer = await connection.ask("m1", None, demo(tokens=30, gap_ms=5))
    (response_id,) = {frame["response_id"] for frame in answer.frames}
    _, text, _ = await session.poll_whole(response_id)
    assert text == answer.text
    tables = {
        k: v for k, v in system.deployment.container_environment().items() if k.endswith("_TABLE")
    }
    dynamodb = system.aws.client("dynamodb")
    scanned = {
        name: json.dumps(dynamodb.scan(TableName=table)["Items"]) for name, table in tables.items()
    }
    assert session.session_id in scanned["EVENFLOW_SESSIONS_TABLE"]
    assert response_id in scanned["EVENFLOW_LEDGER_TABLE"]
    assert response_id in scanned["EVENFLOW_RESPONSES_TABLE"]


def test_the_files_of_usage_are_in_the_bucket_that_was_created(system: RunningSystem) -> None:
    (logical_id,) = (
        name
        for template in system.deployment.assembly.templates.values()
        for name, resource in template["Resources"].items()
        if resource["Properties"].get("Handler") == "evenflow.functions.usage_file.handler.handler"
    )
    environment = system.deployment.function(logical_id).environment
    LambdaFunction("usage_file", {**environment, **system.aws.environment}).invoke({})
    bucket = environment["EVENFLOW_USAGE_BUCKET"]
    files = system.aws.client("s3").list_objects_v2(Bucket=bucket)["Contents"]
    assert len(files) == MOST_DAYS
    assert all(file["Key"].startswith(USAGE_PREFIX) for file in files)


async def test_a_large_request_is_in_the_bucket_that_was_created(
    system: RunningSystem, http: aiohttp.ClientSession
) -> None:
    session = await open_session(http, system.url)
    large = {"role": "system", "content": "x" * LARGEST_ITEM_TEXT}
    asked = {"role": "user", "content": demo(tokens=3, gap_ms=1)}
    body = {"model": system.handler_environment["EVENFLOW_MODEL"], "messages": [large, asked]}
    answer = await session.call("POST", "/v1/chat/completions", body)
    assert answer.status == 200, answer.body
    bucket = system.deployment.container_environment()["EVENFLOW_REQUESTS_BUCKET"]
    (kept,) = system.aws.client("s3").list_objects_v2(Bucket=bucket)["Contents"]
    assert kept["Key"].startswith(f"{PREFIX}rsp_")
    assert kept["Size"] > LARGEST_ITEM_TEXT
