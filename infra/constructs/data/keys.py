"""The key that encrypts an environment's data, and the secrets with keys."""

from __future__ import annotations

from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from evenflow.infra.constructs.acknowledge import acknowledge
from evenflow.infra.constructs.retention import removal_policy
from evenflow.infra.settings.environment_settings import EnvironmentSettings
from evenflow.infra.settings.stack_settings import FIRST_EDGE_KEY
from evenflow.stream_core.protocols.evenflow.session_init import OPEN_TENANT


def data_key(scope: Construct, construct_id: str, settings: EnvironmentSettings) -> kms.Key:
    """A key that AWS rotates every year."""
    return kms.Key(
        scope,
        construct_id,
        alias=f"alias/{settings.prefix}-data",
        enable_key_rotation=True,
        removal_policy=removal_policy(settings),
    )


def allow_use_of(key: kms.IKey | None, role: iam.IRole, *further_services: str) -> None:
    """Let a role use the key, but only through DynamoDB, Secrets Manager and `further_services`."""
    if key is None:
        return
    region = Stack.of(role).region
    role.add_to_principal_policy(
        iam.PolicyStatement(
            actions=["kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey"],
            resources=[key.key_arn],
            conditions={
                "StringEquals": {
                    "kms:ViaService": [
                        f"{service}.{region}.amazonaws.com"
                        for service in ("dynamodb", "secretsmanager", *further_services)
                    ]
                }
            },
        )
    )


class KeySecrets(Construct):
    """The signing keys `{"<kid>": "<secret>"}`, the first of which signs, the tenants' keys, and
    the keys by which the functions know CloudFront.

    Tenants' keys are `{"<tenant>": "<key>"}`. A tenant with a key needs it, one without is refused.
    The first key is that of `public`. An open environment has it, too: there a function's variable
    says that `public` needs none. No secret's generator depends on a setting: after a change of it
    CloudFormation writes a new value over all keys.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: EnvironmentSettings,
        key: kms.IKey | None,
    ) -> None:
        super().__init__(scope, construct_id)
        self._settings = settings
        self._key = key
        self.signing_keys = self._secret(
            "SigningKeys",
            "signing-keys",
            "Keys that sign session tokens; the first one signs",
            "k1",
        )
        self.tenant_keys = self._secret(
            "TenantKeys",
            "tenant-keys",
            "Keys with which tenants open sessions",
            OPEN_TENANT,
        )
        self.edge_keys = self._secret(
            "EdgeKeys",
            "edge-keys",
            "Keys that CloudFront shows the functions; EdgeSettings.edge_key says which one",
            FIRST_EDGE_KEY,
        )
        # The rotation is defined in its function's stack: otherwise the stacks would depend on each
        # other.
        acknowledge(
            self.signing_keys, "SMG4", "rotated on a schedule by the stack of the functions"
        )
        acknowledge(
            self.tenant_keys, "SMG4", "tenants hold these keys: one changes when its tenant is told"
        )
        acknowledge(
            self.edge_keys,
            "SMG4",
            "the distribution holds a copy, which changes with a deployment: docs/runbooks/"
            "signing-keys.md says how",
        )

    def _secret(
        self, construct_id: str, name: str, description: str, first: str
    ) -> secretsmanager.Secret:
        return secretsmanager.Secret(
            self,
            construct_id,
            secret_name=f"{self._settings.prefix}-{name}",
            description=description,
            encryption_key=self._key,
            generate_secret_string=secretsmanager.SecretStringGenerator(
                # Secrets Manager puts the generated key into it.
                secret_string_template="{}",  # noqa: S106
                generate_string_key=first,
                password_length=64,
                exclude_punctuation=True,
            ),
            removal_policy=removal_policy(self._settings),
        )
