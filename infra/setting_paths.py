"""Sets settings by their path, such as `edge.domain_name`, as `-c` and cdk.context.json do."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping
from typing import Any, get_args

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo


class WrongSettingError(Exception):
    """A setting has another name or can't have that value. The message says what it accepts."""


def set_by_path(model: type[BaseModel], data: dict[str, Any], path: str, value: object) -> None:
    """Set one setting in the data of a model. It switches on a group that was off.

    Args:
        path: names with dots between them.
        value: text as on a command line, or what JSON has. A mapping sets each of its settings.

    Raises:
        WrongSettingError: the model has no such setting.
    """
    group, inside = model, data
    *groups, last = path.split(".")
    for name in groups:
        group = _group(group.model_fields.get(name)) or _refuse(model, path)
        inside[name] = inside = dict(inside.get(name) or {})
    field = group.model_fields.get(last) or _refuse(model, path)
    if isinstance(value, str):
        value = _read(field, value)
    if _group(field) is None or not isinstance(value, Mapping):
        inside[last] = value
        return
    inside[last] = dict(inside.get(last) or {})
    for name, one in value.items():
        set_by_path(model, data, f"{path}.{name}", one)


def reasons(error: ValidationError) -> str:
    """What a model refuses, each with its path, its value and what is accepted."""
    return "; ".join(_reason(one["loc"], one["input"], one["msg"]) for one in error.errors())


def _reason(location: tuple[int | str, ...], value: object, message: str) -> str:
    path, message = ".".join(map(str, location)), message.removeprefix("Value error, ")
    if not path:
        return message
    is_short = isinstance(value, str | int | float)
    return f"{path} = {value!r}: {message}" if is_short else f"{path}: {message}"


def _refuse(model: type[BaseModel], path: str) -> Any:
    known = list(paths(model))
    last = path.rpartition(".")[2]
    alike = [one for one in known if one.rpartition(".")[2] == last]
    alike = alike or difflib.get_close_matches(path, known, 2)
    if alike:
        raise WrongSettingError(f"there is no setting {path!r}; did you mean {' or '.join(alike)}?")
    raise WrongSettingError(f"there is no setting {path!r}; infra/settings.py has them all")


def paths(model: type[BaseModel], before: str = "") -> Iterator[str]:
    """The paths of all settings and groups of a model."""
    for name, field in model.model_fields.items():
        yield before + name
        if group := _group(field):
            yield from paths(group, f"{before}{name}.")


def _read(field: FieldInfo, text: str) -> object:
    """The value that a text means: itself, JSON, or a list with commas; the first that is valid."""
    annotation: Any = field.rebuild_annotation()
    adapter = TypeAdapter[object](annotation)
    for value in (text, _json(text), text.split(",")):
        try:
            adapter.validate_python(value)
        except ValidationError:
            continue
        return value
    # A group's settings may be valid only together with those that it has.
    value = _json(text)
    return value if isinstance(value, Mapping) else text


def _json(text: str) -> object:
    try:
        value: object = json.loads(text)
    except ValueError:
        return text
    return value


def _group(field: FieldInfo | None) -> type[BaseModel] | None:
    """The model of a setting that has settings of its own, also where it may be None."""
    if field is None:
        return None
    kinds = get_args(field.annotation)
    candidates = kinds if type(None) in kinds else (field.annotation,)
    models = (kind for kind in candidates if isinstance(kind, type) and issubclass(kind, BaseModel))
    return next(models, None)
