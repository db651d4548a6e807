"""The code of docs/aws.md does what the page says."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_route53 as route53

from evenflow.infra.inference_settings import InferenceSettings, ModelPrice
from evenflow.infra.stack_settings import EdgeSettings, HostedZone
from evenflow.infra.tracing_settings import TracingSettings
from tests.e2e.readme_snippets import blocks

_IMAGE = "111111111111.dkr.ecr.us-east-1.amazonaws.com/evenflow@sha256:" + "0" * 64
_COLLECTOR = "<account>.dkr.ecr.<region>.amazonaws.com/<repository>@sha256:<digest>"


def _run(begins: str, names: dict[str, Any]) -> dict[str, Any]:
    """What the block that begins so leaves behind, with its placeholders filled."""
    (code,) = (code for code in blocks("python", "docs/aws.md") if code.startswith(begins))
    exec(code.replace(_COLLECTOR, _IMAGE).replace('"…"', repr(_IMAGE)), names)  # noqa: S102
    return names


def test_an_address_of_ones_own_is_a_setting() -> None:
    made = _run("edge =", {"EdgeSettings": EdgeSettings, "HostedZone": HostedZone})
    assert made["edge"].hosted_zone.name == "example.com"


def test_the_models_price_is_a_setting() -> None:
    names = {"InferenceSettings": InferenceSettings, "ModelPrice": ModelPrice}
    assert _run("inference =", names)["inference"].price == ModelPrice(input=1, output=5)


def test_a_collector_is_named_by_its_digest() -> None:
    made = _run("tracing =", {"TracingSettings": TracingSettings})
    assert made["tracing"].collector_image == _IMAGE


def test_the_service_is_put_into_an_app() -> None:
    app = cdk.App()
    network = cdk.Stack(app, "Network", env=cdk.Environment(region="us-east-1"))
    vpc = ec2.Vpc(network, "Vpc")
    made = _run(
        "from evenflow.cdk",
        {
            "app": app,
            "cdk": cdk,
            "vpc": vpc,
            "cluster": ecs.Cluster(network, "Cluster", vpc=vpc),
            "zone": route53.PublicHostedZone(network, "Zone", zone_name="chat.example.com"),
        },
    )
    assert made["service"].url
    assert app.synth().get_stack_by_name("Shop").template["Resources"]
