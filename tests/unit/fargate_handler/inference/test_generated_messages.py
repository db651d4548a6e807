"""What is checked in of the generated code is what the proto says."""

from __future__ import annotations

from pathlib import Path

from grpc_tools import protoc

ROOT = Path(__file__).resolve().parents[4]
PACKAGE = "evenflow/fargate_handler/inference/llm_v1"


def test_the_messages_are_those_of_the_proto(tmp_path: Path) -> None:
    arguments = [
        "protoc",
        f"-I{PACKAGE}={ROOT}/proto/llm/v1",
        *(f"--{kind}_out={tmp_path}" for kind in ("python", "pyi", "grpc_python")),
        f"{PACKAGE}/inference.proto",
    ]
    assert protoc.main(arguments) == 0
    written = sorted((tmp_path / PACKAGE).iterdir())
    assert len(written) == 3
    stale = [
        path.name
        for path in written
        if (ROOT / PACKAGE / path.name).read_text("utf-8") != path.read_text("utf-8")
    ]
    assert stale == [], "run `make proto`"
