"""All settings of one environment, and the checks that they fit together."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from evenflow.infra.settings.inference_settings import FilterSettings, InferenceSettings
from evenflow.infra.settings.observability_settings import (
    AlarmSettings,
    CanarySettings,
    TracingSettings,
)
from evenflow.infra.settings.regions import GLOBAL_REGION, US_EAST_1, Region
from evenflow.infra.settings.stack_settings import (
    DataSettings,
    EdgeSettings,
    FunctionSettings,
    HandlerServiceSettings,
    NetworkSettings,
    Settings,
    WorkerServiceSettings,
)
from evenflow.stream_core.auth.allowed_origins import parse_origins
from evenflow.stream_core.auth.oidc_settings import OidcSettings
from evenflow.stream_core.base.agents import Agent, agents_as_json
from evenflow.stream_core.base.channel import NAME_PATTERN
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.bounds.memory_bound import MEBIBYTE, limits_bound

LogRetentionDays = Literal[7, 30, 90, 365]
INSTALLATION_PATTERN = r"^[a-z][a-z0-9]*$"
_POLICY = r"[\w+=,.@/-]+"
_POLICY_PATTERN = rf"^(arn:aws[a-z-]*:iam::([0-9]{{12}}|aws):policy/)?{_POLICY}$"

# All variables of a function together may have 4 KB.
_LONGEST_ORIGINS = 2_000
_LONGEST_SUGGESTIONS = 1_000
# A task definition may have 64 KB.
_LONGEST_AGENTS = 32_768
# The longest name is that of CloudFront's function: the prefix, the region, `-viewer-host`.
_LONGEST_PREFIX = 36
# How long a leaving task may not know it: it asks ECS every 5 to 10 s.
_BEFORE_DRAIN_SECONDS = 10
# What a handler does after its drain: the last writes (5 s), HTTP (1 s), the last metrics (3 s),
# the last spans (5 s).
_AFTER_DRAIN_SECONDS = 14

# The characters that all services accept. CloudFront accepts the fewest.
_TAG_KEY = re.compile(r"[A-Za-z0-9 _.:/=+@-]{1,128}")
_TAG_VALUE = re.compile(r"[A-Za-z0-9 _.:/=+@-]{0,256}")
_MOST_TAGS = 40  # a resource may have 50; we, CDK and the VPC add some
_RESERVED_PREFIX = "aws:"


def session_agents(agents: Mapping[str, Agent]) -> dict[str, Agent]:
    """The agents with what session_init needs: names and suggestions, no instructions."""
    return {name: Agent(suggestions=agent.suggestions) for name, agent in agents.items()}


class EnvironmentSettings(Settings):
    """One environment of one installation in one region.

    Args:
        installation: tells the installations of an account apart. It begins every name.
        tags: further tags of every resource, such as a cost centre. They may replace ours (project,
            environment, installation, owner, managed-by).
        permissions_boundary: the name or ARN of a policy that bounds all roles, CDK's own included.
            None: none. CDK's bootstrap takes it, too: `--custom-permissions-boundary`.
        image: the handler's image, `<account>.dkr.ecr.<region>.amazonaws.com/<repository>:<tag>` or
            one of another registry, if tasks have public addresses. None: CDK builds it.
        workers: a service of its own that calls the model. None: the handlers call it.
        open_tenant: whether sessions of the tenant `public` open without a key, which costs money.
            Otherwise `public` needs the key in the secret of the tenants' keys.
        oidc: the operator's identity provider: its tokens open sessions and `/v1`. None: none.
        allowed_origins: other origins whose pages may call, `https://app.example.com`, or only `*`.
        canary: a function that reads an answer through the public address each minute. It costs
            some dollars a month and the model's tokens. None: no alarm on an address that fails.
        tracing: traces of answers in X-Ray. None: no traces.
        agents: the agents that sessions may choose, by name. Empty: one, the model as it is.
        filters: what content filters do with answers.
        limits: of the handler and the functions. Only changed ones are passed on.
    """

    installation: str = Field("evenflow", pattern=INSTALLATION_PATTERN)
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$")
    open_tenant: bool
    region: Region = US_EAST_1
    owner: str = "evenflow"
    tags: dict[str, str] = Field(default_factory=dict)
    permissions_boundary: str | None = Field(None, pattern=_POLICY_PATTERN)
    log_retention_days: LogRetentionDays
    network: NetworkSettings
    data: DataSettings
    handler: HandlerServiceSettings
    image: str | None = None
    workers: WorkerServiceSettings | None = None
    functions: FunctionSettings
    edge: EdgeSettings
    inference: InferenceSettings
    alarms: AlarmSettings = AlarmSettings()
    canary: CanarySettings | None = None
    tracing: TracingSettings | None = None
    oidc: OidcSettings | None = None
    allowed_origins: tuple[str, ...] = ()
    agents: dict[Annotated[str, Field(pattern=NAME_PATTERN)], Agent] = Field(default_factory=dict)
    filters: FilterSettings = FilterSettings()
    # Polls end before the HTTP API gives up (30 s). A drain and what follows it end before ECS
    # kills the task (120 s). The most memory that these limits need fits into a task of 2 GiB.
    limits: Limits = Limits(
        poll_timeout_max_ms=25_000,
        drain_seconds=105,
        connections_per_node=10_500,
        requests_per_node=1_500,
        responses_held_bytes=160 * MEBIBYTE,
        requests_held_bytes=128 * MEBIBYTE,
    )

    @property
    def prefix(self) -> str:
        """The prefix of stacks and of names that a region has for itself."""
        return f"{self.installation}-{self.name}"

    @property
    def global_prefix(self) -> str:
        """The prefix of names that all regions share: CloudFront's, and those of dashboards."""
        return f"{self.prefix}-{self.region.name}"

    @property
    def cost_tags(self) -> dict[str, str]:
        """The tags that identify an environment's costs, in all regions."""
        return {"environment": self.name, "installation": self.installation}

    @property
    def log_path(self) -> str:
        """What the names of log groups begin with, without a slash before it."""
        return f"{self.installation}/{self.name}"

    @property
    def stack_regions(self) -> tuple[str, ...]:
        """The regions with stacks. CloudFront takes web ACLs and certificates from us-east-1."""
        edge = self.edge
        makes_certificate = edge.hosted_zone is not None and edge.certificate_arn is None
        is_needed = edge.firewall is not None or makes_certificate
        regions = (self.region.name, GLOBAL_REGION) if is_needed else (self.region.name,)
        return tuple(dict.fromkeys(regions))

    @model_validator(mode="after")
    def _check_open_tenant(self) -> Self:
        if self.oidc is not None and self.open_tenant:
            raise ValueError(
                "open_tenant must be off where oidc is set: then nobody opens sessions without a "
                "key or a token"
            )
        return self

    @model_validator(mode="after")
    def _check_prices(self) -> Self:
        self.inference.check_prices(agent.model for agent in self.agents.values() if agent.model)
        return self

    @model_validator(mode="after")
    def _check_prefix_length(self) -> Self:
        if len(self.prefix) > _LONGEST_PREFIX:
            raise ValueError(
                f"{self.prefix} must not have more than {_LONGEST_PREFIX} characters: a function's "
                "name may have 64"
            )
        return self

    @field_validator("tags")
    @classmethod
    def _checked_tags(cls, tags: dict[str, str]) -> dict[str, str]:
        return _check_tags(tags)

    @field_validator("allowed_origins")
    @classmethod
    def _checked_origins(cls, origins: tuple[str, ...]) -> tuple[str, ...]:
        text = ",".join(origins)
        if len(text) > _LONGEST_ORIGINS:
            raise ValueError(
                f"must not have more than {_LONGEST_ORIGINS} characters: functions have them in a "
                "variable"
            )
        return parse_origins(text)

    @field_validator("agents")
    @classmethod
    def _checked_agents(cls, agents: dict[str, Agent]) -> dict[str, Agent]:
        for what, text, most in (
            ("", agents_as_json(agents), _LONGEST_AGENTS),
            (
                " names and suggestions",
                agents_as_json(session_agents(agents)),
                _LONGEST_SUGGESTIONS,
            ),
        ):
            if len(text.encode()) > most:
                raise ValueError(
                    f"must not have more than {most} bytes of{what} JSON: they are put into a "
                    "variable"
                )
        return agents

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        for smaller, larger, why in self._ordered_settings():
            if smaller >= larger:
                raise ValueError(f"{smaller:g} must be below {larger:g}, or {why}")
        if self.workers is not None:
            self._check_workers(self.workers)
        self._check_region()
        return self

    def _ordered_settings(self) -> tuple[tuple[float, float, str], ...]:
        """Pairs of a smaller and a larger setting, and what happens otherwise."""
        handler, limits, functions = self.handler, self.limits, self.functions
        return (
            (
                limits.heartbeat_seconds,
                handler.idle_timeout_seconds,
                "the load balancer cuts sockets between heartbeats",
            ),
            (
                handler.idle_timeout_seconds,
                limits.proxy_keep_alive_seconds,
                "the load balancer sends requests over connections that a task closes",
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
            (
                limits.poll_timeout_max_ms / 1000,
                functions.poll_response_timeout_seconds,
                "polls are cut off",
            ),
            (
                limits.poll_timeout_max_ms / 1000,
                self.edge.read_timeout_seconds,
                "CloudFront cuts polls off",
            ),
            (
                limits.sse_heartbeat_seconds,
                self.edge.read_timeout_seconds,
                "CloudFront cuts event streams off",
            ),
            (
                limits.sessions_per_address_per_second,
                functions.session_rate,
                "one address keeps all others from opening sessions",
            ),
            (
                self._polls_of_one_address,
                functions.reserved_concurrency.poll_response
                if functions.reserved_concurrency
                else math.inf,
                "one address keeps all others from polling",
            ),
        )

    @property
    def _polls_of_one_address(self) -> float:
        """How many polls of one address can wait at once, at the rate that the web ACL allows."""
        firewall = self.edge.firewall
        polls_per_second = firewall.polls / 60 if firewall else 0.0
        return polls_per_second * self.limits.poll_timeout_max_ms / 1000

    def _check_region(self) -> None:
        region, throttle = self.region, self.functions.throttle_rate
        if self.network.zones > len(region.zone_ids):
            raise ValueError(
                f"{region.name} names {len(region.zone_ids)} zones, fewer than {self.network.zones}"
            )
        if throttle > region.http_api_rate:
            raise ValueError(
                f"throttle_rate must be at most {region.http_api_rate}, what all HTTP APIs of an "
                f"account get in {region.name}"
            )
        geography, _, model = self.inference.bedrock.inference_profile.partition(".")
        if self.inference.kind == "bedrock" and geography not in (region.geography, "global"):
            regional = f"{region.geography}.{model} and its regions"
            raise ValueError(
                f"{region.name} has no profile {geography}.{model}: set inference.bedrock to "
                + (regional if region.geography else f"global.{model}")
            )

    @model_validator(mode="after")
    def _check_memory(self) -> Self:
        needed, room = limits_bound(self.limits), self.handler.memory_mib
        if self.tracing is not None:
            room -= self.tracing.collector_memory_mib
        if needed > room * MEBIBYTE:
            raise ValueError(
                f"the limits need {needed // MEBIBYTE} MiB and a handler has {room}: lower "
                "connections_per_node, requests_per_node or one "
                "of the limits in …_held_bytes, or raise handler.memory_mib"
            )
        return self

    def _check_workers(self, workers: WorkerServiceSettings) -> None:
        limits = self.limits
        silence = limits.pause_seconds + max(
            limits.model_first_sign_seconds, limits.model_silence_seconds
        )
        if silence >= workers.idle_timeout_seconds:
            raise ValueError(
                f"{silence:g} must be below {workers.idle_timeout_seconds}, else paused answers "
                "are cut off"
            )
        leaving = self.limits.drain_seconds + _AFTER_DRAIN_SECONDS
        if leaving >= workers.stop_timeout_seconds:
            raise ValueError(
                f"{leaving:g} must be below {workers.stop_timeout_seconds}, else ECS kills a "
                "worker that answers"
            )


def _check_tags(tags: Mapping[str, str]) -> dict[str, str]:
    """Check that every service accepts the tags, and return them.

    Raises:
        ValueError: one doesn't.
    """
    if len(tags) > _MOST_TAGS:
        raise ValueError(
            f"must be at most {_MOST_TAGS} tags: a resource may have 50, ours included"
        )
    for key, value in tags.items():
        if not _TAG_KEY.fullmatch(key) or not _TAG_VALUE.fullmatch(value):
            raise ValueError(
                f"{key!r}: {value!r} is no tag: a key has 1 to 128 and a value up to 256 of "
                "A-Z a-z 0-9, space and _ . : / = + @ -"
            )
        if key.lower().startswith(_RESERVED_PREFIX) or value.lower().startswith(_RESERVED_PREFIX):
            raise ValueError(f"{key!r}: {value!r} begins with {_RESERVED_PREFIX}, which AWS keeps")
    if len({key.lower() for key in tags}) < len(tags):
        raise ValueError("two tags have one name: IAM sees no difference between Owner and owner")
    return dict(tags)
