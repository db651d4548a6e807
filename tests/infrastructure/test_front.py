"""What clients call: CloudFront or a load balancer alone, a new one or one that is there."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any, get_args, get_type_hints

import aws_cdk as cdk
import pytest
from aws_cdk import aws_certificatemanager as acm
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_elasticloadbalancingv2 as elbv2
from cdk_nag import AwsSolutionsChecks
from pydantic import ValidationError

import evenflow.cdk
from evenflow.cdk import (
    AlarmSettings,
    CanarySettings,
    CloudFront,
    EnvironmentSettings,
    EvenflowService,
    ExistingListener,
    OnlyLoadBalancer,
    service_settings,
)
from evenflow.infra.constructs.front import AddressNeededError
from evenflow.infra.constructs.service.load_balancer import path_rules
from evenflow.infra.evenflow_service import CanaryOutOfReachError
from evenflow.infra.existing_parts import PrivateSubnetsNeededError, VpcNeededError
from evenflow.stream_core.http.routes import ROUTES, ServedBy, edge_patterns
from tests.infrastructure.cfn_lint import findings
from tests.infrastructure.own_stacks import resources

Template = dict[str, Any]

_ACCOUNT = "arn:aws:elasticloadbalancing:us-east-1:111111111111:"
_IMAGE = "111111111111.dkr.ecr.us-east-1.amazonaws.com/evenflow:1"
_THEIRS = "sg-0123456789abcdef0"
_CERTIFICATE = "arn:aws:acm:us-east-1:111111111111:certificate/1"


def _stack() -> cdk.Stack:
    app = cdk.App()
    cdk.Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    return cdk.Stack(app, "Shop", env=cdk.Environment(region="us-east-1"))


def _vpc(stack: cdk.Stack) -> ec2.IVpc:
    return ec2.Vpc.from_vpc_attributes(
        stack,
        "Vpc",
        vpc_id="vpc-0123456789abcdef0",
        vpc_cidr_block="10.9.0.0/16",
        availability_zones=["us-east-1a", "us-east-1b"],
        private_subnet_ids=["subnet-0123456789abcdef0", "subnet-0123456789abcdef1"],
    )


def _existing(stack: cdk.Stack, **choices: Any) -> ExistingListener:
    group = ec2.SecurityGroup.from_security_group_id(stack, "Group", _THEIRS)
    return ExistingListener(
        load_balancer=elbv2.ApplicationLoadBalancer.from_application_load_balancer_attributes(
            stack,
            "Theirs",
            load_balancer_arn=f"{_ACCOUNT}loadbalancer/app/theirs/1",
            load_balancer_dns_name="internal-theirs-1.us-east-1.elb.amazonaws.com",
            security_group_id=_THEIRS,
        ),
        listener=elbv2.ApplicationListener.from_application_listener_attributes(
            stack,
            "Listener",
            listener_arn=f"{_ACCOUNT}listener/app/theirs/1/2",
            security_group=group,
        ),
        priority=200,
        **choices,
    )


def _synthesized(stack: cdk.Stack) -> Template:
    app = stack.node.root
    assert isinstance(app, cdk.App)
    template: Template = app.synth().get_stack_by_name("Shop").template  # cdk-nag finds nothing
    return template


@pytest.fixture(scope="module")
def shared() -> Template:
    """Behind a load balancer of other applications, without CloudFront."""
    stack = _stack()
    EvenflowService(
        stack,
        "Chat",
        vpc=_vpc(stack),
        settings=service_settings(stack, image=_IMAGE, canary=CanarySettings()),
        front=OnlyLoadBalancer(domain_name="chat.shop.internal"),
        listener=_existing(stack, hosts=["chat.shop.internal"]),
    )
    return _synthesized(stack)


@pytest.fixture(scope="module")
def private() -> Template:
    """Behind a load balancer and in a VPC that are made, without CloudFront."""
    stack = _stack()
    EvenflowService(
        stack,
        "Chat",
        settings=service_settings(
            stack,
            "staging",
            image=_IMAGE,
            alarms=AlarmSettings(page_email="on-call@example.com"),
        ),
        front=OnlyLoadBalancer(
            domain_name="chat.shop.internal",
            certificate=acm.Certificate.from_certificate_arn(stack, "Certificate", _CERTIFICATE),
            clients=[ec2.Peer.ipv4("172.16.0.0/12")],
        ),
    )
    return _synthesized(stack)


@pytest.fixture(scope="module")
def fronted() -> Template:
    """Behind a load balancer that is there, with CloudFront before it."""
    stack = _stack()
    EvenflowService(
        stack,
        "Chat",
        vpc=_vpc(stack),
        settings=service_settings(stack, image=_IMAGE),
        front=CloudFront(
            domain_name="chat.example.com",
            certificate=acm.Certificate.from_certificate_arn(stack, "Certificate", _CERTIFICATE),
            web_acl_arn="arn:aws:wafv2:us-east-1:111111111111:global/webacl/theirs/1",
        ),
        listener=_existing(stack, port=8443),
    )
    return _synthesized(stack)


def _rules(template: Template) -> list[Template]:
    found = resources(template, "AWS::ElasticLoadBalancingV2::ListenerRule").values()
    return sorted(found, key=lambda rule: int(rule["Priority"]))


def _paths(template: Template) -> list[str]:
    return [
        path
        for rule in _rules(template)
        for condition in rule["Conditions"]
        if condition["Field"] == "path-pattern"
        for path in condition["PathPatternConfig"]["Values"]
    ]


def _task_variables(template: Template) -> dict[str, Any]:
    (task,) = resources(template, "AWS::ECS::TaskDefinition").values()
    return {each["Name"]: each["Value"] for each in task["ContainerDefinitions"][0]["Environment"]}


def _ingress(template: Template, group: str) -> list[Template]:
    """The rules that were added to a group that is not in the template."""
    rules = resources(template, "AWS::EC2::SecurityGroupIngress").values()
    return [rule for rule in rules if rule["GroupId"] == group]


def _alarms(template: Template) -> dict[str, Any]:
    return {
        alarm["AlarmName"].split("-", 2)[2]: alarm
        for alarm in resources(template, "AWS::CloudWatch::Alarm").values()
        if "AlarmName" in alarm
    }


class TestRules:
    @pytest.mark.parametrize("servers", [(ServedBy.HANDLER,), tuple(ServedBy)])
    @pytest.mark.parametrize("hosts", [(), ("a.example",), ("*.a.example", "b.example", "c")])
    def test_no_rule_has_more_than_five_values_or_wildcards(
        self, servers: tuple[ServedBy, ...], hosts: tuple[str, ...]
    ) -> None:
        rules = path_rules(edge_patterns(*servers), hosts)
        assert len(rules) <= 10
        for paths in rules:
            values = [*paths, *hosts]
            assert len(values) <= 5
            assert sum(value.count("*") for value in values) <= 5

    def test_every_path_is_in_a_rule(self) -> None:
        patterns = edge_patterns(*OnlyLoadBalancer().servers)
        paths = [path for rule in path_rules(patterns) for path in rule]
        for pattern in patterns:
            assert any(fnmatchcase(pattern, path) for path in paths), pattern

    def test_hosts_leave_room_for_paths(self) -> None:
        stack = cdk.Stack()
        with pytest.raises(ValueError, match="at most 3 with one"):
            _existing(stack, hosts=["a", "b", "c", "d"])


class TestBehindAnExistingListener:
    def test_it_makes_no_load_balancer_and_adds_rules_of_its_own_hosts_and_priorities(
        self, shared: Template
    ) -> None:
        for kind in ("LoadBalancer", "Listener"):
            assert not resources(shared, f"AWS::ElasticLoadBalancingV2::{kind}")
        rules = _rules(shared)
        assert [rule["Priority"] for rule in rules] == [200, 201, 202]
        for rule in rules:
            assert rule["ListenerArn"] == f"{_ACCOUNT}listener/app/theirs/1/2"
            (host, _) = rule["Conditions"]
            assert host == {
                "Field": "host-header",
                "HostHeaderConfig": {"Values": ["chat.shop.internal"]},
            }

    def test_the_service_waits_for_its_rules(self, shared: Template) -> None:
        """A target group without a load balancer takes no service."""
        rules = {
            name
            for name, resource in shared["Resources"].items()
            if resource["Type"] == "AWS::ElasticLoadBalancingV2::ListenerRule"
        }
        (service,) = (r for r in shared["Resources"].values() if r["Type"] == "AWS::ECS::Service")
        assert rules <= set(service["DependsOn"])

    def test_the_load_balancer_reaches_tasks_by_one_rule(self, shared: Template) -> None:
        into_tasks = [
            (rule["FromPort"], rule["ToPort"])
            for rule in resources(shared, "AWS::EC2::SecurityGroupIngress").values()
            if rule.get("SourceSecurityGroupId") == _THEIRS
        ]
        assert into_tasks == [(8080, 8080)], "a second one would be refused as a duplicate"

    def test_it_counts_errors_of_its_own_targets_alone(self, shared: Template) -> None:
        alarms = _alarms(shared)
        assert "load_balancer.own_errors" not in alarms, "they may be another application's"
        for name in ("load_balancer.handler_errors", "rollback-errors", "service.healthy_tasks"):
            dimensions = {each["Name"] for each in alarms[name]["Dimensions"]}
            assert dimensions == {"LoadBalancer", "TargetGroup"}, name

    def test_a_time_out_that_heartbeats_do_not_outlive_is_refused(self) -> None:
        stack = _stack()
        with pytest.raises(ValidationError, match="the load balancer cuts sockets between"):
            EvenflowService(
                stack,
                "Chat",
                vpc=_vpc(stack),
                settings=service_settings(stack, image=_IMAGE),
                front=OnlyLoadBalancer(),
                listener=_existing(stack, https=False, idle_timeout_seconds=20),
            )


class TestWithoutCloudFront:
    def test_handlers_answer_sessions_and_polls_but_not_what_is_the_machines(
        self, shared: Template, private: Template
    ) -> None:
        for template in (shared, private):
            paths = _paths(template)
            for route in ROUTES:
                served = any(fnmatchcase(route.path, path) for path in paths)
                outside = route.served_by in (ServedBy.PAGE, ServedBy.MODULES, ServedBy.MACHINE)
                assert served is not outside, route.path

    def test_there_is_nothing_that_only_cloudfront_needs(
        self, shared: Template, private: Template
    ) -> None:
        for template in (shared, private):
            kinds = {resource["Type"] for resource in template["Resources"].values()}
            assert not [
                kind
                for kind in kinds
                if kind.startswith(("AWS::CloudFront", "AWS::ApiGatewayV2", "AWS::WAFv2"))
            ]
            assert "AWS::EC2::InternetGateway" not in kinds
            functions = resources(template, "AWS::Lambda::Function").values()
            names = {
                function["FunctionName"].split("-", 2)[2]
                for function in functions
                if "FunctionName" in function
            }
            assert names == {"rotate-signing-keys", "usage-file", "canary"}
            alarms = _alarms(template)
            assert not {"http_api.errors", "session_init.throttles"} & alarms.keys()
            assert "rotate_signing_keys.errors" in alarms

    def test_a_task_trusts_one_proxy_and_knows_its_address(
        self, shared: Template, private: Template
    ) -> None:
        for template, cidr in ((shared, "10.9.0.0/16"), (private, "10.30.0.0/16")):
            variables = _task_variables(template)
            assert variables["EVENFLOW_TRUSTED_PROXIES"] == f"{cidr}=1"
            assert variables["EVENFLOW_COOKIE_SECURE"] == "true"
            assert variables["EVENFLOW_PUBLIC_HTTP_URL"] == "https://chat.shop.internal"
            outputs = {
                name: output["Value"] for name, output in template["Outputs"].items()
            }.values()
            assert "wss://chat.shop.internal/ws" in outputs

    def test_a_load_balancer_of_our_own_lets_in_whom_it_is_told(self, private: Template) -> None:
        (listener,) = resources(private, "AWS::ElasticLoadBalancingV2::Listener").values()
        assert (listener["Protocol"], listener["Port"]) == ("HTTPS", 443)
        assert listener["Certificates"] == [{"CertificateArn": _CERTIFICATE}]
        (balancer,) = resources(private, "AWS::ElasticLoadBalancingV2::LoadBalancer").values()
        assert balancer["Scheme"] == "internal"
        (group,) = (
            group
            for group in resources(private, "AWS::EC2::SecurityGroup").values()
            if group["GroupDescription"].startswith("Load balancer")
        )
        assert [(rule["CidrIp"], rule["FromPort"]) for rule in group["SecurityGroupIngress"]] == [
            ("172.16.0.0/12", 443)
        ]

    def test_the_canary_asks_from_where_clients_are(
        self, shared: Template, private: Template
    ) -> None:
        for template in (shared, private):
            (canary,) = (
                function
                for function in resources(template, "AWS::Lambda::Function").values()
                if "EVENFLOW_QUESTION" in function.get("Environment", {}).get("Variables", {})
            )
            assert canary["Environment"]["Variables"]["EVENFLOW_URL"] == (
                "https://chat.shop.internal"
            )
            (own,) = (group["Fn::GetAtt"][0] for group in canary["VpcConfig"]["SecurityGroupIds"])
            rules = resources(template, "AWS::EC2::SecurityGroupIngress").values()
            let_in = [
                rule["Description"]
                for rule in rules
                if rule.get("SourceSecurityGroupId") == {"Fn::GetAtt": [own, "GroupId"]}
            ]
            # The load balancer, and where they are ours the endpoints.
            assert let_in == ["Canary"] * (1 if template is shared else 2)

    def test_a_canary_without_a_way_to_its_key_is_refused(self) -> None:
        stack = _stack()
        settings = service_settings(stack, image=_IMAGE, canary=CanarySettings())
        with pytest.raises(CanaryOutOfReachError, match="canary=None"):
            EvenflowService(stack, "Chat", settings=settings, front=OnlyLoadBalancer())


class TestCloudFrontBeforeAnExistingListener:
    def test_the_vpc_origin_is_that_load_balancer(self, fronted: Template) -> None:
        (origin,) = resources(fronted, "AWS::CloudFront::VpcOrigin").values()
        endpoint = origin["VpcOriginEndpointConfig"]
        assert endpoint["Arn"] == f"{_ACCOUNT}loadbalancer/app/theirs/1"
        assert (endpoint["OriginProtocolPolicy"], endpoint["HTTPSPort"]) == ("https-only", 8443)

    def test_cloudfront_may_reach_it_and_tasks_trust_both(self, fronted: Template) -> None:
        (rule,) = _ingress(fronted, _THEIRS)
        assert (rule["SourcePrefixListId"], rule["FromPort"]) == ("pl-3b927c52", 8443)
        assert _task_variables(fronted)["EVENFLOW_TRUSTED_PROXIES"] == "10.9.0.0/16=2"

    def test_their_certificate_and_web_acl_are_used(self, fronted: Template) -> None:
        (distribution,) = resources(fronted, "AWS::CloudFront::Distribution").values()
        config = distribution["DistributionConfig"]
        assert config["ViewerCertificate"]["AcmCertificateArn"] == _CERTIFICATE
        assert config["WebACLId"].endswith("/webacl/theirs/1")
        assert not resources(fronted, "AWS::WAFv2::WebACL")
        assert not resources(fronted, "AWS::CertificateManager::Certificate")


@pytest.mark.parametrize(
    ("front", "choices", "why"),
    [
        (OnlyLoadBalancer(), {}, "its certificate must be for the name"),
        (CloudFront(), {}, "its certificate must be for the name"),
        (
            OnlyLoadBalancer(domain_name="chat.shop.internal"),
            {"hosts": ["shop.internal"]},
            "clients call chat.shop.internal, and the listener's hosts are shop.internal",
        ),
        (CloudFront(), {"https": False, "hosts": ["shop.internal"]}, "a name that AWS gives"),
        (CloudFront(domain_name="chat.shop.com"), {}, "give CloudFront zone, or certificate"),
    ],
)
def test_a_listener_that_no_request_would_reach_is_refused(
    front: CloudFront | OnlyLoadBalancer, choices: dict[str, Any], why: str
) -> None:
    stack = _stack()
    with pytest.raises(AddressNeededError, match=why):
        EvenflowService(
            stack,
            "Chat",
            vpc=_vpc(stack),
            settings=service_settings(stack, image=_IMAGE),
            front=front,
            listener=_existing(stack, **choices),
        )


def test_a_vpc_without_private_subnets_is_refused() -> None:
    stack = _stack()
    public = ec2.SubnetConfiguration(name="Public", subnet_type=ec2.SubnetType.PUBLIC)
    vpc = ec2.Vpc(stack, "Public", nat_gateways=0, subnet_configuration=[public])
    with pytest.raises(PrivateSubnetsNeededError, match="no private subnets"):
        EvenflowService(stack, "Chat", vpc=vpc)


def test_the_vpc_of_a_listener_must_be_known() -> None:
    stack = _stack()
    with pytest.raises(VpcNeededError, match="give vpc"):
        EvenflowService(
            stack,
            "Chat",
            settings=service_settings(stack, image=_IMAGE),
            front=OnlyLoadBalancer(),
            listener=_existing(stack, https=False),
        )


def _classes_in(annotation: Any) -> Iterator[type]:
    if isinstance(annotation, type) and annotation.__module__.startswith("evenflow."):
        yield annotation
    for part in get_args(annotation):
        yield from _classes_in(part)


def test_an_app_imports_all_that_it_gives_from_one_place() -> None:
    hints = get_type_hints(EvenflowService.__init__) | get_type_hints(EnvironmentSettings)
    parts = {part.__name__ for hint in hints.values() for part in _classes_in(hint)}
    assert len(parts) > 15
    assert parts <= set(evenflow.cdk.__all__)


def test_cfn_lint_finds_nothing(shared: Template, private: Template, fronted: Template) -> None:
    for template in (shared, private, fronted):
        # W3045: without our feature flags CDK writes the bucket of access logs an ACL.
        found = [match for match in findings(template) if match.rule.id not in ("W3005", "W3045")]
        assert not found
