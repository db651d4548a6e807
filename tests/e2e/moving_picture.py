"""`python -m tests.e2e.moving_picture`: films the page for the README, and checks that what it shows is true.

Two handlers share a store behind one address. The network is cut and comes back; the handler that has the answer is
killed, the other goes on, and the first is started again. The answer on the page must then equal the log.
"""

from __future__ import annotations

import base64
import io
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Page, ViewportSize, sync_playwright

from tests.dynamodb_emulator.process import dynamodb_emulator
from tests.e2e.conversation import Conversation, generations_running
from tests.e2e.film import Film, Scene
from tests.e2e.rough_network import RoughNetwork
from tests.integration.aws_emulator import aws_emulator
from tests.integration.deployment import SIGNING_KEYS, Deployment
from tests.integration.server_process import ROOT, ServerProcess

PICTURE = ROOT / "docs" / "images" / "tunnel.webp"
QUESTION = "What happens when my train enters a tunnel?"
_MOST_BYTES = 2_000_000
_SIZE = ViewportSize(width=760, height=660)
_TAKE_OVER_MS = 60_000


class Camera:
    """Takes each picture that Chromium draws of a page, with the time of drawing."""

    def __init__(self, page: Page) -> None:
        self.pictures: list[tuple[float, Image.Image]] = []
        self._devtools = page.context.new_cdp_session(page)
        self._devtools.on("Page.screencastFrame", self._take)
        self._devtools.send("Page.startScreencast", {"format": "png", "everyNthFrame": 3})

    def _take(self, frame: dict[str, Any]) -> None:
        picture = Image.open(io.BytesIO(base64.b64decode(frame["data"]))).convert("RGB")
        self.pictures.append((frame["metadata"]["timestamp"], picture))
        self._devtools.send("Page.screencastFrameAck", {"sessionId": frame["sessionId"]})


@contextmanager
def _deployment(folder: Path) -> Iterator[Deployment]:
    """One emulated AWS, and what starts handlers on it."""
    with (
        aws_emulator(folder / "aws.log") as aws,
        dynamodb_emulator(folder / "dynamodb.log") as dynamodb,
        ExitStack() as running,
    ):
        keys = '{"k1": "0123456789abcdef0123456789abcdef"}'
        aws.client("secretsmanager").create_secret(Name=SIGNING_KEYS, SecretString=keys)

        def serve(environment: Mapping[str, str], **settings: object) -> ServerProcess:
            variables = {f"EVENFLOW_{name.upper()}": str(value) for name, value in settings.items()}
            log = folder / f"handler{time.monotonic_ns()}.log"
            server = ServerProcess(log, {**environment, **variables})
            running.callback(server.stop)
            return server.wait_until_serving()

        yield Deployment(aws.environment | dynamodb.environment, dynamodb.create_tables("film"), serve)


@dataclass(frozen=True)
class Stage:
    """What the film is made with."""

    page: Page
    network: RoughNetwork
    deployment: Deployment
    conversation: Conversation
    nodes: tuple[ServerProcess, ServerProcess]


def play(stage: Stage) -> list[Scene]:
    """Play the scenes; returns what happened when."""
    first, second = stage.nodes
    conversation, scenes = stage.conversation, []

    def scene(caption: str, *, network: bool = True, nodes: tuple[bool, bool] = (True, True), speed: int = 1) -> None:
        scenes.append(Scene(time.time(), caption, network, nodes, speed))

    scene("A question. Node 1 answers.")
    conversation.ask(QUESTION)
    conversation.wait_for_more(120)
    scene("The train enters a tunnel: the network is cut.", network=False)
    stage.network.go_away()
    stage.page.wait_for_timeout(1_500)
    scene("The network is back. The page asks for what it missed.")
    stage.network.come_back()
    conversation.wait_for_more(60)
    assert generations_running(first) == 1, "the answer had ended before its node was killed"
    scene("Node 1 is killed (SIGKILL). Its lease of 10 s must lapse.", nodes=(False, True), speed=4)
    first.kill()
    conversation.server = second
    conversation.wait_for_more(40, _TAKE_OVER_MS / 1000)
    scene("Node 2 has taken over, and goes on at the next token.", nodes=(False, True))
    stage.page.wait_for_timeout(1_000)
    scene("Node 1 is started again. The answer goes on.", nodes=(False, True))
    restarted = _start_while_filming(stage)
    stage.network.lead_to(restarted, second)
    scene("Node 1 is started again. The answer goes on.")
    conversation.wait_for("done", _TAKE_OVER_MS)
    conversation.check_the_end(may_restart=True)
    scene("Complete. Not a token was lost.")
    stage.page.wait_for_timeout(3_000)
    return scenes


def _start_while_filming(stage: Stage) -> ServerProcess:
    with ThreadPoolExecutor(1) as starting:
        started = starting.submit(stage.deployment.start, 1, public_ws_url=stage.network.ws_url)
        while not started.done():
            stage.page.wait_for_timeout(100)  # which is when pictures are taken
    (node,) = started.result()
    return node


def main() -> int:
    """Make the picture."""
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
    with (
        tempfile.TemporaryDirectory() as folder,
        _deployment(Path(folder)) as deployment,
        RoughNetwork() as network,
        sync_playwright() as playwright,
    ):
        first, second = deployment.start(2, public_ws_url=network.ws_url)
        network.lead_to(first, second)
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport=_SIZE)
        conversation = Conversation(page, first).open(url=network.url)
        page.wait_for_timeout(1_000)
        camera = Camera(page)
        scenes = play(Stage(page, network, deployment, conversation, (first, second)))
        browser.close()
    size = Film(camera.pictures, scenes).write(PICTURE)
    print(f"{PICTURE.relative_to(ROOT)}: {size:,} bytes")
    return 0 if size < _MOST_BYTES else 1


if __name__ == "__main__":
    sys.exit(main())
