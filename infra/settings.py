"""The sizes, thresholds and switches of a deployment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from annotated_types import Ge, Le
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from stream_core.metrics.metric_catalogue import ACTIVE_CONNECTIONS
from stream_core.policy.agents import Agent, agents_as_json
from stream_core.policy.allowed_origins import parse_origins
from stream_core.policy.channel import NAME_PATTERN
from stream_core.policy.limits import Limits
from stream_core.policy.memory_bound import MEBIBYTE, limits_bound

Percent = Annotated[int, Ge(1), Le(100)]

# All variables of a function together may have 4 KB.
_LONGEST_ORIGINS = 2_000
_LONGEST_SUGGESTIONS = 1_000
# A task definition may have 64 KB.
_LONGEST_AGENTS = 32_768
# How long a leaving task may not know it: it asks ECS every 5 to 10 s.
_BEFORE_DRAIN_SECONDS = 10
# What a handler does after its drain: the last writes (5 s), HTTP (1 s), the last metrics (3 s).
_AFTER_DRAIN_SECONDS = 9


class _Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class RegionSettings(_Settings):
    """What differs between regions and can't be looked up without credentials.

    (`aws ec2 describe-managed-prefix-lists`, `aws ec2 describe-availability-zones`)

    Args:
        zone_ids: the availability zones to use, best first. Their ids are the same in every
            account, the letters of their names are not. CloudFront's VPC origins are not in every
            zone: in us-east-1 not in use1-az3.
        cloudfront: the prefix list com.amazonaws.global.cloudfront.origin-facing.
        s3, dynamodb: the prefix lists of the gateway endpoints.
    """

    name: str
    zone_ids: tuple[str, ...]
    cloudfront: str
    s3: str
    dynamodb: str


US_EAST_1 = RegionSettings(
    name="us-east-1",
    zone_ids=("use1-az1", "use1-az2", "use1-az4"),
    cloudfront="pl-3b927c52",
    s3="pl-63a5400a",
    dynamodb="pl-02cd2c6b",
)


class NetworkSettings(_Settings):
    """The VPC.

    Args:
        zones: the number of availability zones, the first ones of RegionSettings.zone_ids.
        endpoint_zones: in how many of them an interface endpoint has an address. Each costs by the
            hour.
    """

    cidr: str
    zones: int = Field(ge=2, le=3)
    endpoint_zones: int = Field(ge=1, le=3)
    flow_logs: bool


class DataSettings(_Settings):
    """Tables and secrets.

    Args:
        keep: whether tables, secrets, logs and buckets of logs survive the deletion of their stack.
        customer_key: encrypt with a key of the account instead of AWS's.
        signing_key_rotation_days: a key signs for one such period, and verifies for three.
    """

    keep: bool
    customer_key: bool
    point_in_time_recovery: bool
    signing_key_rotation_days: int = Field(30, ge=1, le=365)


class HandlerServiceSettings(_Settings):
    """The ECS service and its load balancer.

    CPU is in Fargate's units, 1,024 for a core. A handler uses one core at most.

    Args:
        connections_per_task: the average that autoscaling aims at.
        surge_connections: (average above that, tasks added at once), rising.
        deployment_percent: the most old and new tasks during a deployment, in percent of the wanted
            ones, rounded down. The more, the more tasks hand their readers over at once.
        deregistration_delay_seconds: how long a leaving task may finish its answers before its
            sockets are cut.
        stop_timeout_seconds: from SIGTERM to SIGKILL. Fargate allows 120.
        server_errors_per_minute: how many 5xx answers of the targets roll a deployment back.
            Refusals by full tasks count, so it should grow with the number of tasks.
    """

    cpu: Literal[256, 512, 1024, 2048]
    memory_mib: int
    tasks_min: int = Field(ge=1)
    tasks_max: int
    connections_per_task: int = Field(ge=1)
    cpu_percent: Percent = 60
    surge_connections: tuple[tuple[int, int], ...]
    open_files: int = Field(65_535, ge=65_535, le=1_048_576)
    idle_timeout_seconds: int = Field(120, ge=1, le=4_000)
    health_check_seconds: int = Field(10, ge=5, le=300)
    deregistration_delay_seconds: int = Field(120, ge=0, le=3_600)
    deployment_percent: int = Field(ge=101, le=200)
    stop_timeout_seconds: int = Field(120, ge=2, le=120)
    server_errors_per_minute: int = Field(10, ge=1)
    container_insights: bool = False

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.tasks_max < self.tasks_min:
            raise ValueError(f"tasks_max must not be below tasks_min ({self.tasks_min})")
        if ACTIVE_CONNECTIONS.alarm and self.connections_per_task > ACTIVE_CONNECTIONS.alarm.above / 2:
            # A task that fails must leave its connections room at the others.
            raise ValueError(f"connections_per_task must be at most half of {ACTIVE_CONNECTIONS.alarm.above:g}")
        if self.tasks_min * self.deployment_percent // 100 == self.tasks_min:
            raise ValueError(f"deployment_percent leaves no room for one more than {self.tasks_min} tasks")
        return self


class WorkerServiceSettings(_Settings):
    """The ECS service of workers. Where there is one, the workers call the model, not the handlers.

    Handlers reach them through Service Connect. Its proxy runs in each task of both services, and
    takes CPU and memory of the task: begin with 256 units and 64 MiB for it, and measure.

    Args:
        cpu_percent: the average that autoscaling aims at.
        deployment_percent: the most old and new tasks during a deployment, in percent of the wanted
            ones, rounded down.
        idle_timeout_seconds: the proxy closes after so long without a byte. It must be longer than
            a reader's longest pause.
        stop_timeout_seconds: from SIGTERM to SIGKILL. Fargate allows 120.
    """

    cpu: Literal[256, 512, 1024, 2048] = 1024
    memory_mib: int = 2_048
    tasks_min: int = Field(2, ge=1)
    tasks_max: int = 10
    cpu_percent: Percent = 60
    deployment_percent: int = Field(200, ge=101, le=200)
    idle_timeout_seconds: int = Field(600, ge=1)
    stop_timeout_seconds: int = Field(120, ge=2, le=120)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.tasks_max < self.tasks_min:
            raise ValueError(f"tasks_max must not be below tasks_min ({self.tasks_min})")
        if self.tasks_min * self.deployment_percent // 100 == self.tasks_min:
            raise ValueError(f"deployment_percent leaves no room for one more than {self.tasks_min} tasks")
        return self


class ReservedConcurrency(_Settings):
    """How many of each function may run at once. The account reserves them for it alone."""

    session_init: int = Field(ge=1)
    poll_response: int = Field(ge=1)
    rotate_signing_keys: int = Field(1, ge=1)

    @property
    def total(self) -> int:
        """How much of the account's quota is reserved."""
        return self.session_init + self.poll_response + self.rotate_signing_keys


class FunctionSettings(_Settings):
    """The Lambda functions and their HTTP API.

    Args:
        reserved_concurrency: None reserves nothing. A new account can do nothing else: it has a
            quota of 10, and must leave 10 unreserved. `infra.announce` says what an environment
            needs.
        throttle_rate, throttle_burst: requests a second, over all clients.
        session_rate, session_burst: how many of them session_init answers, so that a flood of these
            leaves polls alone.
    """

    memory_mib: int = Field(512, ge=128, le=10_240)
    reserved_concurrency: ReservedConcurrency | None
    session_init_timeout_seconds: int = Field(10, ge=1, le=29)
    poll_response_timeout_seconds: int = Field(29, ge=1, le=29)  # an HTTP API gives up after 30 s
    throttle_rate: int = Field(ge=1)
    throttle_burst: int = Field(ge=1)
    session_rate: int = Field(ge=1)
    session_burst: int = Field(ge=1)


class EdgeSettings(_Settings):
    """The CloudFront distribution.

    Args:
        domain_name, certificate_arn: an address of your own and its ACM certificate in
            us-east-1, or neither.
        web_acl_arn: a WAF web ACL of your own (scope CLOUDFRONT, in us-east-1).
        read_timeout_seconds: how long an origin may be silent. Longer than a poll and than an event
            stream's heartbeat.
    """

    price_class: Literal["PRICE_CLASS_100", "PRICE_CLASS_200", "PRICE_CLASS_ALL"]
    domain_name: str | None = None
    certificate_arn: str | None = None
    web_acl_arn: str | None = None
    read_timeout_seconds: int = Field(60, ge=30, le=120)

    @model_validator(mode="after")
    def _domain_has_certificate(self) -> Self:
        if (self.domain_name is None) != (self.certificate_arn is None):
            raise ValueError("domain_name and certificate_arn must be set together")
        return self


class BedrockSettings(_Settings):
    """A cross-region inference profile of Bedrock, its foundation model, and its regions.

    `aws bedrock get-inference-profile` lists the regions. A `global.` profile is not supported: it
    would need a wider policy.
    """

    inference_profile: str = "us.anthropic.claude-haiku-4-5-20251001-v1:0"
    foundation_model: str = "anthropic.claude-haiku-4-5-20251001-v1:0"
    regions: tuple[str, ...] = Field(("us-east-1", "us-east-2", "us-west-2"), min_length=1)

    @model_validator(mode="after")
    def _profile_is_of_the_model(self) -> Self:
        geography, _, model = self.inference_profile.partition(".")
        if geography == "global" or model != self.foundation_model:
            raise ValueError(f"inference_profile must be <geography>.{self.foundation_model}, and not a global one")
        return self


class SageMakerSettings(_Settings):
    """A GPU endpoint with vLLM in AWS's LMI container.

    Args:
        model: an S3 prefix `s3://bucket/prefix/`, with which the container has no network. Or a
            Hugging Face id of public weights, which every new instance downloads: for trials.
        image: the tag of the LMI container in AWS's repository djl-inference. 0.38.0-lmi29.0.0 has
            vLLM 0.28.0.
        host_image: SageMaker's image of the host. An LMI container for CUDA 13 needs driver 580,
            which this one has.
        tensor_parallel: how many GPUs share the model. `max`: all of the instance.
        concurrent_sequences: how many streams vLLM decodes at once on an instance. Others wait.
        prefix_routing_bytes: requests with the same first bytes go to the same instance, which has
            their prefix in its cache. 0: to the instance with the fewest requests.
        speculative_tokens: how many tokens are guessed ahead per step, from n-grams of the prompt.
            0: none.
        requests_per_instance: the concurrent streams per instance that autoscaling aims at.
        start_seconds: how long the download of the model may take, and then its loading.
    """

    instance_type: str = "ml.g6e.xlarge"
    instances_min: int = Field(1, ge=1)
    instances_max: int = Field(2, ge=1)
    model: str = "Qwen/Qwen3-8B"
    image: str = "0.38.0-lmi29.0.0-cu130"
    host_image: str = "al2023-ami-sagemaker-inference-gpu-4-1"
    tensor_parallel: int | Literal["max"] = "max"
    context_tokens: int = Field(16_384, ge=512)
    concurrent_sequences: int = Field(96, ge=1)
    prefix_caching: bool = True
    prefix_routing_bytes: int = Field(0, ge=0, le=65_536)
    speculative_tokens: int = Field(0, ge=0, le=16)
    requests_per_instance: int = Field(64, ge=1)
    start_seconds: int = Field(1_800, ge=60, le=3_600)

    @property
    def model_bucket_and_prefix(self) -> tuple[str, str] | None:
        """Where the weights are in S3. None: they come from Hugging Face."""
        if not self.model.startswith("s3://"):
            return None
        bucket, _, prefix = self.model.removeprefix("s3://").partition("/")
        return bucket, prefix

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.instances_max < self.instances_min:
            raise ValueError(f"instances_max must not be below instances_min ({self.instances_min})")
        if self.requests_per_instance > self.concurrent_sequences:
            raise ValueError(
                f"requests_per_instance must be at most {self.concurrent_sequences}, else streams wait in vLLM"
            )
        if 0 < self.prefix_routing_bytes < 1_024:
            raise ValueError("prefix_routing_bytes must be 0 or at least 1024, SageMaker's minimum")
        if self.model.startswith("s3://") and not (
            all(self.model_bucket_and_prefix or ()) and self.model.endswith("/")
        ):
            raise ValueError("model must be s3://bucket/prefix/ with the slash at its end, or a Hugging Face id")
        return self


class InferenceSettings(_Settings):
    """Where tokens come from.

    Args:
        models: EVENFLOW_MODELS, the names by which clients of /v1 ask for models. Empty: the
            foundation model's name, or `default`.
    """

    kind: Literal["demo", "bedrock", "sagemaker"]
    bedrock: BedrockSettings = BedrockSettings()
    sagemaker: SageMakerSettings = SageMakerSettings()
    models: str = ""

    @property
    def public_models(self) -> str:
        """The value of EVENFLOW_MODELS. It has no ARN and no internal name."""
        if self.models or self.kind == "demo":
            return self.models
        own = self.bedrock.foundation_model if self.kind == "bedrock" else "default"
        return f"{own}="


class AlarmSettings(_Settings):
    """Who is told of alarms, and where it says what to do.

    Args:
        page_email: who is woken when readers are hurting, or soon will be. None: nobody.
        notice_email: who is told every change of every alarm. None: nobody.
        runbook_base_url: the folder of docs/runbooks/ where readers of an alarm can open it, with a
            slash at its end.
        quiet_frames_per_second: below this rate of all tasks nothing is a sudden drop. Take answers
            of 20 s at 20 frames a second that begin by chance. A minute is below half of the one
            before 40 times a day at a rate of 100, 6.7 times at 200, and never at 1,000 (computed
            from Poisson arrivals).
    """

    page_email: str | None = None
    notice_email: str | None = None
    runbook_base_url: str = Field(
        "https://github.com/evenflow/evenflow/blob/main/docs/runbooks/", pattern=r"^https://.*/$"
    )
    quiet_frames_per_second: int = Field(1_000, ge=1)


def told_of(agents: Mapping[str, Agent]) -> dict[str, Agent]:
    """The part of agents that session_init needs: their names and suggestions."""
    return {name: Agent(suggestions=agent.suggestions) for name, agent in agents.items()}


class EnvironmentSettings(_Settings):
    """One environment.

    Args:
        workers: a service of its own that calls the model. None: the handlers call it.
        open_tenant: whether anybody who knows the address can open sessions as the tenant `public`,
            which costs money. Otherwise `public` needs the key in the secret of the tenants' keys.
        allowed_origins: other origins whose pages may call, `https://app.example.com`, or only `*`.
        agents: the agents that sessions may choose, by name. Empty: one, the model as it is.
        limits: those of the handler and the functions. Only those that differ are passed on.
    """

    name: Literal["dev", "staging", "prod"]
    open_tenant: bool
    region: RegionSettings = US_EAST_1
    owner: str = "evenflow"
    log_retention_days: Literal[7, 30, 90, 365]
    network: NetworkSettings
    data: DataSettings
    handler: HandlerServiceSettings
    workers: WorkerServiceSettings | None = None
    functions: FunctionSettings
    edge: EdgeSettings
    inference: InferenceSettings
    alarms: AlarmSettings = AlarmSettings()
    allowed_origins: tuple[str, ...] = ()
    agents: dict[Annotated[str, Field(pattern=NAME_PATTERN)], Agent] = {}
    # Polls end before the HTTP API gives up (30 s). A drain and what follows it end before ECS
    # kills the task (120 s). The most memory that these limits need fits into a task of 2 GiB.
    limits: Limits = Limits(
        poll_timeout_max_ms=25_000,
        drain_seconds=105,
        connections_per_node=10_500,
        requests_per_node=1_500,
        responses_held_bytes=192 * MEBIBYTE,
        requests_held_bytes=128 * MEBIBYTE,
    )

    @property
    def prefix(self) -> str:
        """The prefix of all stacks and names."""
        return f"evenflow-{self.name}"

    @field_validator("allowed_origins")
    @classmethod
    def _origins_as_browsers_write_them(cls, origins: tuple[str, ...]) -> tuple[str, ...]:
        text = ",".join(origins)
        if len(text) > _LONGEST_ORIGINS:
            raise ValueError(
                f"must not have more than {_LONGEST_ORIGINS} characters: functions have them in a variable"
            )
        return parse_origins(text)

    @field_validator("agents")
    @classmethod
    def _agents_fit_into_variables(cls, agents: dict[str, Agent]) -> dict[str, Agent]:
        for what, text, most in (
            ("", agents_as_json(agents), _LONGEST_AGENTS),
            (" names and suggestions", agents_as_json(told_of(agents)), _LONGEST_SUGGESTIONS),
        ):
            if len(text.encode()) > most:
                raise ValueError(f"must not have more than {most} bytes of{what} JSON: they are put into a variable")
        return agents

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        handler, limits = self.handler, self.limits
        for smaller, larger, why in (
            (
                limits.heartbeat_seconds,
                handler.idle_timeout_seconds,
                "the load balancer cuts sockets between heartbeats",
            ),
            (
                limits.drain_seconds + _AFTER_DRAIN_SECONDS,
                handler.stop_timeout_seconds,
                "ECS kills a task that still drains or writes what it has",
            ),
            (
                _BEFORE_DRAIN_SECONDS + limits.drain_seconds,
                handler.deregistration_delay_seconds,
                "sockets are cut while a task still drains",
            ),
            (limits.poll_timeout_max_ms / 1000, self.functions.poll_response_timeout_seconds, "polls are cut off"),
            (limits.poll_timeout_max_ms / 1000, self.edge.read_timeout_seconds, "CloudFront cuts polls off"),
            (limits.sse_heartbeat_seconds, self.edge.read_timeout_seconds, "CloudFront cuts event streams off"),
            (handler.connections_per_task, limits.connections_per_node, "tasks refuse connections before one is added"),
        ):
            if smaller >= larger:
                raise ValueError(f"{smaller:g} must be below {larger:g}, or {why}")
        if self.workers is not None:
            self._check_workers(self.workers)
        if self.network.zones > len(self.region.zone_ids):
            raise ValueError(
                f"{self.region.name} names {len(self.region.zone_ids)} zones, fewer than {self.network.zones}"
            )
        return self

    @model_validator(mode="after")
    def _fits_into_memory(self) -> Self:
        needed = limits_bound(self.limits)
        if needed > self.handler.memory_mib * MEBIBYTE:
            raise ValueError(
                f"the limits need {needed // MEBIBYTE} MiB and a handler has {self.handler.memory_mib}: lower "
                "connections_per_node, requests_per_node, responses_held_bytes or requests_held_bytes, "
                "or raise handler.memory_mib"
            )
        return self

    def _check_workers(self, workers: WorkerServiceSettings) -> None:
        limits = self.limits
        silence = limits.pause_seconds + max(limits.model_first_sign_seconds, limits.model_silence_seconds)
        if silence >= workers.idle_timeout_seconds:
            raise ValueError(
                f"{silence:g} must be below {workers.idle_timeout_seconds}, else paused answers are cut off"
            )
        leaving = self.limits.drain_seconds + _AFTER_DRAIN_SECONDS
        if leaving >= workers.stop_timeout_seconds:
            raise ValueError(
                f"{leaving:g} must be below {workers.stop_timeout_seconds}, else ECS kills a worker that answers"
            )
