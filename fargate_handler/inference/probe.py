"""Checks whether the worker on this machine is alive. ECS runs it every half minute."""

from __future__ import annotations

import os
import sys

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

_SECONDS = 3.0


def main() -> int:
    """Ask by gRPC's health protocol.

    Returns the exit status: 0 if the worker answers at all, otherwise 1.
    """
    # A worker that is full or leaves is alive. A restart would cut its answers off.
    port = os.environ.get("EVENFLOW_WORKER_PORT", "").strip()
    # Kubernetes may set a service link here, which the worker ignores, too.
    address = f"127.0.0.1:{port if port.isdecimal() else 50051}"
    with grpc.insecure_channel(address, [("grpc.enable_http_proxy", 0)]) as channel:
        try:
            health_pb2_grpc.HealthStub(channel).Check(
                health_pb2.HealthCheckRequest(), timeout=_SECONDS
            )
        except grpc.RpcError as error:
            print(f"the worker at {address} doesn't answer: {error.code().name}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
