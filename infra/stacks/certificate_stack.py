"""evenflow-<env>-<region>-certificate"""

from __future__ import annotations

import aws_cdk as cdk
from constructs import Construct

from evenflow.infra.constructs.domain import domain_certificate
from evenflow.infra.settings.environment_settings import EnvironmentSettings
from evenflow.infra.settings.regions import GLOBAL_REGION
from evenflow.infra.settings.stack_settings import HostedZone


class CertificateStack(cdk.Stack):
    """CloudFront's certificate, which is in us-east-1 for a deployment to any other region."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: EnvironmentSettings,
        domain_name: str,
        zone: HostedZone,
    ) -> None:
        super().__init__(
            scope,
            construct_id,
            env=cdk.Environment(region=GLOBAL_REGION),
            termination_protection=settings.data.keep,
            cross_region_references=True,
        )
        self.certificate = domain_certificate(self, "Certificate", domain_name, zone)
