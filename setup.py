"""What a wheel and an sdist hold: one package, `evenflow`, and the files that it serves or deploys.

A wheel has the hot modules (`COMPILED`) as C extensions, too, where it is built with a C compiler.

In a checkout `evenflow/` has a link to each folder of code at the top, so `evenflow.infra` is the
same module here and in a wheel. Files that are no code have the same place beside that code:
`web/dist/` of a checkout is `evenflow/web/dist/` of a wheel.
"""

from __future__ import annotations

import os
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist
from setuptools.errors import BaseError

_TOP = Path(__file__).resolve().parent
sys.path.insert(0, str(_TOP))  # pip builds without it
from evenflow.infra.assets.page_build import PageNotBuiltError, build_missing_page  # noqa: E402

# What runs for each token, by folder. mypyc compiles it; the same files run interpreted.
COMPILED = {
    "fargate_handler/gateway/connections": ("live_reader", "outbox"),
    "fargate_handler/gateway/evenflow": ("client_reader",),
    "fargate_handler/gateway/sse": ("event_reader",),
    "fargate_handler/gateway/websocket": ("text_frames",),
    "fargate_handler/orchestrator": ("token_sinks",),
    "fargate_handler/runtime": ("clock_driver",),
    "fargate_handler/token_sources": (
        "answer_body",
        "openai_answer",
        "plain_chunks",
        "pushed_body",
        "stream_decoders",
    ),
    "fargate_handler/token_sources/demo": ("playback",),
    "stream_core/bounds": ("memory_account",),
    "stream_core/delivery": (
        "answer_figures",
        "backpressure",
        "batch",
        "credit_cursor",
        "delivery_clock",
        "flow_control",
        "interval_control",
        "paced_delivery",
        "presence",
        "reader",
        "readers",
        "response_stream",
        "token_allowance",
    ),
    "stream_core/encoding": ("appended", "block_encoder", "blocks", "port", "serial_blocks"),
    "stream_core/log": ("entries", "folded_entries", "response_log"),
    "stream_core/metrics": ("instruments",),
    "stream_core/protocols/evenflow": ("entry_encoders",),
    "stream_core/protocols/openai_chat": ("deltas", "encoder", "whole_answer"),
    "stream_core/queue": ("fair_queue",),
}

# MANIFEST.in has them for the sdist.
_FILES = ("docs/*.md", "docs/runbooks/*.md", "requirements/functions.txt", "web/dist/**/*")


class BuildPackage(build_py):
    """Builds the package. Without npm it has no page, and its server says so."""

    def run(self) -> None:
        """Build into `build_lib`, or for an editable install the page alone."""
        try:
            build_missing_page(_TOP)
        except PageNotBuiltError as error:
            self.warn(f"this installation has no page. {error}")
        super().run()
        if self.editable_mode:
            return
        package = Path(self.build_lib, "evenflow")
        for folder in {pattern.split("/")[0] for pattern in _FILES}:
            shutil.rmtree(package / folder, ignore_errors=True)  # an earlier build's
        for file in (found for pattern in _FILES for found in _TOP.glob(pattern)):
            if file.is_file():
                copy = package / file.relative_to(_TOP)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, copy)


class BuildExtensions(build_ext):
    """Compiles `COMPILED`. Where that fails, the package runs interpreted."""

    def finalize_options(self) -> None:
        """Find what is to be compiled: all of `COMPILED`."""
        if self.distribution.ext_modules and not self.editable_mode:
            try:
                self.distribution.ext_modules = _extensions()
            except SystemExit:  # mypyc's way to fail, for example with a newer mypy
                self._warn_interpreted("mypyc printed why")
                self.distribution.ext_modules = []
        super().finalize_options()
        self.parallel = True

    def run(self) -> None:
        """Compile all or none: each module needs the one with the whole group's code."""
        if self.editable_mode:
            return
        try:
            super().run()
        except BaseError as error:
            self._warn_interpreted(str(error))
            for output in map(Path, self.get_outputs()):
                output.unlink(missing_ok=True)
            self.extensions = []

    def _warn_interpreted(self, why: str) -> None:
        self.warn(f"this installation runs interpreted: a module can't be compiled. {why}")


def _can_compile() -> bool:
    """Whether mypyc and a C compiler are here, and EVENFLOW_COMPILED=0 doesn't forbid it."""
    compiler = os.environ.get("CC", "cc").split()[0]
    return (
        os.environ.get("EVENFLOW_COMPILED") != "0"
        and find_spec("mypyc") is not None
        and shutil.which(compiler) is not None
    )


def _extensions() -> list[Extension]:
    """The modules of `COMPILED` as C."""
    from mypyc.build import mypycify  # noqa: PLC0415 - it may be missing

    modules = [
        f"evenflow/{folder}/{name}.py" for folder, names in COMPILED.items() for name in names
    ]
    # Types of other packages are left out: they need not be installed, and the result is the same.
    options = [
        "--config-file=",
        "--no-site-packages",
        "--ignore-missing-imports",
        "--follow-imports=silent",
    ]
    extensions: list[Extension] = mypycify(
        [*options, *modules], opt_level="2", debug_level="0", multi_file=True, group_name="evenflow"
    )
    return extensions


class BuildSources(sdist):
    """Builds the sdist, always with the page: installing it needs no npm."""

    def run(self) -> None:
        """Build it.

        Raises:
            PageNotBuiltError: npm is missing, or it failed.
        """
        build_missing_page(_TOP)
        super().run()


setup(
    packages=find_packages(include=["evenflow", "evenflow.*"]),
    package_data={
        "evenflow.infra.constructs.edge": ["viewer_host.js"],
        "evenflow.infra.updates": ["immutable_properties.json"],
    },
    include_package_data=False,
    # `BuildExtensions` finds the others. With one, a wheel is for one platform.
    ext_modules=[Extension("evenflow__mypyc", sources=[])] if _can_compile() else [],
    cmdclass={"build_ext": BuildExtensions, "build_py": BuildPackage, "sdist": BuildSources},
)
