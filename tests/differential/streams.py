"""Makes streams as servers send them, and as they should not.

All that is random comes from a `random.Random`. Hypothesis has one whose choices it can shrink.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass
from random import Random
from typing import Any

_LETTERS = ["a", "Z", " ", "é", "流", "😀", "👩‍👩", '"', "\\", "\n", "\t", "{", "0", "\u2028", "</"]
_NAMES = ["add", "get_weather", "search.web"]
_NAMED_ENDS = ["stop", "stop", "stop", "tool_calls", "length", "content_filter"]
# A letter that is written as a byte that is no UTF-8.
_NO_UTF8 = "\u00a4"


@dataclass(frozen=True)
class UpstreamStream:
    """The body of an answer.

    Args:
        pieces: the body as it comes.
        traits: what is odd about it, where a client reads it otherwise than Evenflow.
        choices: how many were asked for.
    """

    pieces: tuple[bytes, ...]
    traits: frozenset[str]
    choices: int

    @property
    def body(self) -> bytes:
        """All of it."""
        return b"".join(self.pieces)


def upstream_stream(random: Random) -> UpstreamStream:
    """A stream."""
    return _Writer(random).write()


class _Writer:
    """Writes one stream."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._traits: set[str] = set()
        self._ascii = self._is(0.5)
        self._separators = (",", ":") if self._is(0.5) else (", ", ": ")
        self._newline = self._one("\n", "\n", "\n", "\r\n", "\r")
        self._before_data = self._one("data: ", "data: ", "data:")
        self._head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1}
        self._usage = self._counted() if self._is(0.8) else None
        self._usage_in_each = self._is(0.05)
        self._choices = 2 if self._is(0.08) else 1
        self._has_calls = self._has_output = False

    def write(self) -> UpstreamStream:
        deltas = self._deltas()
        self._has_output = any(_is_output(*field) for delta in deltas for field in delta.items())
        events = [self._chunk(delta) for delta in deltas]
        if self._is(0.5):
            events.insert(0, self._chunk({"role": "assistant", "content": self._one("", None)}))
        events = [each for event in events for each in (*self._noise(), event)]
        body = self._encoded("".join([*events, *self._end()]))
        if self._is(0.06):
            self._traits.add("cut")
            body = body[: self._random.randrange(len(body) + 1)]
        if self._is(0.02):
            self._traits.add("byte order mark")
            body = b"\xef\xbb\xbf" + body
        return UpstreamStream(self._pieces(body), frozenset(self._traits), self._choices)

    # -- what is random ----------------------------------------------------------------------------

    def _is(self, probability: float) -> bool:
        return self._random.random() < probability

    def _one(self, *among: Any) -> Any:
        return self._random.choice(among)

    def _text(self, most: int = 6) -> str:
        return "".join(self._one(*_LETTERS) for _ in range(self._random.randint(0, most)))

    def _cut(self, text: str, most: int = 4) -> list[str]:
        """The text in pieces. Its surrogate pairs may be cut, as by servers in JavaScript."""
        units = text.encode("utf-16-le", "surrogatepass")
        count = len(units) // 2
        cuts = [self._random.randint(0, count) for _ in range(self._random.randint(0, most))]
        edges = [0, *sorted(cuts), count]
        cut = (units[2 * a : 2 * b] for a, b in itertools.pairwise(edges))
        return [piece.decode("utf-16-le", "surrogatepass") for piece in cut]

    def _pieces(self, body: bytes) -> tuple[bytes, ...]:
        if self._is(0.3):
            return (body,)
        most = len(body)
        cuts = sorted(self._random.randint(0, most) for _ in range(self._random.randint(0, 12)))
        return tuple(body[a:b] for a, b in itertools.pairwise([0, *cuts, most]))

    # -- what the model says -----------------------------------------------------------------------

    def _deltas(self) -> list[dict[str, Any]]:
        """The deltas: thoughts, text and calls, each in its order, mostly one after the other."""
        field = self._one("reasoning_content", "reasoning", "reasoning_text")
        thoughts = [{field: piece} for piece in self._cut(self._text())] if self._is(0.3) else []
        if thoughts and field == "reasoning_text":
            self._traits.add("reasoning as Copilot sends it")
        texts = [self._texts(piece) for piece in self._cut(self._text(12))]
        refusals = [{"refusal": piece} for piece in self._cut(self._text())]
        lists = [thoughts, texts, refusals if self._is(0.05) else []]
        calls = self._calls()
        lists += calls
        if self._choices == 2:
            lists.append([{"index of the choice": 1, "content": "second"}] * 2)
        if self._is(0.6):
            return [delta for each in lists for delta in each]
        return self._merged(lists)

    def _merged(self, lists: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
        merged = []
        left = [list(each) for each in lists if each]
        while left:
            chosen = self._random.randrange(len(left))
            merged.append(left[chosen].pop(0))
            left = [each for each in left if each]
        return merged

    def _texts(self, piece: str) -> dict[str, Any]:
        if self._is(0.004):
            self._traits.add("content that is no string")
            parts = [{"type": "text", "text": piece}]
            return {"content": self._one(parts, parts[0], 7, True, {})}
        if self._is(0.002):
            return {"content": piece + "long " * 15_000}
        return {"content": piece + (_NO_UTF8 if self._is(0.003) else "")}

    # -- calls -------------------------------------------------------------------------------------

    def _calls(self) -> list[list[dict[str, Any]]]:
        count = self._one(0, 0, 0, 1, 1, 2, 3)
        self._has_calls = count > 0
        counting = self._one(*["from 0"] * 12, "from 1", "none", "all 0")
        if counting != "from 0" and count:
            self._traits.add(f"calls counted: {counting}")
        return [self._call(number, counting) for number in range(count)]

    def _call(self, number: int, counting: str) -> list[dict[str, Any]]:
        index = {"from 0": number, "from 1": number + 1, "all 0": 0}.get(counting)
        name, call_id = self._one(*_NAMES), f"call_{number}"
        if self._is(0.1):
            call_id = self._one("", None)
        named_at = 1 if self._is(0.12) else 0
        repeats_name, repeats_id = self._is(0.1), self._is(0.15)
        fragments = []
        for place, piece in enumerate(self._cut(self._arguments())):
            function: dict[str, Any] = {"arguments": piece}
            if place == named_at or (repeats_name and place > named_at):
                function["name"] = name
            elif self._is(0.2):
                function["name"] = self._one(None, "")
            if not piece and self._is(0.5):
                function["arguments"] = None
            fragment: dict[str, Any] = {"function": function}
            if index is not None:
                fragment["index"] = index
            if place == 0 or repeats_id:
                fragment |= {"id": call_id, "type": "function"}
            fragments.append(fragment)
        if len(fragments) <= named_at:
            self._traits.add("a call without a name")
        return [self._called(fragment) for fragment in fragments]

    def _arguments(self) -> str:
        if self._is(0.1):
            return ""
        written = json.dumps({"x": self._text(4), "n": [1, {"y": None}]}, ensure_ascii=False)
        return written[: self._random.randrange(len(written))] if self._is(0.04) else written

    def _called(self, fragment: dict[str, Any]) -> dict[str, Any]:
        delta: dict[str, Any] = {"tool_calls": [fragment]}
        if self._is(0.003):
            self._traits.add("arguments that are no string")
            fragment["function"]["arguments"] = self._one({"x": 1}, [], 7)
        if self._is(0.3):
            delta["content"] = self._one(None, "")
        return delta

    # -- chunks ------------------------------------------------------------------------------------

    def _chunk(self, delta: dict[str, Any], finish: Any = None) -> str:
        delta = dict(delta)
        index = delta.pop("index of the choice", 0)
        if self._is(0.1):
            delta["role"] = "assistant"
        for name in ("refusal", "tool_calls", "function_call", "reasoning", "content"):
            if name not in delta and self._is(0.03):
                delta[name] = None
        if self._is(0.03):
            delta["x_extra"] = {"index": 3}
        choice: dict[str, Any] = {"index": index, "delta": delta, "finish_reason": finish}
        if finish is None and self._is(0.2):
            choice["finish_reason"] = ""
        if finish is None and self._is(0.2):
            del choice["finish_reason"]
        if self._is(0.05):
            choice["logprobs"] = self._logprobs()
        head = self._oddly_headed()
        if self._usage_in_each and self._usage is not None:
            head["usage"] = self._usage
        elif self._is(0.1):
            head["usage"] = None
        return self._event({**head, "choices": [choice]})

    def _oddly_headed(self) -> dict[str, Any]:
        head: dict[str, Any] = dict(self._head)
        for name in [*head]:
            if self._is(0.03):
                del head[name]
            elif self._is(0.03):
                head[name] = self._one(None, 7.5, "", [], {"a": 1})
        if self._is(0.05):
            head["obfuscation"] = self._text()
        return head

    def _logprobs(self) -> dict[str, Any] | None:
        logprob = self._one(-0.5, -0.5, -0.5, float("-inf"), float("nan"))
        entry = {"token": "a", "logprob": logprob, "bytes": None, "top_logprobs": []}
        given = {"content": [entry], "refusal": None}
        return given if self._is(0.5) else None

    def _event(self, value: Any) -> str:
        return self._framed(self._doubled(self._json(value)))

    def _json(self, value: Any) -> str:
        written = json.dumps(value, ensure_ascii=False, separators=self._separators)
        try:
            written.encode()
        except UnicodeEncodeError:
            return json.dumps(value, separators=self._separators)
        if self._ascii and _NO_UTF8 not in written:
            return json.dumps(value, separators=self._separators)
        return written

    def _doubled(self, written: str) -> str:
        """The same object, perhaps with a name that is there twice: the last one counts."""
        if not self._is(0.02):
            return written
        colon = self._separators[1]
        name = self._one("object", "content", "delta", "arguments", "choices")
        return written.replace(f'"{name}"{colon}', f'"{name}"{colon}null,"{name}"{colon}', 1)

    def _framed(self, data: str) -> str:
        named = f"event: message{self._newline}" if self._is(0.02) else ""
        numbered = f"id: 7{self._newline}" if self._is(0.02) else ""
        return f"{named}{numbered}{self._before_data}{data}{self._newline}{self._newline}"

    def _noise(self) -> list[str]:
        if self._is(0.03):
            return [f": keep-alive{self._newline}{self._newline}"]
        if self._is(0.004):
            ping = self._one('{"type": "ping"}', "null", "", "keep-alive", "7", "[]")
            return [f"event: ping{self._newline}data: {ping}{self._newline}{self._newline}"]
        return []

    # -- the end -----------------------------------------------------------------------------------

    def _end(self) -> list[str]:
        finish = self._finish()
        events = []
        has_finish = isinstance(finish, str) and finish != ""
        if has_finish or self._is(0.5):
            events.append(self._finish_chunk(finish))
        if self._choices == 2 and self._is(0.7):
            events.append(self._chunk({"index of the choice": 1}, "stop"))
        if self._usage is not None and not self._usage_in_each and self._is(0.7):
            head = dict(self._head)
            events.append(self._event({**head, "choices": [], "usage": self._usage}))
        done = self._done()
        if not has_finish:
            self._traits.add("no finish reason" if done else "broken off")
            if done and not self._has_output:
                self._traits.add("an end without an answer")
        return [*events, *done]

    def _finish(self) -> Any:
        if self._is(0.88):
            return "tool_calls" if self._has_calls and self._is(0.8) else self._one(*_NAMED_ENDS)
        if self._is(0.2):
            self._traits.add("finish reason of its own")
            return "eos_token"
        if self._is(0.2):
            self._traits.add("finish reason with its cause")
            return self._one("content_filter: SAFETY", "length: MAX_TOKENS")
        return self._one(None, "")

    def _finish_chunk(self, finish: Any) -> str:
        delta = {"content": "."} if self._is(0.1) else {}
        if finish is None:
            return self._event({**self._head, "choices": [{"index": 0, "delta": delta}]})
        return self._chunk(delta, finish)

    def _done(self) -> list[str]:
        end = self._newline * 2
        lines = [f"data: [DONE]{end}"] * 12
        others = ["", f"data: [DONE] {end}", f"data:[DONE]{end}", f"data: [DONE]{end}" * 2]
        chosen: str = self._one(*lines, *others)
        if chosen and self._is(0.03):
            self._traits.add("the last event has no end")
            chosen = "data: [DONE]"
        return [chosen] if chosen else []

    def _counted(self) -> dict[str, Any]:
        counts: dict[str, Any] = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
        if self._is(0.1):
            counts["prompt_tokens_details"] = self._one(None, {"cached_tokens": 2}, {}, [])
        if self._is(0.05):
            counts["completion_tokens"] = self._one(7.0, "7", None, -1)
            self._traits.add("usage that is no count")
        if self._is(0.04):
            counts["total_tokens"] = 25
            self._traits.add("reasoning only in the total")
        return counts

    def _encoded(self, text: str) -> bytes:
        return text.encode().replace(_NO_UTF8.encode(), b"\xff")


def _is_output(name: str, value: Any) -> bool:
    """Whether a field of a delta certainly has something of the answer."""
    return name == "tool_calls" or (isinstance(value, str) and value != "")
