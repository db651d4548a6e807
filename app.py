"""The CDK app, which cdk.json names: `cdk synth`, `cdk diff`, `cdk deploy --all -c env=dev`.

It runs with the Python of an activated environment, or else with that of `.venv` beside it.
"""

import os
import sys
from pathlib import Path

_VENV = Path(__file__).resolve().parent / ".venv"
_OLDEST_PYTHON = (3, 11)
# As in the Makefile: jsii warns about Node 20, with which it works.
os.environ.setdefault("JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION", "20")

try:
    if sys.version_info < _OLDEST_PYTHON:
        raise ModuleNotFoundError(f"Python {sys.version.split()[0]}")
    from evenflow.infra.synthesis import main
except ModuleNotFoundError as missing:
    python = _VENV / "bin" / "python"
    if python.is_file() and Path(sys.prefix).resolve() != _VENV.resolve():
        os.execv(python, [str(python), *sys.argv])  # noqa: S606
    sys.exit(
        f"{sys.executable} can't run this app ({missing}): `make cdk` installs what it needs into "
        ".venv, where app.py finds it"
    )

sys.exit(main())
