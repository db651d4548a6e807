"""An environment with a service of workers: handlers call them, and they the model.

And what is the same without.
"""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from evenflow.fargate_handler.settings.handler_settings import HandlerSettings
from evenflow.fargate_handler.settings.model_values import split_address
from evenflow.infra.announce import announcement
from evenflow.infra.constructs.inference.model_access import ModelAccess
from evenflow.infra.constructs.network.network import MOST_ZONES
from evenflow.infra.estimates.costs import HOURS_PER_MONTH, costs
from evenflow.infra.estimates.quotas import quota_lines
from evenflow.infra.estimates.traffic import Traffic
from evenflow.infra.settings.stack_settings import WorkerServiceSettings
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.metrics.metric_catalogue import GENERATIONS_RUNNING, PUBLISHED
from tests.infrastructure.cfn_lint import findings
from tests.infrastructure.conftest import Synthesize
from tests.infrastructure.synthesis import Synthesis

_RUNBOOKS = Path(__file__).parents[2] / "docs" / "runbooks"
_PORT = 50051


@pytest.fixture(scope="module")
def workers(with_workers: Synthesis) -> WorkerServiceSettings:
    assert with_workers.settings.workers is not None
    return with_workers.settings.workers


def _named(
    synthesis: Synthesis, kind: str, part: str, stack: str = "service"
) -> tuple[str, dict[str, Any]]:
    """The one resource of a type whose logical id has this part."""
    (found,) = ((name, r) for name, r in synthesis.of_type(kind, stack).items() if part in name)
    return found


def _service(synthesis: Synthesis, part: str) -> dict[str, Any]:
    properties: dict[str, Any] = _named(synthesis, "AWS::ECS::Service", part)[1]["Properties"]
    return properties


def _container(synthesis: Synthesis, role: str) -> dict[str, Any]:
    (container,) = (
        container
        for task in synthesis.of_type("AWS::ECS::TaskDefinition", "service").values()
        for container in task["Properties"]["ContainerDefinitions"]
        if container["Name"] == role
    )
    found: dict[str, Any] = container
    return found


def _variables(synthesis: Synthesis, role: str) -> dict[str, Any]:
    return {
        variable["Name"]: variable["Value"]
        for variable in _container(synthesis, role)["Environment"]
    }


def _actions(synthesis: Synthesis, role: str) -> set[str]:
    """What the policies of this role allow."""
    return {
        action
        for policy in synthesis.of_type("AWS::IAM::Policy", "service").values()
        if {"Ref": role} in policy["Properties"]["Roles"]
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]
        for action in (
            [statement["Action"]] if isinstance(statement["Action"], str) else statement["Action"]
        )
    }


def _task_role(synthesis: Synthesis, family: str) -> str:
    (role,) = (
        task["Properties"]["TaskRoleArn"]["Fn::GetAtt"][0]
        for task in synthesis.of_type("AWS::ECS::TaskDefinition", "service").values()
        if task["Properties"]["Family"].endswith(family)
    )
    found: str = role
    return found


def test_no_environment_has_them_until_it_says_so(synthesis: Synthesis) -> None:
    assert synthesis.settings.workers is None
    assert "ServiceConnectConfiguration" not in synthesis.only("AWS::ECS::Service", "service")
    assert not synthesis.of_type("AWS::ServiceDiscovery::HttpNamespace")


def test_they_can_come_and_go_in_one_deployment(
    staging: Synthesis, with_workers: Synthesis
) -> None:
    """No other stack is changed: an export that goes while it is used would stop a deployment."""
    changed = {
        name
        for name, template in staging.templates.items()
        if with_workers.templates[name] != template
    }
    assert (changed, set(with_workers.templates)) == (
        {"service", "observability"},
        set(staging.templates),
    )


def test_handlers_call_them_by_the_name_that_they_have(with_workers: Synthesis) -> None:
    (offered,) = _service(with_workers, "Workers")["ServiceConnectConfiguration"]["Services"]
    (alias,) = offered["ClientAliases"]
    handler = _variables(with_workers, "handler")
    assert handler["EVENFLOW_MODEL"] == "grpc"
    assert (
        split_address(handler["EVENFLOW_WORKERS"])
        == (alias["DnsName"], alias["Port"])
        == ("workers", _PORT)
    )
    both = [
        _service(with_workers, part)["ServiceConnectConfiguration"]
        for part in ("Handlers", "Workers")
    ]
    assert both[0]["Namespace"] == both[1]["Namespace"]
    assert [configuration["Enabled"] for configuration in both] == [True, True]
    assert "Services" not in both[0], "handlers offer nothing"
    (port,) = _container(with_workers, "worker")["PortMappings"]
    assert (port["Name"], port["ContainerPort"], port["AppProtocol"]) == (
        offered["PortName"],
        _PORT,
        "grpc",
    )


def test_the_proxy_cuts_no_answer_off(with_workers: Synthesis) -> None:
    (offered,) = _service(with_workers, "Workers")["ServiceConnectConfiguration"]["Services"]
    assert offered["Timeout"]["PerRequestTimeoutSeconds"] == 0, "15 s is what is left out"
    limits = with_workers.settings.limits
    assert (
        offered["Timeout"]["IdleTimeoutSeconds"]
        > limits.pause_seconds + limits.model_silence_seconds
    )


def test_workers_call_the_model_and_handlers_no_more(
    staging: Synthesis, with_workers: Synthesis
) -> None:
    calling = {"bedrock:InvokeModelWithResponseStream"}
    worker, handler, before = (
        _task_role(with_workers, "-worker"),
        _task_role(with_workers, "-handler"),
        _task_role(staging, "-handler"),
    )
    assert _actions(with_workers, worker) == calling, "and nothing else"
    assert _actions(with_workers, handler) == _actions(staging, before) - calling
    assert handler != before, (
        "handlers that still call the model keep their role until they are replaced"
    )
    direct, behind = _variables(staging, "handler"), _variables(with_workers, "worker")
    for name in ("EVENFLOW_MODEL", "EVENFLOW_MODEL_NAME"):
        assert behind[name] == direct[name]
    assert (
        _variables(with_workers, "handler")["EVENFLOW_MODEL_NAME"] == direct["EVENFLOW_MODEL_NAME"]
    )


@pytest.mark.parametrize(
    ("name", "calling"),
    [
        ("dev-workers", set()),
        (
            "choosy-workers",
            {"sagemaker:InvokeEndpoint", "sagemaker:InvokeEndpointWithResponseStream"},
        ),
    ],
)
def test_any_model_can_be_theirs(synthesized: Synthesize, name: str, calling: set[str]) -> None:
    synthesis = synthesized(name)  # raises when cdk-nag finds something
    assert _actions(synthesis, _task_role(synthesis, "-worker")) == calling
    assert _variables(synthesis, "worker")["EVENFLOW_MODEL"] == synthesis.settings.inference.kind
    assert not calling & _actions(synthesis, _task_role(synthesis, "-handler"))


def test_gpus_of_its_own_behind_workers_are_one_environment(synthesized: Synthesize) -> None:
    synthesis = synthesized("staging-sagemaker-workers")  # raises when cdk-nag finds something
    for stack in ("service", "sagemaker"):
        found = findings(synthesis.templates[stack])
        # W3005: CDK writes dependencies down that a reference would give too.
        assert not [match for match in found if match.rule.id != "W3005"], stack
    model = synthesis.only("AWS::SageMaker::Model", "sagemaker")
    assert len(model["VpcConfig"]["Subnets"]) == MOST_ZONES
    assert "OPTION_SPECULATIVE_CONFIG" in model["PrimaryContainer"]["Environment"]
    rows = costs(synthesis.settings, synthesis.templates.values(), Traffic())
    assert {row.what.split()[0] for row in rows} >= {"Workers", "SageMaker"}
    needed = quota_lines(synthesis.settings, Traffic())
    assert any(line.startswith("SageMaker ml.g6e.xlarge for endpoint usage: 4 ") for line in needed)


def test_clients_call_the_model_as_before() -> None:
    assert HandlerSettings(model="demo").served_models == {"demo": ""}
    variables = ModelAccess("demo").behind("workers:50051").variables
    behind = HandlerSettings.model_validate(
        {
            "model": "grpc",
            "workers": variables["EVENFLOW_WORKERS"],
            "model_name": variables["EVENFLOW_MODEL_NAME"],
        }
    )
    assert behind.served_models == {"demo": ""}


def test_a_worker_is_the_same_image_in_its_other_role(with_workers: Synthesis) -> None:
    worker, handler = _container(with_workers, "worker"), _container(with_workers, "handler")
    assert worker["Image"] == handler["Image"]
    assert worker["Command"] == ["--role", "worker"]
    assert "Command" not in handler
    for name in ("ReadonlyRootFilesystem", "User", "LinuxParameters"):
        assert worker[name] == handler[name]
    assert (
        worker["LogConfiguration"]["Options"]["awslogs-group"]
        != handler["LogConfiguration"]["Options"]["awslogs-group"]
    )
    assert worker["LogConfiguration"]["Options"]["mode"] == "non-blocking"


def test_a_worker_knows_every_variable_that_it_is_given(with_workers: Synthesis) -> None:
    given = _variables(with_workers, "worker")
    known = {f"EVENFLOW_{name.upper()}" for name in HandlerSettings.model_fields}
    assert set(given) - {"AWS_REGION"} <= known
    assert not [name for name in given if "SECRET" in name or "TABLE" in name]
    limits = {name: given.get(f"EVENFLOW_{name.upper()}") for name in Limits.model_fields}
    assert (
        Limits.model_validate({name: value for name, value in limits.items() if value is not None})
        == with_workers.settings.limits
    )


def test_a_leaving_worker_has_time_for_its_answers(with_workers: Synthesis) -> None:
    drain = float(_variables(with_workers, "worker")["EVENFLOW_DRAIN_SECONDS"])
    assert drain + 5 < _container(with_workers, "worker")["StopTimeout"] == 120


def test_its_health_is_asked_by_what_is_in_the_image(with_workers: Synthesis) -> None:
    kind, *command, module = _container(with_workers, "worker")["HealthCheck"]["Command"]
    assert (kind, command) == ("CMD", ["python", "-m"])
    assert find_spec(module) is not None


def test_only_handlers_reach_them_and_they_only_aws(with_workers: Synthesis) -> None:
    group, _ = _named(with_workers, "AWS::EC2::SecurityGroup", "Workers")
    own = {"Fn::GetAtt": [group, "GroupId"]}
    handler, endpoints = "NetworkSecurityGroupsHandler", "NetworkSecurityGroupsEndpoints"
    into: set[tuple[str, str, int]] = set()
    out_of: set[tuple[str, str, int]] = set()
    for kind, found in (("Ingress", into), ("Egress", out_of)):
        for rule in with_workers.of_type(f"AWS::EC2::SecurityGroup{kind}", "service").values():
            properties = rule["Properties"]
            peer = properties.get("SourceSecurityGroupId") or properties.get(
                "DestinationSecurityGroupId"
            )
            ends = [
                json.dumps(properties["GroupId"]),
                json.dumps(peer or properties["DestinationPrefixListId"]),
            ]
            assert (properties["IpProtocol"], properties["FromPort"]) == (
                "tcp",
                properties["ToPort"],
            )
            of, other = (
                "worker"
                if end == json.dumps(own)
                else next((n for n in (handler, endpoints) if n in end), end)
                for end in ends
            )
            found.add((of, other, properties["ToPort"]))
    s3 = json.dumps(with_workers.settings.region.s3)
    assert into == {("worker", handler, _PORT), (endpoints, "worker", 443)}
    assert out_of == {
        (handler, "worker", _PORT),
        (handler, endpoints, 443),
        ("worker", endpoints, 443),
        ("worker", s3, 443),
    }
    assert _service(with_workers, "Workers")["NetworkConfiguration"]["AwsvpcConfiguration"][
        "SecurityGroups"
    ] == [own]


def test_workers_are_there_before_handlers_and_their_rules_before_them(
    with_workers: Synthesis,
) -> None:
    name, workers = _named(with_workers, "AWS::ECS::Service", "Workers")
    _, handlers = _named(with_workers, "AWS::ECS::Service", "Handlers")
    assert name in handlers["DependsOn"]
    rules = {
        rule
        for kind in ("Ingress", "Egress")
        for rule in with_workers.of_type(f"AWS::EC2::SecurityGroup{kind}", "service")
    }
    assert rules <= set(workers["DependsOn"])


def test_the_service_is_kept_running_and_goes_back_by_itself(
    with_workers: Synthesis, workers: WorkerServiceSettings
) -> None:
    service = _service(with_workers, "Workers")
    assert "LoadBalancers" not in service
    assert "DesiredCount" not in service
    assert service["EnableExecuteCommand"] is False
    assert service["NetworkConfiguration"]["AwsvpcConfiguration"]["AssignPublicIp"] == "DISABLED"
    deployment = service["DeploymentConfiguration"]
    assert deployment["DeploymentCircuitBreaker"] == {"Enable": True, "Rollback": True}
    assert (deployment["MinimumHealthyPercent"], deployment["MaximumPercent"]) == (
        100,
        workers.deployment_percent,
    )


def test_they_are_added_for_cpu(with_workers: Synthesis, workers: WorkerServiceSettings) -> None:
    target, found = _named(with_workers, "AWS::ApplicationAutoScaling::ScalableTarget", "Workers")
    assert (found["Properties"]["MinCapacity"], found["Properties"]["MaxCapacity"]) == (
        workers.tasks_min,
        workers.tasks_max,
    )
    by_cpu, _ = _scaling_policies(with_workers, target)
    assert by_cpu["TargetValue"] == workers.cpu_percent
    assert by_cpu["PredefinedMetricSpecification"] == {
        "PredefinedMetricType": "ECSServiceAverageCPUUtilization"
    }


def _scaling_policies(synthesis: Synthesis, target: str) -> list[dict[str, Any]]:
    """Those of a scalable target: with a metric of AWS's first, then with one of ours."""
    found = (
        policy["Properties"]["TargetTrackingScalingPolicyConfiguration"]
        for policy in synthesis.of_type(
            "AWS::ApplicationAutoScaling::ScalingPolicy", "service"
        ).values()
        if policy["Properties"]["ScalingTargetId"] == {"Ref": target}
    )
    return sorted(found, key=lambda policy: "CustomizedMetricSpecification" in policy)


def test_they_are_added_for_answers_that_wait_for_a_model_and_use_no_cpu(
    with_workers: Synthesis, workers: WorkerServiceSettings
) -> None:
    target, _ = _named(with_workers, "AWS::ApplicationAutoScaling::ScalableTarget", "Workers")
    _, by_load = _scaling_policies(with_workers, target)
    assert by_load["TargetValue"] == workers.answers_per_task
    answers, running, load = by_load["CustomizedMetricSpecification"]["Metrics"]
    assert (load["Expression"], load["ReturnData"]) == ("answers / workers", True)
    assert (answers["Id"], answers["ReturnData"]) == ("answers", False)
    assert (answers["MetricStat"]["Metric"]["MetricName"], answers["MetricStat"]["Stat"]) == (
        GENERATIONS_RUNNING.name,
        "Sum",
    )
    assert GENERATIONS_RUNNING in PUBLISHED
    # The number of workers, as the alarm counts them.
    _, alarm = _named(
        with_workers, "AWS::CloudWatch::Alarm", "workersrunningtasks", "observability"
    )
    counted, found = running["MetricStat"], alarm["Properties"]
    assert (running["Id"], running["ReturnData"], counted["Stat"]) == (
        "workers",
        False,
        found["Statistic"],
    )
    assert counted["Metric"]["MetricName"] == found["MetricName"]
    names = {each["Name"]: each["Value"] for each in counted["Metric"]["Dimensions"]}
    assert names["ServiceName"] == _service(with_workers, "Workers")["ServiceName"]


def test_somebody_is_woken_when_too_few_run(
    with_workers: Synthesis, workers: WorkerServiceSettings
) -> None:
    _, alarm = _named(
        with_workers, "AWS::CloudWatch::Alarm", "workersrunningtasks", "observability"
    )
    found = alarm["Properties"]
    assert (found["Namespace"], found["MetricName"], found["Statistic"]) == (
        "AWS/ECS",
        "CPUUtilization",
        "SampleCount",
    )
    service = {"Name": "ServiceName", "Value": _service(with_workers, "Workers")["ServiceName"]}
    assert service in found["Dimensions"]
    assert (found["Threshold"], found["ComparisonOperator"]) == (
        workers.tasks_min,
        "LessThanThreshold",
    )
    assert found["TreatMissingData"] == "breaching"
    assert len(found["AlarmActions"]) == 2, "pages, and notices"
    assert found["AlarmDescription"].endswith("/workers.running_tasks.md")
    assert "# workers.running_tasks" in (_RUNBOOKS / "workers.running_tasks.md").read_text("utf-8")
    assert "(workers.running_tasks.md)" in (_RUNBOOKS / "README.md").read_text("utf-8")
    dashboard = with_workers.only("AWS::CloudWatch::Dashboard", "observability")
    assert service["Value"] in json.dumps(dashboard)


def test_they_are_in_what_a_deployment_costs_and_needs(
    staging: Synthesis, with_workers: Synthesis
) -> None:
    traffic = Traffic()
    (row,) = (
        row
        for row in costs(with_workers.settings, with_workers.templates.values(), traffic)
        if row.what.startswith("Workers")
    )
    one_task = 0.03238 + 2 * 0.00356
    assert row.month_at_rest == pytest.approx(2 * one_task * HOURS_PER_MONTH)
    # 20,000 events a second of 135 us are 2.7 cores. Autoscaling uses 60 % of a core: 4.5 tasks.
    # At 200 answers each, 1,000 answers are 5.
    assert row.hour_of_streams == pytest.approx(5 * one_task)
    assert not [
        row
        for row in costs(staging.settings, staging.templates.values(), traffic)
        if row.what.startswith("Workers")
    ]
    text = announcement(with_workers.settings, with_workers.templates, traffic)
    assert "2 ECS service" in text
    # A deployment of 10 workers doubles them while 10 handlers run.
    (cores,) = (
        line for line in quota_lines(with_workers.settings, traffic) if line.startswith("Fargate")
    )
    assert cores.startswith("Fargate On-Demand vCPU: 30 ")
