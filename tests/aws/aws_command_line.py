"""The `aws` of the runbooks, without the command line of AWS: each command is a call of the SDK.

Operations and options are those of the SDK's own models, so a command that has a wrong one fails.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import botocore.session
import jmespath  # type: ignore[import-untyped]
from botocore import xform_name
from botocore.model import OperationModel, Shape

_SERVICES = {"s3api": "s3"}  # by AWS's command line
OWN_OPTIONS = ("query", "output", "region", "cli-binary-format")  # those of every command
_BOOLEANS = {"true": True, "false": False}


class WrongCommandError(Exception):
    """AWS's command line has no such command or option."""


def operation_model(service: str, command: str) -> OperationModel:
    """The operation of a command such as `dynamodb update-table`.

    Raises:
        WrongCommandError: there is none.
    """
    session = botocore.session.get_session()
    if _SERVICES.get(service, service) not in session.get_available_services():
        raise WrongCommandError(f"there is no service {service}")
    model = session.get_service_model(_SERVICES.get(service, service))
    for name in model.operation_names:
        if xform_name(name, "-") == command:
            return model.operation_model(name)
    raise WrongCommandError(f"{service} has no command {command}")


def parameter(operation: OperationModel, option: str) -> tuple[str, Shape]:
    """The parameter that an option (`--table-name`, `--no-…`) sets.

    Raises:
        WrongCommandError: there is none.
    """
    members: Mapping[str, Shape] = operation.input_shape.members if operation.input_shape else {}
    for name, shape in members.items():
        flags = {f"--{xform_name(name, '-')}"}
        if shape.type_name == "boolean":
            flags |= {flag.replace("--", "--no-", 1) for flag in flags}
        if option in flags:
            return name, shape
    raise WrongCommandError(f"{operation.name} has no option {option}")


def run(arguments: list[str]) -> str:
    """Call AWS. Returns what the command prints."""
    service, command, *rest = arguments
    client = botocore.session.get_session().create_client(_SERVICES.get(service, service))
    if command == "wait":
        waiter, *rest = rest
        waiting = client.get_waiter(waiter.replace("-", "_"))
        operation = client.meta.service_model.operation_model(waiting.config.operation)
        waiting.wait(**_parameters(operation, rest)[0])
        return ""
    operation = operation_model(service, command)
    parameters, own = _parameters(operation, rest)
    if client.can_paginate(xform_name(operation.name)):
        answer = client.get_paginator(xform_name(operation.name)).paginate(**parameters)
        answer = answer.build_full_result()
    else:
        answer = getattr(client, xform_name(operation.name))(**parameters)
    answer.pop("ResponseMetadata", None)
    answer = json.loads(json.dumps(answer, default=str))
    if "query" in own:
        answer = jmespath.search(own["query"], answer)
    if own.get("output") == "text":
        return "\t".join(map(str, answer)) if isinstance(answer, list) else str(answer)
    return json.dumps(answer)


def _parameters(
    operation: OperationModel, arguments: list[str]
) -> tuple[dict[str, Any], dict[str, str]]:
    """The operation's parameters, and the options that every command has."""
    parameters: dict[str, Any] = {}
    own: dict[str, str] = {}
    while arguments:
        option, *arguments = arguments
        values = []
        while arguments and not arguments[0].startswith("--"):
            values.append(arguments.pop(0))
        if option.removeprefix("--") in OWN_OPTIONS:
            own[option.removeprefix("--")] = values[0]
            continue
        name, shape = parameter(operation, option)
        if shape.type_name == "boolean":
            parameters[name] = not option.startswith("--no-")
        else:
            parameters[name] = _value(shape, values)
    return parameters, own


def _value(shape: Shape, values: list[str]) -> Any:
    if len(values) == 1 and values[0].startswith("file://"):
        values = [Path(values[0].removeprefix("file://")).read_text("utf-8")]
    if values[0].startswith(("{", "[")):
        return json.loads(values[0])
    if shape.type_name == "list":
        return [_value(shape.member, [value]) for value in values]
    (value,) = values
    if shape.type_name in ("integer", "long"):
        return int(value)
    if shape.type_name in ("boolean", "string", "timestamp"):
        return _BOOLEANS[value] if shape.type_name == "boolean" else value
    pairs = dict(pair.split("=", 1) for pair in value.split(","))
    return {name: _value(shape.members[name], [text]) for name, text in pairs.items()}


def main() -> int:
    """Print what the command prints. Returns its exit status."""
    print(run(sys.argv[1:]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
