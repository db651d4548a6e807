"""A handler that cannot have what it needs of AWS doesn't start: exit status 2, and one line that says what is wrong."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from tests.integration.aws_emulator import AwsEmulator, aws_emulator
from tests.integration.server_process import ROOT, clean_environment, free_port, free_ports, server_command

KEY = "0123456789abcdef0123456789abcdef"
TABLES = {
    "EVENFLOW_STORE": "dynamodb",
    "EVENFLOW_SESSIONS_TABLE": "t-sessions",
    "EVENFLOW_LEDGER_TABLE": "t-ledger",
    "EVENFLOW_RESPONSES_TABLE": "t-responses",
}
NOWHERE = {
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": "/nowhere",
    "AWS_SHARED_CREDENTIALS_FILE": "/nowhere",
}
REGION = {"AWS_REGION": "us-east-1"}
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing"}
# The SDK tries again for some seconds before it gives up.
_SECONDS = 25


@pytest.fixture
def unreachable() -> dict[str, str]:
    """An AWS behind a port on which nobody listens."""
    return {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{free_port()}", **REGION, **CREDENTIALS}


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AwsEmulator]:
    with aws_emulator(tmp_path_factory.mktemp("emulator") / "emulator.log") as running:
        running.create_tables("t")
        for name, value in (("keys", f'{{"k1": "{KEY}"}}'), ("short", '{"k1": "hush-hush"}'), ("text", KEY)):
            running.client("secretsmanager").create_secret(Name=name, SecretString=value)
        yield running


def refusal(variables: dict[str, str]) -> str:
    """The one line on stderr with which a start is refused."""
    http_port, ws_port = free_ports(2)
    ports = {"EVENFLOW_HTTP_PORT": str(http_port), "EVENFLOW_WS_PORT": str(ws_port)}
    environment = clean_environment(NOWHERE | ports | variables)
    environment = {
        name: value for name, value in environment.items() if not name.startswith("AWS_") or name in NOWHERE | variables
    }
    ended = subprocess.run(
        server_command(), cwd=ROOT, env=environment, capture_output=True, text=True, timeout=_SECONDS, check=False
    )
    assert ended.returncode == 2, ended.stderr
    assert ended.stdout == ""
    (line,) = ended.stderr.strip().splitlines()
    assert line.startswith("evenflow: ")
    assert KEY not in line
    assert "hush-hush" not in line
    return line


@pytest.mark.parametrize("missing", [name for name in TABLES if name.endswith("TABLE")])
@pytest.mark.parametrize("empty", [False, True])
def test_a_table_without_a_name(missing: str, empty: bool) -> None:
    variables = {name: value for name, value in TABLES.items() if name != missing} | ({missing: ""} if empty else {})
    assert missing in refusal(variables)


def test_tables_that_cannot_be_reached(unreachable: dict[str, str]) -> None:
    line = refusal(TABLES | unreachable)
    assert "EVENFLOW_STORE=dynamodb" in line
    assert "EndpointConnectionError" in line


def test_a_secret_that_cannot_be_reached(unreachable: dict[str, str]) -> None:
    assert "EVENFLOW_TOKEN_KEYS_SECRET=keys" in refusal({"EVENFLOW_TOKEN_KEYS_SECRET": "keys"} | unreachable)


@pytest.mark.parametrize(
    "wanted",
    [TABLES, {"EVENFLOW_TOKEN_KEYS_SECRET": "keys"}, {"EVENFLOW_METRICS": "cloudwatch"}],
    ids=lambda w: next(iter(w)),
)
def test_without_a_region(wanted: dict[str, str]) -> None:
    assert "AWS_REGION" in refusal(wanted | CREDENTIALS)


def test_without_credentials(unreachable: dict[str, str]) -> None:
    nobody = {name: value for name, value in unreachable.items() if name not in CREDENTIALS}
    assert "NoCredentials" in refusal(TABLES | nobody)


@pytest.mark.parametrize("wrong", [name for name in TABLES if name.endswith("TABLE")])
def test_a_table_that_does_not_exist(emulator: AwsEmulator, wrong: str) -> None:
    assert wrong in refusal(TABLES | emulator.environment | {wrong: "no-such-table"})


@pytest.mark.parametrize("variable", ["EVENFLOW_TOKEN_KEYS_SECRET", "EVENFLOW_TENANT_KEYS_SECRET"])
@pytest.mark.parametrize("secret", ["no-such-secret", "short", "text"])
def test_a_secret_that_holds_no_keys(emulator: AwsEmulator, variable: str, secret: str) -> None:
    line = refusal({variable: secret} | emulator.environment)
    assert f"{variable}={secret}" in line
