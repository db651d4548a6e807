"""Tables and secrets: what the code writes is what the templates declare."""

from __future__ import annotations

import json
from functools import partial

import pytest

from evenflow.functions.usage_file import usage_bucket
from evenflow.infra.constructs.data import buckets
from evenflow.infra.constructs.data import tables as declared
from evenflow.infra.estimates.quotas import most_writes_per_second
from evenflow.infra.estimates.traffic import Traffic
from evenflow.stream_aws import s3_large_texts
from evenflow.stream_aws import tables as written
from evenflow.stream_aws.keys import SHORTEST_SIGNING_KEY
from evenflow.stream_aws.redrive import NAMES
from evenflow.stream_aws.tables import TableKeys
from evenflow.stream_core.auth.session_token import SessionTokens
from evenflow.stream_core.base.agents import Agents, built_in_agents
from evenflow.stream_core.base.errors import AuthenticationFailed
from evenflow.stream_core.protocols.evenflow.messages import SessionRequest
from evenflow.stream_core.protocols.evenflow.session_init import open_session
from evenflow.stream_core.tenants.registry import Tenants
from tests.infrastructure.synthesis import Synthesis


def test_items_expire_by_the_attribute_that_the_store_writes(synthesis: Synthesis) -> None:
    assert declared.TTL_ATTRIBUTE == written.TTL_ATTRIBUTE
    tables = synthesis.of_type("AWS::DynamoDB::Table", "data")
    assert len(tables) == 4
    for table in tables.values():
        assert table["Properties"]["TimeToLiveSpecification"] == {
            "AttributeName": written.TTL_ATTRIBUTE,
            "Enabled": True,
        }


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("sessions", written.SESSIONS),
        ("ledger", written.LEDGER),
        ("responses", written.RESPONSES),
        ("tenants", written.TENANTS),
    ],
)
def test_tables_have_the_keys_that_the_store_uses(
    synthesis: Synthesis, name: str, keys: TableKeys
) -> None:
    (table,) = (
        table["Properties"]
        for table in synthesis.of_type("AWS::DynamoDB::Table", "data").values()
        if table["Properties"]["TableName"] == f"evenflow-{synthesis.settings.name}-{name}"
    )
    schema = {key["KeyType"]: key["AttributeName"] for key in table["KeySchema"]}
    assert schema == {"HASH": keys.partition, **({"RANGE": keys.sort} if keys.sort else {})}
    assert ("GlobalSecondaryIndexes" in table) is (keys is written.RESPONSES)
    assert all(attribute["AttributeType"] == "S" for attribute in table["AttributeDefinitions"])
    assert table["BillingMode"] == "PAY_PER_REQUEST"
    assert table["SSESpecification"]["SSEEnabled"] is True


def test_what_a_lost_task_leaves_is_found_by_the_index_that_the_store_asks(
    synthesis: Synthesis,
) -> None:
    assert (declared.UNFINISHED_INDEX, declared.UNFINISHED_KEY) == (
        written.UNFINISHED_INDEX,
        written.UNFINISHED_KEY,
    )
    (index,) = (
        index
        for table in synthesis.of_type("AWS::DynamoDB::Table", "data").values()
        for index in table["Properties"].get("GlobalSecondaryIndexes", ())
    )
    assert index == {
        "IndexName": written.UNFINISHED_INDEX,
        "KeySchema": [{"AttributeName": written.UNFINISHED_KEY, "KeyType": "HASH"}],
        "Projection": {"ProjectionType": "KEYS_ONLY"},
    }


def test_dead_letters_are_encrypted_kept_for_two_weeks_and_taken_over_tls_only(
    synthesis: Synthesis,
) -> None:
    queue = synthesis.only("AWS::SQS::Queue", "data")
    assert queue["MessageRetentionPeriod"] == 14 * 24 * 3600
    if synthesis.settings.data.customer_key:
        assert "Key" in json.dumps(queue["KmsMasterKeyId"])
    else:
        assert queue["SqsManagedSseEnabled"] is True
    (statement,) = synthesis.only("AWS::SQS::QueuePolicy", "data")["PolicyDocument"]["Statement"]
    assert (statement["Effect"], statement["Action"], statement["Principal"]) == (
        "Deny",
        "sqs:*",
        {"AWS": "*"},
    )
    assert statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}


def test_redriving_finds_its_tables_and_its_queue_by_the_name_of_the_environment(
    synthesis: Synthesis,
) -> None:
    called = {
        table["Properties"]["TableName"]
        for table in synthesis.of_type("AWS::DynamoDB::Table", "data").values()
    }
    called.add(synthesis.only("AWS::SQS::Queue", "data")["QueueName"])
    assert {
        name.format(installation="evenflow", env=synthesis.settings.name) for name in NAMES.values()
    } <= called


def test_what_an_environment_keeps_cannot_be_lost_by_a_mistake(synthesis: Synthesis) -> None:
    data = synthesis.settings.data
    policy = ("RetainExceptOnCreate", "Retain") if data.keep else ("Delete", "Delete")
    for table in synthesis.of_type("AWS::DynamoDB::Table", "data").values():
        assert (table["DeletionPolicy"], table["UpdateReplacePolicy"]) == policy
        assert table["Properties"]["DeletionProtectionEnabled"] is data.keep
        if data.customer_key:
            assert table["Properties"]["SSESpecification"]["SSEType"] == "KMS"
            assert "Key" in json.dumps(table["Properties"]["SSESpecification"]["KMSMasterKeyId"])
    for queue in synthesis.of_type("AWS::SQS::Queue", "data").values():
        assert (queue["DeletionPolicy"], queue["UpdateReplacePolicy"]) == policy
    for secret in synthesis.of_type("AWS::SecretsManager::Secret", "data").values():
        assert (secret["DeletionPolicy"], secret["UpdateReplacePolicy"]) == policy
        assert ("KmsKeyId" in secret["Properties"]) is data.customer_key


def test_users_text_can_be_restored_for_a_day_and_tenants_for_five_weeks(
    synthesis: Synthesis,
) -> None:
    a_day = {"PointInTimeRecoveryEnabled": True, "RecoveryPeriodInDays": 1}
    five_weeks = a_day | {"RecoveryPeriodInDays": 35}
    none = {"PointInTimeRecoveryEnabled": False}
    prefix, prod = f"evenflow-{synthesis.settings.name}", synthesis.settings.name == "prod"
    assert {
        table["Properties"]["TableName"]: table["Properties"]["PointInTimeRecoverySpecification"]
        for table in synthesis.of_type("AWS::DynamoDB::Table", "data").values()
    } == {
        f"{prefix}-sessions": a_day if prod else none,
        f"{prefix}-ledger": a_day if prod else none,
        f"{prefix}-responses": none,
        f"{prefix}-tenants": five_weeks if prod else none,
    }


def test_prod_is_the_one_that_keeps_everything(prod: Synthesis) -> None:
    assert prod.settings.data.keep
    assert prod.settings.data.customer_key


def test_the_buffer_of_prod_takes_the_announced_load_from_its_first_minute(
    prod: Synthesis, dev: Synthesis
) -> None:
    needed = most_writes_per_second(prod.settings, Traffic())
    warm = {
        table["Properties"]["TableName"]: table["Properties"]["WarmThroughput"]
        for table in prod.of_type("AWS::DynamoDB::Table").values()
        if "WarmThroughput" in table["Properties"]
    }
    assert warm == {
        "evenflow-prod-responses": {
            "WriteUnitsPerSecond": prod.settings.data.warm_writes_per_second
        }
    }
    assert needed <= prod.settings.data.warm_writes_per_second <= 40_000
    # 4,000 is what a new table has: asking for it would fail once it has more.
    assert "WarmThroughput" not in json.dumps(dev.templates["data"])


def test_secrets_are_made_where_they_are_kept(synthesis: Synthesis) -> None:
    secrets = [
        r["Properties"] for r in synthesis.of_type("AWS::SecretsManager::Secret", "data").values()
    ]
    first = {s["Name"]: s["GenerateSecretString"]["GenerateStringKey"] for s in secrets}
    prefix = f"evenflow-{synthesis.settings.name}"
    assert first == {
        f"{prefix}-signing-keys": "k1",
        f"{prefix}-tenant-keys": "public",
        f"{prefix}-edge-keys": "k1",
    }
    for secret in secrets:
        made = secret["GenerateSecretString"]
        assert "SecretString" not in secret
        assert made["SecretStringTemplate"] == "{}"
        assert made["ExcludePunctuation"] is True
        assert made["PasswordLength"] >= SHORTEST_SIGNING_KEY


def test_signing_keys_are_turned_over_by_their_function(synthesis: Synthesis) -> None:
    schedule = synthesis.only("AWS::SecretsManager::RotationSchedule", "functions")
    assert schedule["RotationRules"] == {
        "AutomaticallyAfterDays": synthesis.settings.data.signing_key_rotation_days
    }
    assert "KeyRotation" in json.dumps(schedule["RotationLambdaARN"])
    assert "SigningKeys" in json.dumps(schedule["SecretId"])
    permissions = [
        p["Properties"]
        for p in synthesis.of_type("AWS::Lambda::Permission", "functions").values()
        if p["Properties"]["Principal"] == "secretsmanager.amazonaws.com"
    ]
    assert len(permissions) == 1
    assert permissions[0]["SourceAccount"] == {"Ref": "AWS::AccountId"}


def test_nobody_opens_a_session_in_staging_or_prod_without_the_key_that_was_made(
    synthesis: Synthesis,
) -> None:
    """Asked of the code that the function runs, with a secret as Secrets Manager makes it.

    dev is open by the function's variable, though `public` has a key: so it can be closed.
    """
    (made,) = (
        secret["Properties"]["GenerateSecretString"]["GenerateStringKey"]
        for secret in synthesis.of_type("AWS::SecretsManager::Secret", "data").values()
        if secret["Properties"]["Name"].endswith("-tenant-keys")
    )
    (variables,) = (
        function["Properties"]["Environment"]["Variables"]
        for name, function in synthesis.of_type("AWS::Lambda::Function", "functions").items()
        if "SessionInit" in name
    )
    key = "k" * 64
    opened = partial(
        open_session,
        SessionRequest(),
        agents=Agents(built_in_agents(demo=True)),
        tenants=Tenants({made: key}, open_tenant=variables.get("EVENFLOW_OPEN_TENANT")),
        tokens=SessionTokens({"k1": b"s" * 64}),
        now=1_800_000_000,
        ttl=3_600,
        check_without_key=lambda: None,
    )
    assert opened(key).token
    if synthesis.settings.name == "dev":
        assert opened(None).token
        return
    for given in (None, "", "another"):
        with pytest.raises(AuthenticationFailed):
            opened(given)


@pytest.mark.parametrize(("called", "kept_days"), [("DataRequests", 1), ("DataUsage", 400)])
def test_large_requests_and_usage_are_private_encrypted_and_gone_in_time(
    synthesis: Synthesis, called: str, kept_days: int
) -> None:
    ((name, bucket),) = (
        (name, bucket)
        for name, bucket in synthesis.of_type("AWS::S3::Bucket", "data").items()
        if name.startswith(called)
    )
    keep = synthesis.settings.data.keep
    assert bucket["DeletionPolicy"] == ("RetainExceptOnCreate" if keep else "Delete")
    properties = bucket["Properties"]
    assert set(properties["PublicAccessBlockConfiguration"].values()) == {True}
    (rule,) = properties["LifecycleConfiguration"]["Rules"]
    assert (rule["ExpirationInDays"], rule["Status"], "Prefix" in rule) == (
        kept_days,
        "Enabled",
        False,
    )
    assert rule["AbortIncompleteMultipartUpload"] == {"DaysAfterInitiation": 1}
    (encryption,) = properties["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    algorithm = encryption["ServerSideEncryptionByDefault"]["SSEAlgorithm"]
    assert algorithm == ("aws:kms" if synthesis.settings.data.customer_key else "AES256")
    (policy,) = (
        policy["Properties"]["PolicyDocument"]
        for policy in synthesis.of_type("AWS::S3::BucketPolicy", "data").values()
        if policy["Properties"]["Bucket"] == {"Ref": name}
    )
    assert any(
        statement["Effect"] == "Deny"
        and statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
        for statement in policy["Statement"]
    )


def test_tasks_write_below_the_prefix_that_they_may(synthesis: Synthesis) -> None:
    assert buckets.REQUEST_PREFIX == s3_large_texts.PREFIX
    assert buckets.USAGE_PREFIX == usage_bucket.PREFIX
    (task,) = (
        task["Properties"]
        for name, task in synthesis.of_type("AWS::ECS::TaskDefinition", "service").items()
        if name.startswith("ServiceTask")
    )
    variables = {
        each["Name"]: each["Value"] for each in task["ContainerDefinitions"][0]["Environment"]
    }
    assert "Requests" in str(variables["EVENFLOW_REQUESTS_BUCKET"])
