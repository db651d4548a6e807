"""The settings of an environment's stacks: sizes, thresholds and switches. Frozen."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from annotated_types import Ge, Le
from pydantic import BaseModel, ConfigDict, Field, model_validator

NEW_TABLE_WRITES = 4_000
"""Write units a second that DynamoDB gives a new table of its own accord."""
FIRST_EDGE_KEY = "k1"
"""The name of the edge key that a deployment makes."""
Percent = Annotated[int, Ge(1), Le(100)]
TaskCount = Annotated[int, Ge(1)]
DeploymentPercent = Annotated[int, Ge(101), Le(200)]


class Settings(BaseModel):
    """Frozen settings, which reject unknown names."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class NetworkSettings(Settings):
    """The VPC.

    Args:
        cidr: the VPC's addresses. They can't be changed once they are deployed.
        zones: in how many availability zones tasks are, the first ones of Region.zone_ids. Subnets
            are in three of them, and so is the load balancer.
        endpoint_zones: in how many of them an interface endpoint has an address. Each costs by the
            hour. 0: there are no such endpoints. Then tasks are in public subnets, with addresses
            of their own, and call AWS over the internet. Security groups keep all callers out.
    """

    cidr: str
    zones: int = Field(ge=2, le=3)
    endpoint_zones: int = Field(ge=0, le=3)
    flow_logs: bool

    @property
    def tasks_are_public(self) -> bool:
        """Whether tasks have public addresses, by which they reach AWS."""
        return self.endpoint_zones == 0


class DataSettings(Settings):
    """Tables and secrets.

    Args:
        keep: whether tables, secrets, logs and log buckets survive the deletion of their stack.
        customer_key: encrypt with a key of the account instead of AWS's. `allowed`: the key exists
            and roles may use it, but nothing new is encrypted with it. A running environment needs
            this step before `True`: roles get the right first. It also follows `True`, since the
            key has encrypted existing data and must stay.
        recovery_days: how far back conversations (the tables of sessions and of the ledger) can be
            restored. So long a deleted one is still in the backup: a day is what tables keep. The
            response store is never backed up. 0: conversations are not.
        tenant_recovery_days: how far back the table of tenants can be restored: their records, the
            digests of their keys, budgets and usage. It costs the same for any number of days. 0:
            it is not backed up.
        warm_writes_per_second: what the response store takes at once, from its first minute. A
            new table takes 4,000, and more as it is used more. What is above that is paid once.
            `make deploy` says what the load needs. It can be raised, never lowered.
        signing_key_rotation_days: a key signs for one such period, and verifies for three.
        usage_file_days: how long the file of a day's usage is kept.
    """

    keep: bool
    customer_key: bool | Literal["allowed"]
    recovery_days: int = Field(0, ge=0, le=35)
    tenant_recovery_days: int = Field(0, ge=0, le=35)
    warm_writes_per_second: int = Field(NEW_TABLE_WRITES, ge=NEW_TABLE_WRITES, le=40_000)
    signing_key_rotation_days: int = Field(30, ge=1, le=365)
    usage_file_days: int = Field(400, ge=1, le=36_500)


class ServiceSettings(Settings):
    """An ECS service on Fargate.

    Args:
        cpu: of a task, in Fargate's units, 1,024 for a core.
        deployment_percent: the most old and new tasks during a deployment, in percent of the wanted
            ones, rounded down. The more, the more tasks hand their readers over at once.
        stop_timeout_seconds: from SIGTERM to SIGKILL. Fargate allows 120.
    """

    cpu: Literal[256, 512, 1024, 2048]
    memory_mib: int
    tasks_min: TaskCount
    tasks_max: int
    deployment_percent: DeploymentPercent
    stop_timeout_seconds: int = Field(120, ge=2, le=120)

    @model_validator(mode="after")
    def _check_task_counts(self) -> Self:
        if self.tasks_max < self.tasks_min:
            raise ValueError(f"tasks_max must not be below tasks_min ({self.tasks_min})")
        if self.tasks_min * self.deployment_percent // 100 == self.tasks_min:
            raise ValueError(
                f"deployment_percent leaves no room for one more than {self.tasks_min} tasks"
            )
        return self


class HandlerServiceSettings(ServiceSettings):
    """The handlers' service and its load balancer. A handler uses one core at most.

    Args:
        load_percent: the average load that autoscaling aims at (node.load_percent). At most half: a
            task that fails must leave its load room at the others. At 40, one of two that fails
            leaves the other at 80, where deliveries are still even.
        surge_load: (percent above that, tasks added at once), rising.
        deregistration_delay_seconds: how long a leaving task may finish its answers before its
            sockets are cut.
        server_errors_per_minute: how many 5xx answers of the targets roll a deployment back. It is
            also the threshold of three alarms: 5xx by handlers, by the load balancer and by the
            HTTP API. Refusals by full tasks count, so it should grow with the number of tasks.
        container_insights: whether ECS publishes metrics of its own. No alarm or dashboard of ours
            reads them, and they cost.
    """

    load_percent: int = Field(40, ge=1, le=50)
    surge_load: tuple[tuple[int, int], ...]
    open_files: int = Field(65_535, ge=65_535, le=1_048_576)
    idle_timeout_seconds: int = Field(65, ge=1, le=4_000)
    health_check_seconds: int = Field(10, ge=5, le=300)
    deregistration_delay_seconds: int = Field(120, ge=0, le=3_600)
    server_errors_per_minute: int = Field(10, ge=1)
    container_insights: bool = False


class WorkerServiceSettings(ServiceSettings):
    """The workers' service. Where there is one, the workers call the model, not the handlers.

    Handlers reach them through Service Connect. Its proxy runs in each task of both services, and
    takes CPU and memory of the task: begin with 256 units and 64 MiB for it, and measure.

    Args:
        cpu_percent: the average that autoscaling aims at.
        answers_per_task: the target of concurrent answers per worker. Of this and `cpu_percent`
            the one that needs more tasks counts: a worker that waits for its model uses no CPU. The
            default is what a core does at `cpu_percent`: 135 us for each of 20 tokens a second.
        idle_timeout_seconds: how long a connection may be silent before the proxy closes it. It
            must be longer than a reader's longest pause.
    """

    cpu: Literal[256, 512, 1024, 2048] = 1024
    memory_mib: int = 2_048
    tasks_min: TaskCount = 2
    tasks_max: int = 10
    deployment_percent: DeploymentPercent = 200
    cpu_percent: Percent = 60
    answers_per_task: int = Field(200, ge=1)
    idle_timeout_seconds: int = Field(600, ge=1)


class ReservedConcurrency(Settings):
    """How many of each function may run at once. The account reserves them for it alone."""

    session_init: int = Field(ge=1)
    poll_response: int = Field(ge=1)
    rotate_signing_keys: int = Field(1, ge=1)

    @property
    def total(self) -> int:
        """How much of the account's quota is reserved."""
        return self.session_init + self.poll_response + self.rotate_signing_keys


class FunctionSettings(Settings):
    """The Lambda functions and their HTTP API.

    Args:
        reserved_concurrency: None reserves nothing. A new account can do nothing else: it has a
            quota of 10, and must leave 10 unreserved. `make deploy` says what an environment needs.
        memory_mib: a poll is paid by it for as long as it waits. Imported, it takes 90.
        throttle_rate, throttle_burst: requests a second, over all clients.
        session_rate, session_burst: how many of them session_init answers, so that a flood of these
            leaves polls alone.
    """

    memory_mib: int = Field(256, ge=128, le=10_240)
    reserved_concurrency: ReservedConcurrency | None
    session_init_timeout_seconds: int = Field(15, ge=1, le=29)
    poll_response_timeout_seconds: int = Field(29, ge=1, le=29)  # an HTTP API gives up after 30 s
    throttle_rate: int = Field(ge=1)
    throttle_burst: int = Field(ge=1)
    session_rate: int = Field(ge=1)
    session_burst: int = Field(ge=1)


class HostedZone(Settings):
    """A public zone of Route 53.

    Args:
        zone_id: `Z0123456789ABCDEFGHIJ`.
        name: `example.com`.
    """

    zone_id: str
    name: str


FirewallGroup = Literal[
    "AWSManagedRulesAmazonIpReputationList",
    "AWSManagedRulesKnownBadInputsRuleSet",
    "AWSManagedRulesCommonRuleSet",
]
"""A group of rules that AWS manages."""


class FirewallSettings(Settings):
    """The web ACL before CloudFront. Rates are of one address, over five minutes.

    Args:
        sessions_without_key: requests to `/session` without the header `Authorization`, whatever
            would be in it. What is above gets 429 from WAF for a while.
        requests: requests that may send something: POST and DELETE, whatever their path,
            WebSockets that open, and all of `/v1/`. What is above gets 429 likewise. The default is
            twice what 1,000 concurrent streams of 20 s need, if all came from one backend.
        polls: long polls over one minute. A reader sends ten to twenty. While a poll waits, it
            takes one of the executions that are reserved for them; one address must not take all.
        counted_rules: rules of AWS's groups that count matches and don't block them, besides
            those on bodies: `{"AWSManagedRulesCommonRuleSet": ("GenericLFI_URIPATH",)}`.
        blocked_per_minute: an alarm is raised above this number of blocked requests a minute.
    """

    sessions_without_key: int = Field(3_000, ge=10, le=2_000_000_000)
    requests: int = Field(30_000, ge=10, le=2_000_000_000)
    polls: int = Field(720, ge=10, le=2_000_000_000)
    counted_rules: dict[FirewallGroup, tuple[str, ...]] = Field(default_factory=dict)
    blocked_per_minute: int = Field(100, ge=1)


class EdgeSettings(Settings):
    """The CloudFront distribution.

    Args:
        domain_name: an address of your own. It takes a hosted zone or a certificate.
        hosted_zone: the zone that the address is in. Records and certificates are made, and
            CloudFront speaks TLS with the load balancer.
        tls_to_balancer: whether CloudFront speaks TLS with the load balancer, if there is a hosted
            zone. Switching it off is the first step of removing or changing a domain.
        certificate_arn: a certificate for the address in us-east-1. Without a hosted zone the
            record is yours to make, and CloudFront speaks HTTP with the load balancer, inside AWS.
        firewall: a WAF web ACL with AWS's managed rules and rates for each address. None: none.
        web_acl_arn: a WAF web ACL of your own instead (scope CLOUDFRONT, in us-east-1).
        edge_key: which entry of the secret `evenflow-<env>-edge-keys` CloudFront shows the
            functions. They take any, so that one can be replaced (docs/runbooks/signing-keys.md).
            CloudFormation refuses one that isn't in the secret.
        read_timeout_seconds: how long an origin may be silent. Longer than a poll and than an event
            stream's heartbeat.
    """

    price_class: Literal["PRICE_CLASS_100", "PRICE_CLASS_200", "PRICE_CLASS_ALL"]
    domain_name: str | None = None
    hosted_zone: HostedZone | None = None
    tls_to_balancer: bool = True
    certificate_arn: str | None = None
    firewall: FirewallSettings | None = None
    web_acl_arn: str | None = None
    edge_key: str = Field(FIRST_EDGE_KEY, pattern=r"^[a-z0-9-]{1,64}$")
    read_timeout_seconds: int = Field(60, ge=30, le=120)

    @property
    def speaks_tls_to_balancer(self) -> bool:
        """Whether CloudFront speaks TLS with the load balancer."""
        return self.hosted_zone is not None and self.tls_to_balancer

    @model_validator(mode="after")
    def _check_domain(self) -> Self:
        proven = self.certificate_arn is not None or self.hosted_zone is not None
        if (self.domain_name is not None) != proven:
            raise ValueError("domain_name must be set together with hosted_zone or certificate_arn")
        return self

    @model_validator(mode="after")
    def _check_one_web_acl(self) -> Self:
        if self.firewall is not None and self.web_acl_arn is not None:
            raise ValueError("web_acl_arn is set beside firewall, and there can be one of them")
        return self
