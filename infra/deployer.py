"""The role with which a workflow on GitHub deploys: `make deployer REPOSITORY=owner/name`, once for
each account.

GitHub signs who a job is, and AWS trusts that signature for one environment of one repository. No
key is kept anywhere.
"""

from __future__ import annotations

import argparse
import re
import sys

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from cdk_nag import AwsSolutionsChecks
from constructs import Construct

from infra.acknowledge import acknowledge
from infra.preflight.account import ACTIONS

_ISSUER = "token.actions.githubusercontent.com"
_AUDIENCE = "sts.amazonaws.com"
_STACKS = "stack/evenflow-*/*"
# The roles that `cdk bootstrap` makes. They, and not this one, may change the account.
_CDK_ROLES = ("deploy", "file-publishing", "image-publishing", "lookup")


class DeployerStack(cdk.Stack):
    """The role, and GitHub as an identity provider.

    Args:
        repository: `owner/name` on GitHub.
        environment: the environment in GitHub whose jobs may use the role. Its rules there say who
            starts them, and from which branch.
        provider_arn: GitHub's provider where the account has it already, for it can have one. None:
            it is made.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        repository: str,
        environment: str,
        provider_arn: str | None = None,
        env: cdk.Environment,
    ) -> None:
        super().__init__(scope, construct_id, env=env)
        if provider_arn is None:
            provider = iam.CfnOIDCProvider(
                self, "GitHub", url=f"https://{_ISSUER}", client_id_list=[_AUDIENCE]
            )
            provider_arn = provider.attr_arn
        role = iam.Role(
            self,
            "Role",
            role_name="evenflow-deployer",
            description=f"Deploys Evenflow for {repository}, environment {environment}",
            assumed_by=iam.WebIdentityPrincipal(
                provider_arn,
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
        acknowledge(
            role,
            "IAM5[Resource::*]",
            "what preflight reads (quotas, models, certificates) has no resources of ours",
        )
        acknowledge(
            role,
            f"IAM5[Resource::arn:<AWS::Partition>:cloudformation:{self.region}:<AWS::AccountId>:"
            f"{_STACKS}]",
            "the outputs of every environment of the account",
        )
        cdk.CfnOutput(
            self,
            "RoleArn",
            value=role.role_arn,
            description="The variable EVENFLOW_DEPLOYER_ROLE of the repository on GitHub",
        )

    def _rights(self) -> list[iam.PolicyStatement]:
        qualifier = cdk.DefaultStackSynthesizer.DEFAULT_QUALIFIER
        roles = [
            self.format_arn(
                service="iam",
                region="",
                resource="role",
                resource_name=f"cdk-{qualifier}-{name}-role-{self.account}-{self.region}",
            )
            for name in _CDK_ROLES
        ]
        stacks = self.format_arn(
            service="cloudformation",
            resource=_STACKS,
            arn_format=cdk.ArnFormat.NO_RESOURCE_NAME,
        )
        return [
            iam.PolicyStatement(actions=["sts:AssumeRole"], resources=roles),
            iam.PolicyStatement(actions=list(ACTIONS), resources=["*"]),
            iam.PolicyStatement(actions=["cloudformation:DescribeStacks"], resources=[stacks]),
        ]


def main() -> int:
    """Synthesize the stack; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m infra.deployer", description=__doc__)
    parser.add_argument("repository", help="owner/name on GitHub")
    parser.add_argument("--environment", default="test-account", help="GitHub's, not Evenflow's")
    parser.add_argument("--region", default="us-east-1")
    parser.add_argument("--provider-arn", help="GitHub's provider, where the account has it")
    arguments = parser.parse_args()
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", arguments.repository):
        print(f"{arguments.repository!r} must be owner/name", file=sys.stderr)
        return 1
    app = cdk.App()
    DeployerStack(
        app,
        "evenflow-deployer",
        repository=arguments.repository,
        environment=arguments.environment,
        provider_arn=arguments.provider_arn,
        env=cdk.Environment(region=arguments.region),
    )
    cdk.Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    app.synth()
    return 0


if __name__ == "__main__":
    sys.exit(main())
