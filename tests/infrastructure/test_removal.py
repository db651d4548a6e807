"""The security group that CloudFront leaves in a VPC, and what `make destroy` does about it."""

from __future__ import annotations

import re

import pytest

from evenflow.infra.preflight.account import Account, Unanswered
from evenflow.infra.removal.deletion import CLOUDFRONT_GROUP, delete_cloudfront_group
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
    return delete_cloudfront_group(Account("us-east-1"), "evenflow-dev-network")


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
        with pytest.raises(Unanswered, match="UnauthorizedOperation"):
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
