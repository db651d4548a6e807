"""What is uploaded to Lambda."""

from __future__ import annotations

import ast
import io
import re
import sys
import zipfile
from importlib.util import cache_from_source
from pathlib import Path

import pytest

from evenflow.infra.assets import function_package
from evenflow.infra.assets.function_package import FunctionPackage, FunctionPackageError, build

_NAMES = ("session_init", "poll_response", "rotate_signing_keys", "usage_file", "canary")
_MEGABYTE = 1_000_000
# The first bytes of its bytecode: the magic number of 3.12, and the flags of PEP 552.
_PYTHON_3_12, _UNCHECKED_HASH = b"\xcb\r\r\n", b"\x01\0\0\0"
_ALLOWED_DIRECTORIES = {"functions", "stream_core", "stream_aws"}


@pytest.fixture(scope="module", params=_NAMES)
def package(request: pytest.FixtureRequest) -> tuple[str, FunctionPackage]:
    """Each function's package, with its name."""
    return request.param, build(request.param)


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_a_package_is_smaller_than_15_megabytes(package: tuple[str, FunctionPackage]) -> None:
    _, built = package
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as zipped:
        for file in _files(built.folder):
            zipped.write(file, file.relative_to(built.folder))
    assert len(archive.getvalue()) < 15 * _MEGABYTE
    assert sum(file.stat().st_size for file in _files(built.folder)) < 50 * _MEGABYTE


def test_it_holds_its_own_function_and_what_that_imports(
    package: tuple[str, FunctionPackage],
) -> None:
    name, built = package
    assert (built.folder / "evenflow" / "functions" / name / "handler.py").is_file()
    assert (built.folder / "evenflow" / "stream_core" / "__init__.py").is_file()
    functions = built.folder / "evenflow" / "functions"
    others = {path.name for path in functions.iterdir() if path.is_dir()}
    assert others == {name}


def test_it_holds_no_tests_and_no_infrastructure(
    package: tuple[str, FunctionPackage],
) -> None:
    _, built = package
    top = {path.name for path in built.folder.iterdir()}
    assert not top & {"tests", "bench", "boto3", "botocore", "aws_cdk", "pytest"}
    ours = {path.name for path in (built.folder / "evenflow").iterdir() if path.is_dir()}
    assert ours == _ALLOWED_DIRECTORIES


def test_its_bytecode_is_of_lambdas_python_and_never_compared_with_the_source(
    package: tuple[str, FunctionPackage],
) -> None:
    """The archive changes the times of files. With a comparison Python would compile all again."""
    _, built = package
    bytecode = [path for path in _files(built.folder) if path.suffix == ".pyc"]
    assert {path.read_bytes()[:8] for path in bytecode} <= {_PYTHON_3_12 + _UNCHECKED_HASH}
    assert all(path.name.endswith(".cpython-312.pyc") for path in bytecode)


def test_with_a_python_of_lambdas_version_every_module_of_ours_has_bytecode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # This Python in its place: the bytecode differs, and where it is written doesn't.
    monkeypatch.setattr(function_package, "_compiler", lambda: sys.executable)
    monkeypatch.setattr(function_package, "_install", lambda folder: None)
    built = build("poll_response", tmp_path)
    modules = built.folder.rglob("*.py")
    assert not [path for path in modules if not Path(cache_from_source(str(path))).is_file()]


def test_without_one_it_is_another_package_and_has_only_sources(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(function_package, "_install", lambda folder: None)
    monkeypatch.setattr(function_package, "_compiler", lambda: None)
    plain = build("poll_response", tmp_path)
    assert {path.suffix for path in _files(plain.folder)} == {".py"}
    monkeypatch.setattr(function_package, "_compiler", lambda: sys.executable)
    assert build("poll_response", tmp_path).input_hash != plain.input_hash


def test_its_compiled_parts_are_for_graviton_and_python_3_12(
    package: tuple[str, FunctionPackage],
) -> None:
    _, built = package
    libraries = [path for path in _files(built.folder) if re.search(r"\.so(\.|$)", path.name)]
    assert libraries
    for library in libraries:
        assert library.read_bytes()[18:20] == b"\xb7\x00", (
            library.name
        )  # the ELF header's machine: AArch64
        assert "cpython-312-aarch64" in library.name or "abi3" in library.name, library.name


def test_everything_that_the_function_imports_is_there(
    package: tuple[str, FunctionPackage],
) -> None:
    """By reading the imports, since its compiled parts don't run here. boto3 is in Lambda's run
    time.
    """
    name, built = package
    in_run_time = sys.stdlib_module_names | {"boto3", "botocore"}
    waiting, seen = [f"evenflow.functions.{name}.handler"], set[str]()
    while waiting:
        module = waiting.pop()
        if module in seen:
            continue
        seen.add(module)
        top = module.split(".")[0]
        if top == "evenflow":
            waiting += _imports(built.folder, module)
        elif top not in in_run_time:
            found = [*built.folder.glob(f"{top}/__init__.py"), *built.folder.glob(f"{top}.py")]
            assert found, f"{module} is not in the package"
    assert len(seen) > 10


def _imports(folder: Path, module: str) -> list[str]:
    path = folder.joinpath(*module.split("."))
    source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    if not source.is_file():  # `from package import name`: not a module
        assert source.parent.is_dir() or source.parent.with_suffix(".py").is_file(), (
            f"{module} is not in the package"
        )
        return []
    imported: list[str] = []
    for node in ast.walk(ast.parse(source.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            imported += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            imported += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return imported


def test_the_same_inputs_give_the_same_package_without_work(
    package: tuple[str, FunctionPackage],
) -> None:
    name, built = package
    made = built.folder.stat().st_mtime_ns
    assert build(name) == built
    assert built.folder.stat().st_mtime_ns == made


def test_a_missing_function_is_said_plainly(tmp_path: Path) -> None:
    with pytest.raises(FunctionPackageError, match=r"functions/no_such/handler.py is missing"):
        build("no_such", tmp_path)
