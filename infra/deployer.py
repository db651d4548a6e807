"""The role with which a workflow on GitHub deploys: `make deployer REPOSITORY=owner/name`, once for
each account.

GitHub signs a job's identity, and AWS trusts that signature for one environment of one repository.
No key is stored.
"""

from __future__ import annotations

import argparse
import re
import sys

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from cdk_nag import AwsSolutionsChecks
from constructs import Construct

from evenflow.infra.account.account import ACTIONS
from evenflow.infra.constructs.acknowledge import acknowledge
from evenflow.infra.settings.environment_settings import INSTALLATION_PATTERN
from evenflow.infra.settings.regions import GLOBAL_REGION, REGION_PATTERN

_ISSUER = "token.actions.githubusercontent.com"
_AUDIENCE = "sts.amazonaws.com"
# The roles that `cdk bootstrap` makes. They, and not this one, may change the account.
_CDK_ROLES = ("deploy", "file-publishing", "image-publishing", "lookup")
# Allowed on stacks of ours alone. The other actions find stacks that own a resource.
_OF_STACKS = ("cloudformation:DescribeStacks", "cloudformation:GetTemplate")


class DeployerStack(cdk.Stack):
    """The role, and GitHub as an identity provider.

    Args:
        repository: `owner/name` on GitHub.
        environment: the environment in GitHub whose jobs may use the role. Its rules there limit
            who starts them, and the branch.
        installation: begins the names of the stacks whose outputs it reads, and its own.
        provider_arn: GitHub's provider, if the account has it already: an account can have one. It
            may be from the stack of another region or installation. None: it is made.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        repository: str,
        environment: str,
        installation: str = "evenflow",
        provider_arn: str | None = None,
        env: cdk.Environment,
    ) -> None:
        super().__init__(scope, construct_id, env=env)
        self._stacks = f"stack/{installation}-*/*"
        role = iam.Role(
            self,
            "Role",
            # All regions share the names of roles, so the name has the region.
            role_name=f"{installation}-{self.region}-deployer",
            description=f"Deploys Evenflow for {repository}, environment {environment}",
            assumed_by=iam.WebIdentityPrincipal(
                provider_arn or self._provider_arn(),
                {
                    "StringEquals": {
                        f"{_ISSUER}:aud": _AUDIENCE,
                        f"{_ISSUER}:sub": f"repo:{repository}:environment:{environment}",
                    }
                },
            ),
        )
        for statement in self._rights():
            role.add_to_policy(statement)
        self._acknowledge(role)
        cdk.CfnOutput(
            self,
            "RoleArn",
            value=role.role_arn,
            description="The variable EVENFLOW_DEPLOYER_ROLE of the repository on GitHub",
        )

    def _provider_arn(self) -> str:
        provider = iam.CfnOIDCProvider(
            self, "GitHub", url=f"https://{_ISSUER}", client_id_list=[_AUDIENCE]
        )
        return provider.attr_arn

    def _acknowledge(self, role: iam.Role) -> None:
        acknowledge(
            role,
            "IAM5[Resource::*]",
            "what preflight reads (quotas, models, certificates) has no resources of ours; the "
            "security group of CloudFront is held to by its tag",
        )
        for region in self._regions:
            acknowledge(
                role,
                f"IAM5[Resource::arn:<AWS::Partition>:cloudformation:{region}:<AWS::AccountId>:"
                f"{self._stacks}]",
                "the outputs and templates of every environment of the installation",
            )

    def _rights(self) -> list[iam.PolicyStatement]:
        qualifier = self.synthesizer.bootstrap_qualifier
        roles = [
            self.format_arn(
                service="iam",
                region="",
                resource="role",
                resource_name=f"cdk-{qualifier}-{name}-role-{self.account}-{region}",
            )
            for region in self._regions
            for name in _CDK_ROLES
        ]
        stacks = [
            self.format_arn(
                service="cloudformation",
                region=region,
                resource=self._stacks,
                arn_format=cdk.ArnFormat.NO_RESOURCE_NAME,
            )
            for region in self._regions
        ]
        lookups = [action for action in ACTIONS if action not in _OF_STACKS]
        return [
            iam.PolicyStatement(actions=["sts:AssumeRole"], resources=roles),
            iam.PolicyStatement(actions=lookups, resources=["*"]),
            iam.PolicyStatement(actions=list(_OF_STACKS), resources=stacks),
            *self._rights_on_the_group_of_cloudfront(),
        ]

    def _rights_on_the_group_of_cloudfront(self) -> list[iam.PolicyStatement]:
        """`make destroy` deletes the group that CloudFront leaves, by CloudFront's own tag."""
        return [
            iam.PolicyStatement(actions=["ec2:DescribeSecurityGroups"], resources=["*"]),
            iam.PolicyStatement(
                actions=["ec2:DeleteSecurityGroup"],
                resources=["*"],
                conditions={
                    "StringEquals": {"aws:ResourceTag/aws.cloudfront.vpcorigin": "enabled"}
                },
            ),
        ]

    @property
    def _regions(self) -> tuple[str, ...]:
        """CloudFront's certificates and web ACLs have stacks in its own region."""
        return tuple(dict.fromkeys((self.region, GLOBAL_REGION)))


def _repository(text: str) -> str:
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", text):
        raise argparse.ArgumentTypeError(f"{text!r} must be owner/name")
    return text


def _region(text: str) -> str:
    if not re.fullmatch(REGION_PATTERN, text):
        raise argparse.ArgumentTypeError(f"{text!r} must be a region's name, such as eu-west-1")
    return text


def _installation(text: str) -> str:
    if not re.fullmatch(INSTALLATION_PATTERN, text):
        raise argparse.ArgumentTypeError(f"{text!r} must be lower-case letters and digits")
    return text


def main() -> int:
    """Synthesize the stack; returns the exit status. Wrong arguments exit with 2."""
    parser = argparse.ArgumentParser(prog="python -m evenflow.infra.deployer", description=__doc__)
    parser.add_argument("repository", type=_repository, help="owner/name on GitHub")
    parser.add_argument("--environment", default="test-account", help="GitHub's, not Evenflow's")
    parser.add_argument("--region", default="us-east-1", type=_region)
    parser.add_argument("--installation", type=_installation, default="evenflow")
    parser.add_argument(
        "--provider-arn",
        help="GitHub's provider, where the account has it: in each region but the first",
    )
    arguments = parser.parse_args()
    app = cdk.App()
    DeployerStack(
        app,
        f"{arguments.installation}-deployer",
        repository=arguments.repository,
        environment=arguments.environment,
        installation=arguments.installation,
        provider_arn=arguments.provider_arn,
        env=cdk.Environment(region=arguments.region),
    )
    cdk.Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    app.synth()
    return 0


if __name__ == "__main__":
    sys.exit(main())
