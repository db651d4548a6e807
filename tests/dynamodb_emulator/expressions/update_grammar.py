"""The grammar of UpdateExpression."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tests.dynamodb_emulator.expressions.conditions import Placeholder
from tests.dynamodb_emulator.expressions.paths import Path, clash
from tests.dynamodb_emulator.expressions.tokens import ExpressionRefused, Kind, Parser
from tests.dynamodb_emulator.expressions.updates import IfNotExists, ListAppend, Plain, Source, Sum, Update

T = TypeVar("T")


class UpdateParser(Parser):
    """Reads an update."""

    def update(self) -> Update:
        """The whole expression: up to four clauses, each once."""
        clauses: dict[str, tuple[object, ...]] = {}
        while self.token.kind is not Kind.END or not clauses:
            name = self._clause()
            if name in clauses:
                raise ExpressionRefused(f'The "{name}" section can only be used once in an update expression;')
            clauses[name] = self._actions(name)
        update = Update(*(clauses.get(name, ()) for name in ("SET", "REMOVE", "ADD", "DELETE")))  # type: ignore[arg-type]
        if found := clash(update.paths):
            raise ExpressionRefused(found)
        return update

    def _clause(self) -> str:
        for name in ("SET", "REMOVE", "ADD", "DELETE"):
            if self.take_if(name):
                return name
        raise self.complaint()

    def _actions(self, clause: str) -> tuple[object, ...]:
        match clause:
            case "SET":
                return self._listed(self._assignment)
            case "REMOVE":
                return self._listed(self.path)
            case _:
                return self._listed(self._path_and_value)

    def _listed(self, read: Callable[[], T]) -> tuple[T, ...]:
        found = [read()]
        while self.take_if(","):
            found.append(read())
        return tuple(found)

    def _path_and_value(self) -> tuple[Path, Placeholder]:
        return self.path(), Placeholder(self.value())

    def _assignment(self) -> tuple[Path, Source]:
        path = self.path()
        self.expect("=")
        source = self._source()
        if self.token.text in {"+", "-"}:
            source = Sum(source, self.take(), self._source())
        return path, source

    def _source(self) -> Source:
        if self.calls_function:
            return self._function()
        return Plain(Placeholder(self.value()) if self.token.kind is Kind.VALUE else self.path())

    def _function(self) -> Source:
        name = self.take()
        if name not in {"if_not_exists", "list_append"}:
            raise ExpressionRefused(f"Invalid function name; function: {name}")
        self.expect("(")
        sources = self._listed(self._source)
        self.expect(")")
        if len(sources) != 2:
            raise ExpressionRefused(
                "Incorrect number of operands for operator or function; "
                f"operator or function: {name}, number of operands: {len(sources)}"
            )
        if name == "list_append":
            return ListAppend(*sources)
        if not isinstance(sources[0], Plain) or not isinstance(sources[0].operand, Path):
            raise ExpressionRefused(
                "Operator or function requires a document path; operator or function: if_not_exists"
            )
        return IfNotExists(sources[0].operand, sources[1])
