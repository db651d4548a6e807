"""Lambda packages without Docker: wheels for Lambda's processor, and a function's sources.

A package is made once for its inputs (the lock file and the sources), and reused until they change.
It has bytecode, if there is a Python of Lambda's version to compile it: the folder of a function is
read-only, so without bytecode each cold start compiles about 700 modules, half a second of CPU.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache as cached
from pathlib import Path

from evenflow.infra.assets.package_data import CHECKOUT, functions_cache, functions_lock

_PACKAGE = "evenflow"  # our sources are in this package
_SHARED = ("stream_core", "stream_aws")
_PYTHON_VERSION = "3.12"
_PIP = (
    *("--quiet", "--disable-pip-version-check", "--no-compile", "--no-deps", "--require-hashes"),
    *("--platform", "manylinux2014_aarch64", "--implementation", "cp"),
    *("--python-version", _PYTHON_VERSION),
    *("--only-binary", ":all:"),
)
# The archive that is uploaded changes the files' times, so Python must not compare them.
_COMPILE = ("-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash")


class FunctionPackageError(Exception):
    """A package can't be made. The message says why and what to do."""


@dataclass(frozen=True)
class FunctionPackage:
    """A folder to upload, and a hash of its inputs."""

    folder: Path
    input_hash: str


def build(name: str, cache: Path | None = None) -> FunctionPackage:
    """Make the package of functions/<name>, or reuse it.

    Args:
        cache: the folder of packages. None: `functions_cache()`.

    Raises:
        FunctionPackageError: there is no such function, or its dependencies can't be installed.
    """
    cache = cache or functions_cache()
    if not (CHECKOUT / "functions" / name / "handler.py").is_file():
        raise FunctionPackageError(
            f"functions/{name}/handler.py is missing, so there is nothing to deploy"
        )
    sources = list(_sources(name))
    input_hash = _hash([functions_lock(), Path(__file__), *sources])
    folder = cache / f"{name}-{input_hash}"
    if not folder.is_dir():
        with _atomic_folder(folder) as unfinished:
            shutil.copytree(_dependencies(cache), unfinished, dirs_exist_ok=True)
            for source in sources:
                target = unfinished / _PACKAGE / source.relative_to(CHECKOUT)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, target)
            _compile(unfinished / _PACKAGE)
    return FunctionPackage(folder, input_hash)


def _sources(name: str) -> Iterator[Path]:
    functions = CHECKOUT / "functions"
    yield from sorted(functions.glob("*.py"))
    for folder in (functions / name, *(CHECKOUT / shared for shared in _SHARED)):
        yield from sorted(folder.rglob("*.py"))


def _dependencies(cache: Path) -> Path:
    folder = cache / f"dependencies-{_hash([functions_lock(), Path(__file__)])}"
    if not folder.is_dir():
        with _atomic_folder(folder) as unfinished:
            _install(unfinished)
            _compile(unfinished)
    return folder


def _install(folder: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        *_PIP,
        "--requirement",
        str(functions_lock()),
        "--target",
        str(folder),
    ]
    # All arguments are constants of this module.
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        raise FunctionPackageError(
            f"pip could not install {functions_lock().name} for Lambda; nothing was kept:\n"
            f"{done.stderr}"
        )


def _compile(folder: Path) -> None:
    """Write the bytecode of a folder's modules beside them, if there is a Python for it."""
    if (compiler := _compiler()) is not None:
        # What can't be compiled stays as it is: packages contain templates.
        subprocess.run(  # noqa: S603
            [compiler, *_COMPILE, str(folder)], capture_output=True, check=False
        )


@cached
def _compiler() -> str | None:
    """A Python of Lambda's version. None: there is none here."""
    name = f"python{_PYTHON_VERSION}"
    if Path(sys.executable).with_name(name).exists():
        return str(Path(sys.executable).with_name(name))
    found = shutil.which(name)
    # That may be a shim of a version that is not installed.
    works = (
        found is not None
        and not subprocess.run(  # noqa: S603
            [found, "-c", ""], capture_output=True, check=False
        ).returncode
    )
    return found if works else None


def _hash(files: list[Path]) -> str:
    digest = hashlib.sha256(b"compiled" if _compiler() else b"")
    for file in files:
        content = file.read_bytes()
        # The end of the path is the same in a checkout and in an installed package.
        digest.update(f"{file.parent.name}/{file.name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:32]


@contextmanager
def _atomic_folder(folder: Path) -> Iterator[Path]:
    """A temporary folder, renamed to `folder` once complete. Concurrent processes are safe."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(dir=folder.parent, prefix="unfinished-"))
    try:
        yield unfinished
        unfinished.chmod(0o755)
        with suppress(OSError):  # another process was quicker, and its folder is the same
            unfinished.rename(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
