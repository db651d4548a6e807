"""`python -m fargate_handler.worker.probe`: whether the worker on this machine is alive. ECS runs it every half minute."""

from __future__ import annotations

import os
import sys

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

_SECONDS = 3.0


def main() -> int:
    """The exit status: 0 it answers gRPC's health protocol, whatever it says there; 1 it doesn't."""
    # A worker that is full or leaves is alive: started anew, it would cut its answers off.
    address = f"127.0.0.1:{os.environ.get('EVENFLOW_WORKER_PORT', '50051')}"
    with grpc.insecure_channel(address, [("grpc.enable_http_proxy", 0)]) as channel:
        try:
            health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=_SECONDS)
        except grpc.RpcError as error:
            print(f"the worker at {address} doesn't answer: {error.code().name}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
