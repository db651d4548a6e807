"""`python -m tests.aws` (make run-aws): Evenflow on an emulated AWS, until Ctrl-C."""

from __future__ import annotations

import argparse
import shutil
import signal
import socket
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from types import FrameType

from tests.aws.child_process import ProcessError
from tests.aws.cloud_assembly import CDK, CdkError
from tests.aws.running_system import RunningSystem, running_system
from tests.integration.aws_models.model_process import model_process

_MODEL_NAMES = {
    "bedrock": "us.anthropic.claude-haiku-4-5-20251001-v1:0",
    "sagemaker": "evenflow-dev",
}


def main() -> int:
    """Run; returns the exit status: 0 left in order, 1 a part did not start, 2 something is not
    installed.
    """
    parser = argparse.ArgumentParser(prog="python -m tests.aws", description=__doc__)
    parser.add_argument("--port", type=int, default=8080, help="the entry port on 127.0.0.1")
    parser.add_argument(
        "--model", choices=("demo", *_MODEL_NAMES), default="demo", help="where tokens come from"
    )
    arguments = parser.parse_args()
    for program, advice in (("haproxy", "apt-get install haproxy"), (str(CDK), "npm ci in infra/")):
        if shutil.which(program) is None:
            print(f"{program} is missing: {advice}", file=sys.stderr)
            return 2
    if not _is_free(arguments.port):
        print(
            f"port {arguments.port} of 127.0.0.1 is taken: choose another, e.g. "
            f"HTTP_PORT={arguments.port + 100}",
            file=sys.stderr,
        )
        return 2
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _leave)
    try:
        with tempfile.TemporaryDirectory(prefix="evenflow-aws-") as folder:
            _run(Path(folder), arguments.port, arguments.model)
    except KeyboardInterrupt:
        print("everything has ended", flush=True)
    except (CdkError, ProcessError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _run(folder: Path, port: int, model: str) -> None:
    with ExitStack() as stack:
        variables = {}
        if model != "demo":
            variables = stack.enter_context(model_process(folder / "model.log")).environment
            variables |= {"EVENFLOW_MODEL": model, "EVENFLOW_MODEL_NAME": _MODEL_NAMES[model]}
        system = stack.enter_context(
            running_system(folder, port, variables, lambda text: print(text, flush=True))
        )
        print(_what_is_where(system), flush=True)
        signal.pause()


def _what_is_where(system: RunningSystem) -> str:
    handlers = "\n".join(
        f"  {name}  {handler.http_url}, {handler.ws_url}"
        for name, handler in system.handlers.items()
    )
    refused = "\n".join(f"  {r.path} ({r.kind}): {r.reason}" for r in system.refused)
    return (
        f"\nEvenflow: {system.url}\n{handlers}\n  AWS        {system.aws.endpoint} (any SDK with "
        f"AWS_ENDPOINT_URL, region us-east-1, any credentials)\n  logs       {system.folder}\nNot "
        f"deployed, because this AWS refuses them:\n{refused}\nCtrl-C ends everything."
    )


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _leave(_number: int, _frame: FrameType | None) -> None:
    # Once: a second signal must not leave processes behind.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
