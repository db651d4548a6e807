"""Sets settings by their path, such as `edge.domain_name`, as `-c` and cdk.context.json do."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping
from typing import Any, get_args

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo


class WrongSettingError(Exception):
    """A setting doesn't exist, or can't have that value. The message says what is accepted."""


def set_by_path(model: type[BaseModel], data: dict[str, Any], path: str, value: object) -> None:
    """Set one setting in the data of a model. A group that was off is switched on.

    Args:
        path: names with dots between them.
        value: a command line's text, or a JSON value. A mapping sets each of its settings.

    Raises:
        WrongSettingError: the model has no such setting.
    """
    group, inside = model, data
    *groups, last = path.split(".")
    for name in groups:
        group = _group(group.model_fields.get(name)) or _raise_unknown(model, path)
        inside[name] = inside = dict(inside.get(name) or {})
    field = group.model_fields.get(last) or _raise_unknown(model, path)
    if isinstance(value, str):
        value = _read(field, value)
    if _group(field) is None or not isinstance(value, Mapping):
        inside[last] = value
        return
    inside[last] = dict(inside.get(last) or {})
    for name, item in value.items():
        set_by_path(model, data, f"{path}.{name}", item)


def reasons(error: ValidationError) -> str:
    """The errors of a validation: each with path, value, and what is accepted."""
    return "; ".join(_reason(each["loc"], each["input"], each["msg"]) for each in error.errors())


def _reason(location: tuple[int | str, ...], value: object, message: str) -> str:
    path, message = ".".join(map(str, location)), message.removeprefix("Value error, ")
    if not path:
        return message
    is_short = isinstance(value, str | int | float)
    return f"{path} = {value!r}: {message}" if is_short else f"{path}: {message}"


def _raise_unknown(model: type[BaseModel], path: str) -> Any:
    all_paths = list(paths(model))
    last = path.rpartition(".")[2]
    similar = [each for each in all_paths if each.rpartition(".")[2] == last]
    similar = similar or difflib.get_close_matches(path, all_paths, 2)
    if similar:
        raise WrongSettingError(
            f"there is no setting {path!r}; did you mean {' or '.join(similar)}?"
        )
    raise WrongSettingError(
        f"there is no setting {path!r}; infra/settings/environment_settings.py has them all"
    )


def paths(model: type[BaseModel], before: str = "") -> Iterator[str]:
    """The paths of all settings and groups of a model."""
    for name, field in model.model_fields.items():
        yield before + name
        if group := _group(field):
            yield from paths(group, f"{before}{name}.")


def _read(field: FieldInfo, text: str) -> object:
    """The value of a text: itself, JSON, or a list with commas, whichever is valid first."""
    annotation: Any = field.rebuild_annotation()
    adapter = TypeAdapter[object](annotation)
    for value in (text, _json(text), text.split(",")):
        try:
            adapter.validate_python(value)
        except ValidationError:
            continue
        return value
    # A group's settings may be valid only together with its present ones.
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
