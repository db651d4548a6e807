from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class StreamRequest(_message.Message):
    __slots__ = ("agent", "turns", "attempt", "prefix", "key", "options", "model", "caller", "takes_parts")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    TURNS_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    CALLER_FIELD_NUMBER: _ClassVar[int]
    TAKES_PARTS_FIELD_NUMBER: _ClassVar[int]
    agent: str
    turns: _containers.RepeatedCompositeFieldContainer[Turn]
    attempt: int
    prefix: str
    key: str
    options: Options
    model: str
    caller: Caller
    takes_parts: bool
    def __init__(self, agent: _Optional[str] = ..., turns: _Optional[_Iterable[_Union[Turn, _Mapping]]] = ..., attempt: _Optional[int] = ..., prefix: _Optional[str] = ..., key: _Optional[str] = ..., options: _Optional[_Union[Options, _Mapping]] = ..., model: _Optional[str] = ..., caller: _Optional[_Union[Caller, _Mapping]] = ..., takes_parts: _Optional[bool] = ...) -> None: ...

class Caller(_message.Message):
    __slots__ = ("session", "user", "tenant", "message_id", "metadata")
    class MetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    SESSION_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    session: str
    user: str
    tenant: str
    message_id: str
    metadata: _containers.ScalarMap[str, str]
    def __init__(self, session: _Optional[str] = ..., user: _Optional[str] = ..., tenant: _Optional[str] = ..., message_id: _Optional[str] = ..., metadata: _Optional[_Mapping[str, str]] = ...) -> None: ...

class Options(_message.Message):
    __slots__ = ("max_tokens", "max_completion_tokens", "temperature", "top_p", "stop", "seed", "tools", "tool_choice", "parallel_tool_calls", "passed")
    MAX_TOKENS_FIELD_NUMBER: _ClassVar[int]
    MAX_COMPLETION_TOKENS_FIELD_NUMBER: _ClassVar[int]
    TEMPERATURE_FIELD_NUMBER: _ClassVar[int]
    TOP_P_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    TOOL_CHOICE_FIELD_NUMBER: _ClassVar[int]
    PARALLEL_TOOL_CALLS_FIELD_NUMBER: _ClassVar[int]
    PASSED_FIELD_NUMBER: _ClassVar[int]
    max_tokens: int
    max_completion_tokens: int
    temperature: float
    top_p: float
    stop: _containers.RepeatedScalarFieldContainer[str]
    seed: int
    tools: _containers.RepeatedScalarFieldContainer[str]
    tool_choice: str
    parallel_tool_calls: bool
    passed: str
    def __init__(self, max_tokens: _Optional[int] = ..., max_completion_tokens: _Optional[int] = ..., temperature: _Optional[float] = ..., top_p: _Optional[float] = ..., stop: _Optional[_Iterable[str]] = ..., seed: _Optional[int] = ..., tools: _Optional[_Iterable[str]] = ..., tool_choice: _Optional[str] = ..., parallel_tool_calls: _Optional[bool] = ..., passed: _Optional[str] = ...) -> None: ...

class Turn(_message.Message):
    __slots__ = ("role", "text", "tool_calls", "tool_call_id", "parts", "extra")
    ROLE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALLS_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALL_ID_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    role: str
    text: str
    tool_calls: _containers.RepeatedCompositeFieldContainer[ToolCall]
    tool_call_id: str
    parts: str
    extra: str
    def __init__(self, role: _Optional[str] = ..., text: _Optional[str] = ..., tool_calls: _Optional[_Iterable[_Union[ToolCall, _Mapping]]] = ..., tool_call_id: _Optional[str] = ..., parts: _Optional[str] = ..., extra: _Optional[str] = ...) -> None: ...

class ToolCall(_message.Message):
    __slots__ = ("id", "name", "arguments", "extra")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    arguments: str
    extra: str
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., arguments: _Optional[str] = ..., extra: _Optional[str] = ...) -> None: ...

class StreamEvent(_message.Message):
    __slots__ = ("tokens", "finish", "parts")
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    FINISH_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    tokens: Tokens
    finish: Finish
    parts: Parts
    def __init__(self, tokens: _Optional[_Union[Tokens, _Mapping]] = ..., finish: _Optional[_Union[Finish, _Mapping]] = ..., parts: _Optional[_Union[Parts, _Mapping]] = ...) -> None: ...

class Tokens(_message.Message):
    __slots__ = ("text",)
    TEXT_FIELD_NUMBER: _ClassVar[int]
    text: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, text: _Optional[_Iterable[str]] = ...) -> None: ...

class Parts(_message.Message):
    __slots__ = ("part",)
    PART_FIELD_NUMBER: _ClassVar[int]
    part: _containers.RepeatedCompositeFieldContainer[Part]
    def __init__(self, part: _Optional[_Iterable[_Union[Part, _Mapping]]] = ...) -> None: ...

class Part(_message.Message):
    __slots__ = ("kind", "text", "choice", "call", "id", "name")
    class Kind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        KIND_UNSPECIFIED: _ClassVar[Part.Kind]
        KIND_TEXT: _ClassVar[Part.Kind]
        KIND_REASONING: _ClassVar[Part.Kind]
        KIND_REFUSAL: _ClassVar[Part.Kind]
        KIND_CALL: _ClassVar[Part.Kind]
        KIND_ARGUMENTS: _ClassVar[Part.Kind]
        KIND_CALL_END: _ClassVar[Part.Kind]
        KIND_RESULT: _ClassVar[Part.Kind]
        KIND_DATA: _ClassVar[Part.Kind]
    KIND_UNSPECIFIED: Part.Kind
    KIND_TEXT: Part.Kind
    KIND_REASONING: Part.Kind
    KIND_REFUSAL: Part.Kind
    KIND_CALL: Part.Kind
    KIND_ARGUMENTS: Part.Kind
    KIND_CALL_END: Part.Kind
    KIND_RESULT: Part.Kind
    KIND_DATA: Part.Kind
    KIND_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    CHOICE_FIELD_NUMBER: _ClassVar[int]
    CALL_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    kind: Part.Kind
    text: str
    choice: int
    call: int
    id: str
    name: str
    def __init__(self, kind: _Optional[_Union[Part.Kind, str]] = ..., text: _Optional[str] = ..., choice: _Optional[int] = ..., call: _Optional[int] = ..., id: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class Finish(_message.Message):
    __slots__ = ("reason", "usage")
    REASON_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    reason: str
    usage: Usage
    def __init__(self, reason: _Optional[str] = ..., usage: _Optional[_Union[Usage, _Mapping]] = ...) -> None: ...

class Usage(_message.Message):
    __slots__ = ("prompt_tokens", "completion_tokens", "cached_tokens", "reasoning_tokens", "cache_write_tokens")
    PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    COMPLETION_TOKENS_FIELD_NUMBER: _ClassVar[int]
    CACHED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    REASONING_TOKENS_FIELD_NUMBER: _ClassVar[int]
    CACHE_WRITE_TOKENS_FIELD_NUMBER: _ClassVar[int]
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    reasoning_tokens: int
    cache_write_tokens: int
    def __init__(self, prompt_tokens: _Optional[int] = ..., completion_tokens: _Optional[int] = ..., cached_tokens: _Optional[int] = ..., reasoning_tokens: _Optional[int] = ..., cache_write_tokens: _Optional[int] = ...) -> None: ...

class DescribeRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DescribeResponse(_message.Message):
    __slots__ = ("continues", "streams", "tokens_taken", "tokens_waiting", "tools", "parts")
    CONTINUES_FIELD_NUMBER: _ClassVar[int]
    STREAMS_FIELD_NUMBER: _ClassVar[int]
    TOKENS_TAKEN_FIELD_NUMBER: _ClassVar[int]
    TOKENS_WAITING_FIELD_NUMBER: _ClassVar[int]
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    continues: bool
    streams: int
    tokens_taken: int
    tokens_waiting: int
    tools: bool
    parts: bool
    def __init__(self, continues: _Optional[bool] = ..., streams: _Optional[int] = ..., tokens_taken: _Optional[int] = ..., tokens_waiting: _Optional[int] = ..., tools: _Optional[bool] = ..., parts: _Optional[bool] = ...) -> None: ...
