"""Settings of the server: its ports, public addresses, origins, hosts and proxies."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import AnyHttpUrl, AnyUrl, BaseModel, Field, field_validator, model_validator
from pydantic_settings import NoDecode

from evenflow.fargate_handler.runtime.memory import usable_cores
from evenflow.fargate_handler.settings.environment import Secret
from evenflow.stream_core.auth.allowed_hosts import parse_hosts
from evenflow.stream_core.auth.allowed_origins import parse_origins
from evenflow.stream_core.base.client_address import LOCAL_PROXIES, TrustedProxies


class ServerSettings(BaseModel):
    """Where the server listens, and the origins, hosts and proxies that it accepts."""

    http_host: str = Field("127.0.0.1", description="address on which this is served")
    http_port: int = Field(8080, ge=1, le=65535, description="port of HTTP and WebSockets")
    ws_port: int | None = Field(
        None, ge=1, le=65535, description="a second port for the same, which clients' ws_url names"
    )
    metrics_port: int | None = Field(
        None,
        ge=1,
        le=65535,
        description=(
            "a port for /metrics alone, for scrapers elsewhere; default: none, and /metrics is at "
            "the other ports for this machine, by no proxy"
        ),
    )
    processes: int = Field(
        1,
        ge=1,
        le=64,
        description=(
            "handlers that serve the port together, on several cores, or `auto`: as many as there "
            "are cores (store=sqlite); all limits are of each"
        ),
    )
    public_http_url: AnyHttpUrl | None = Field(
        None, description="the base of clients' HTTP calls, if it isn't the address that they used"
    )
    public_ws_url: AnyUrl | None = Field(
        None, description="the WebSocket's public address, if it isn't /ws below public_http_url"
    )
    allowed_origins: Annotated[tuple[str, ...], NoDecode] = Field(
        (),
        description="other origins whose pages may call, or `*` for all: "
        "`https://app.example.com,http://localhost:3000`",
    )
    trusted_proxies: str = Field(
        LOCAL_PROXIES,
        description=(
            "addresses and networks of the proxies that are believed who the client is, and which "
            "URL it called (X-Forwarded-For, -Proto, -Host and -Prefix, or Forwarded); "
            "`10.0.0.0/16=2`: there are two in a row, and the second address from the right is the "
            "client's"
        ),
    )
    allowed_hosts: Annotated[tuple[str, ...], NoDecode] = Field(
        (),
        description=(
            "names by which this server may be called, or `*` for all: `chat.example.com`; "
            "addresses, localhost and the hosts of public and peer URLs always may; default: all "
            "names, but none where http_host is this machine's own loopback"
        ),
    )
    drain_key: Secret | None = Field(
        None,
        min_length=16,
        description=(
            "key of 16 characters or more with which `POST /drain` makes the node leave; without "
            "one there is no such path (secret)"
        ),
    )

    @field_validator("processes", mode="before")
    @classmethod
    def _a_process_for_each_core(cls, processes: object) -> object:
        return usable_cores() if processes == "auto" else processes

    @field_validator("allowed_origins", mode="before")
    @classmethod
    def _origins_as_browsers_write_them(cls, origins: object) -> object:
        return parse_origins(origins) if isinstance(origins, str) else origins

    @field_validator("trusted_proxies")
    @classmethod
    def _readable_addresses(cls, proxies: str) -> str:
        TrustedProxies(proxies)
        return proxies

    @field_validator("allowed_hosts", mode="before")
    @classmethod
    def _names_of_hosts(cls, hosts: object) -> object:
        return parse_hosts(hosts) if isinstance(hosts, str) else hosts

    @model_validator(mode="after")
    def _check_ports(self) -> Self:
        if self.http_port == self.ws_port:
            raise ValueError("http_port and ws_port must differ")
        if self.metrics_port in (self.http_port, self.ws_port) and self.metrics_port is not None:
            raise ValueError("metrics_port must differ from http_port and ws_port")
        return self
