"""LiteLLM's proxy: one process, with a model for each side behind it."""

from __future__ import annotations

import json
import secrets
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.integration.server_process import clean_environment, free_port
from tests.integration.stock_clients.clients import QUIET, python_of

PROXY_KEY = f"sk-{secrets.token_hex(32)}"
"""What its clients must say: it does not start without."""

_START_SECONDS = 200.0


@contextmanager
def litellm_proxy(folder: Path, models: Mapping[str, tuple[str, str]]) -> Iterator[str]:
    """Serve it; its base up to `/v1`.

    Args:
        folder: takes its configuration and its log.
        models: the name that clients use → the address behind it, and the model's name there.
    """
    configuration = {
        "model_list": [
            {
                "model_name": name,
                "litellm_params": {
                    "model": f"openai/{model}",
                    "api_base": url,
                    "api_key": "sk-test",
                },
            }
            for name, (url, model) in models.items()
        ],
        # Retries are the client's, here and without the proxy.
        "router_settings": {"num_retries": 0, "disable_cooldowns": True},
    }
    file, port = folder / "litellm.yaml", free_port()
    file.write_text(json.dumps(configuration))  # JSON is YAML
    command = [
        str(python_of("litellm").parent / "litellm"),
        "--config",
        str(file),
        "--host",
        "127.0.0.1",
    ]
    with (folder / "litellm.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--port", str(port)],
            stdout=log,
            stderr=subprocess.STDOUT,
            env=clean_environment({**QUIET, "LITELLM_MASTER_KEY": PROXY_KEY}),
        )
    try:
        _wait_for(f"http://127.0.0.1:{port}/health/liveliness", process, folder / "litellm.log")
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.terminate()
        process.wait(20)


def _wait_for(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    give_up_at = time.monotonic() + _START_SECONDS
    while time.monotonic() < give_up_at and process.poll() is None:
        with suppress(OSError), urllib.request.urlopen(url, timeout=5):
            return
        time.sleep(0.1)
    raise AssertionError(f"LiteLLM's proxy did not start:\n{log.read_text(errors='replace')}")
