"""`python -m bench.guidellm`: GuideLLM, a load generator of others, against `/v1` at default
settings. Its own table goes to bench/results/guidellm.txt.

It asks what a file says, at a constant rate, so it needs no tokenizer and no hub.
"""

import asyncio
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import orjson

from bench.demo_model import Script
from bench.evenflow import evenflow
from bench.machine import LOAD_CORE, description, pin

GUIDELLM = Path(".build/guidellm/bin/guidellm")
RESULT = Path(__file__).parent / "results" / "guidellm.txt"
REQUESTS_PER_SECOND = 20
SECONDS = 20
TOKENS = 200  # an answer of 4 s, so 80 streams at once
TOKEN_MS = 20
LONGEST_SECONDS = 180.0


async def main() -> int:
    with TemporaryDirectory() as folder:
        questions = Path(folder) / "questions.jsonl"
        questions.write_bytes(
            b"".join(
                orjson.dumps({"prompt": Script(TOKENS, TOKEN_MS, seed).question}) + b"\n"
                for seed in range(REQUESTS_PER_SECOND * SECONDS)
            )
        )
        async with evenflow(admission={}) as server:
            process = await asyncio.create_subprocess_exec(
                GUIDELLM,
                "run",
                *("--backend", f"kind=openai_http,target={server.http_url},model=demo"),
                *("--profile", f"kind=constant,rate={REQUESTS_PER_SECOND}"),
                *("--constraint", f"kind=max_duration,seconds={SECONDS}"),
                *("--data", f"kind=json_file,path={questions}"),
                *("--output", "kind=console", "--disable-progress"),
                cwd=folder,
                env=os.environ | {"HF_HUB_OFFLINE": "1", "COLUMNS": "160"},
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                preexec_fn=lambda: pin(LOAD_CORE),
            )
            try:
                said, _ = await asyncio.wait_for(process.communicate(), LONGEST_SECONDS)
            finally:
                if process.returncode is None:
                    process.kill()
    text = said.decode()
    tables = text[max(0, text.rfind("ℹ Run Summary")) :]  # set-up and progress come before
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(f"{description()}\n\n{tables}")
    print(tables)
    return process.returncode or 0


if __name__ == "__main__":
    GUIDELLM = GUIDELLM.resolve()
    sys.exit(asyncio.run(main()))
