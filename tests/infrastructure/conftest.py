"""One synthesis per environment, shared by all tests of this folder."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache

import pytest

from evenflow.infra.settings.environment_settings import EnvironmentSettings
from evenflow.infra.settings.environments import ENVIRONMENTS, environment
from tests.infrastructure.synthesis import Synthesis, synthesize

Synthesize = Callable[[str], Synthesis]
"""Of an environment, `choosy`, or either with workers: `staging-workers`. A region and an
installation may follow: `dev/eu-west-1/acme`. `dev-zone` has an address in Route 53,
`staging-traced` a collector of traces, `staging-sagemaker` GPUs of its own with weights in S3,
`dev-key` a key of the customer's, `prod-nokey` none.
"""

_WORKERS, _ZONE, _TRACED, _SAGEMAKER = "-workers", "-zone", "-traced", "-sagemaker"
_CUSTOMER_KEY = {"-key": True, "-nokey": False}


@pytest.fixture(scope="session")
def synthesized(tmp_path_factory: pytest.TempPathFactory) -> Synthesize:
    """Synthesizes an environment, or gives what it was synthesized to before."""
    return cache(
        lambda name: synthesize(
            environment_named(name), tmp_path_factory.mktemp(name.replace("/", "-"))
        )
    )


def environment_named(name: str) -> EnvironmentSettings:
    """The settings that a name of Synthesize's stands for."""
    if name.endswith(_TRACED):
        return _traced(environment_named(name.removesuffix(_TRACED)))
    if name.endswith(_WORKERS):
        return EnvironmentSettings.model_validate(
            environment_named(name.removesuffix(_WORKERS)).model_dump() | {"workers": {}}
        )
    if name.endswith(_SAGEMAKER):
        return _with_gpus(environment_named(name.removesuffix(_SAGEMAKER)))
    for end, customer_key in _CUSTOMER_KEY.items():
        if name.endswith(end):
            data = environment_named(name.removesuffix(end)).model_dump()
            data["data"]["customer_key"] = customer_key
            return EnvironmentSettings.model_validate(data)
    if name == "choosy":
        return _choosy()
    name, region, installation = [*name.split("/"), "", ""][:3]
    settings = environment(name.removesuffix(_ZONE), region=region, installation=installation)
    return paging(_in_zone(settings) if name.endswith(_ZONE) else settings)


def _with_gpus(settings: EnvironmentSettings) -> EnvironmentSettings:
    """The same with a SageMaker endpoint: weights from S3, speculative decoding, four instances."""
    data = settings.model_dump()
    data["inference"] |= {
        "kind": "sagemaker",
        "sagemaker": {
            "model": "s3://weights/qwen3-8b/",
            "instances_max": 4,
            "speculative_tokens": 4,
            "prefix_routing_bytes": 4_096,
        },
    }
    return EnvironmentSettings.model_validate(data)


def _in_zone(settings: EnvironmentSettings) -> EnvironmentSettings:
    data = settings.model_dump()
    data["edge"] |= {
        "domain_name": "chat.example.com",
        "hosted_zone": {"zone_id": "Z0123456789ABCDEFGHIJ", "name": "example.com"},
    }
    return EnvironmentSettings.model_validate(data)


def _traced(settings: EnvironmentSettings) -> EnvironmentSettings:
    image = f"111111111111.dkr.ecr.us-east-1.amazonaws.com/adot@sha256:{'0' * 64}"
    data = settings.model_dump()
    data["tracing"] = {"collector_image": image, "share": 0.25}
    data["handler"]["memory_mib"] += 1_024
    return EnvironmentSettings.model_validate(data)


def paging(settings: EnvironmentSettings) -> EnvironmentSettings:
    """The same with somebody to wake, which staging and prod are refused without."""
    alarms = settings.alarms.model_copy(update={"page_email": "on-call@example.com"})
    return settings if settings.name == "dev" else settings.model_copy(update={"alarms": alarms})


def _choosy() -> EnvironmentSettings:
    """dev with everything that the environments leave out: GPUs, agents, a domain, a web ACL,
    pages of other origins, an identity provider, a price, filters.
    """
    data = environment("dev").model_dump()
    data["inference"]["kind"] = "sagemaker"
    data["agents"] = {
        "support": {"instructions": "You answer for Acme.", "suggestions": ["Where is my order?"]}
    }
    data["inference"] |= {"models": "gpt-4o-mini=", "price": {"input": 0.5, "output": 2}}
    data["filters"] = {
        "mode": "hold", "patterns": ("secrets", "card"), "action": "stop", "guardrail": "abc123:2",
    }  # fmt: skip
    data["allowed_origins"] = ["https://app.example.com", "http://localhost:3000"]
    data["tags"] = {"CostCenter": "4711", "Owner": "chat team"}
    data["permissions_boundary"] = "boundaries/applications"
    data["open_tenant"] = False
    data["oidc"] = {"issuer": "https://login.example.com/", "audience": "a", "tenant_claim": "org"}
    data["edge"] |= {
        "domain_name": "chat.example.com",
        "certificate_arn": "arn:aws:acm:us-east-1:111111111111:certificate/1",
        "web_acl_arn": "arn:aws:wafv2:us-east-1:111111111111:global/webacl/shield/1",
    }
    return EnvironmentSettings.model_validate(data)


@pytest.fixture(scope="session", params=ENVIRONMENTS)
def synthesis(request: pytest.FixtureRequest, synthesized: Synthesize) -> Synthesis:
    """Each environment in turn."""
    return synthesized(request.param)


@pytest.fixture(scope="session")
def choosy(synthesized: Synthesize) -> Synthesis:
    """dev with GPUs, a domain, a web ACL and pages of other origins."""
    return synthesized("choosy")


@pytest.fixture(scope="session")
def with_workers(synthesized: Synthesize) -> Synthesis:
    """staging with a service of workers."""
    return synthesized("staging-workers")


@pytest.fixture(scope="session")
def staging(synthesized: Synthesize) -> Synthesis:
    """The same without."""
    return synthesized("staging")


@pytest.fixture(scope="session")
def dev(synthesized: Synthesize) -> Synthesis:
    """The smallest environment."""
    return synthesized("dev")


@pytest.fixture(scope="session")
def prod(synthesized: Synthesize) -> Synthesis:
    """The largest environment."""
    return synthesized("prod")


@pytest.fixture
def answering_health() -> Callable[[str], AbstractContextManager[int]]:
    """A server on a free port that answers one request with a status line:
    `with answering_health("200 OK") as port`.
    """

    @contextmanager
    def serving(status: str) -> Iterator[int]:
        with socket.create_server(("127.0.0.1", 0)) as listening:

            def answer() -> None:
                connection, _ = listening.accept()
                with connection:
                    connection.recv(1024)
                    connection.sendall(f"HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n".encode())

            thread = threading.Thread(target=answer)
            thread.start()
            yield listening.getsockname()[1]
            thread.join(5)

    return serving
