"""The security group that CloudFront leaves in a VPC, and what `make destroy` does about it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from evenflow.infra.account.account import AwsAccount, AwsCallError
from evenflow.infra.removal.__main__ import main
from evenflow.infra.removal.deletion import CLOUDFRONT_GROUP, delete_cloudfront_group
from evenflow.infra.settings.environments import environment
from evenflow.infra.settings.synthesized_settings import write_settings
from tests.infrastructure.account_server import AccountServer, account_server
from tests.infrastructure.synthesis import ROOT
from tests.integration.aws_emulator import CREDENTIALS

_VPC = {
    "PhysicalResourceId": "vpc-1",
    "ResourceType": "AWS::EC2::VPC",
    "ResourceStatus": "CREATE_COMPLETE",
}
_GROUP = {"securityGroupInfo": {"item": {"groupId": "sg-1", "groupName": CLOUDFRONT_GROUP}}}


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The waits of the command, which take no time here."""
    waited: list[float] = []
    monkeypatch.setattr("evenflow.infra.removal.deletion.time.sleep", waited.append)
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    return waited


def _delete(server: AccountServer, monkeypatch: pytest.MonkeyPatch) -> bool:
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.endpoint)
    return delete_cloudfront_group(AwsAccount("us-east-1"), "evenflow-dev-network")


def test_it_waits_until_cloudfront_uses_its_group_no_more(
    waits: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = {
        "ListStackResources": {"StackResourceSummaries": [_VPC]},
        "DescribeSecurityGroups": _GROUP,
        "DeleteSecurityGroup": "DependencyViolation",
    }
    with account_server(answers) as server:

        def wait(seconds: float) -> None:
            waits.append(seconds)
            server.answers["DeleteSecurityGroup"] = {"return": "true"}

        monkeypatch.setattr("evenflow.infra.removal.deletion.time.sleep", wait)
        assert _delete(server, monkeypatch)
        assert server.asked.count("DeleteSecurityGroup") == 2
        assert len(waits) == 1


def test_any_other_refusal_ends_it(waits: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {
        "ListStackResources": {"StackResourceSummaries": [_VPC]},
        "DescribeSecurityGroups": _GROUP,
        "DeleteSecurityGroup": "UnauthorizedOperation",
    }
    with account_server(answers) as server:
        with pytest.raises(AwsCallError, match="UnauthorizedOperation"):
            _delete(server, monkeypatch)
        assert waits == []


@pytest.mark.parametrize(
    "answers",
    [
        {"ListStackResources": "ValidationError"},
        {"ListStackResources": {"StackResourceSummaries": []}},
        {
            "ListStackResources": {"StackResourceSummaries": [_VPC]},
            "DescribeSecurityGroups": {"securityGroupInfo": ""},
        },
    ],
    ids=["no stack", "no VPC", "no group"],
)
@pytest.mark.usefixtures("waits")
def test_where_there_is_none_nothing_is_done(
    answers: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    with account_server(answers) as server:
        assert not _delete(server, monkeypatch)


def test_the_group_goes_after_the_distribution_and_before_the_vpc() -> None:
    recipe = re.search(
        r"^destroy:.*?\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE
    )
    assert recipe is not None
    commands = (
        "destroy --app cdk.out '!(*-network)'",
        "--cloudfront-group",
        "destroy --app cdk.out --all",
    )
    places = [recipe[1].index(command) for command in commands]
    assert places == sorted(places)


def test_destroy_takes_the_installation_and_the_region_that_are_destroyed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They may be in cdk.context.json: neither is in the command that make is given."""
    settings = environment("dev", region="eu-west-1", installation="acme")
    (tmp_path / "cdk.out").mkdir()
    write_settings(settings, tmp_path / "cdk.out")
    monkeypatch.chdir(tmp_path)
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    asked: list[str] = []

    def resources(query: dict[str, list[str]]) -> object:
        asked.extend(query["StackName"])
        return "ValidationError"

    lines = (ROOT / "Makefile").read_text("utf-8").splitlines()
    (command,) = (line for line in lines if "--cloudfront-group" in line)
    arguments = command.partition("evenflow.infra.removal")[2].replace("$(ENV)", "dev").split()
    with account_server({"ListStackResources": resources}) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.endpoint)
        monkeypatch.setattr("sys.argv", ["removal", *arguments])
        assert main() == 0
        assert "/eu-west-1/" in server.scopes[0]
    assert asked == ["acme-dev-network"]
    assert "not there" in capsys.readouterr().out


@pytest.mark.parametrize("argument", ["--delete", "--region=eu-west-1", "--installation=acme"])
def test_what_is_deleted_is_named(argument: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["removal", argument])
    with pytest.raises(SystemExit, match="2"):
        main()
