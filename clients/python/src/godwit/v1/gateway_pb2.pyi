from godwit.v1 import client_pb2 as _client_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class CallRequest(_message.Message):
    __slots__ = ("app", "service", "method", "path", "query", "headers", "content_type", "data")
    APP_FIELD_NUMBER: _ClassVar[int]
    SERVICE_FIELD_NUMBER: _ClassVar[int]
    METHOD_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    QUERY_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    CONTENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    app: str
    service: str
    method: str
    path: str
    query: str
    headers: _containers.RepeatedCompositeFieldContainer[_client_pb2.HeaderField]
    content_type: str
    data: bytes
    def __init__(self, app: _Optional[str] = ..., service: _Optional[str] = ..., method: _Optional[str] = ..., path: _Optional[str] = ..., query: _Optional[str] = ..., headers: _Optional[_Iterable[_Union[_client_pb2.HeaderField, _Mapping]]] = ..., content_type: _Optional[str] = ..., data: _Optional[bytes] = ...) -> None: ...

class CallResponse(_message.Message):
    __slots__ = ("status", "headers", "content_type", "data")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    CONTENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    status: int
    headers: _containers.RepeatedCompositeFieldContainer[_client_pb2.HeaderField]
    content_type: str
    data: bytes
    def __init__(self, status: _Optional[int] = ..., headers: _Optional[_Iterable[_Union[_client_pb2.HeaderField, _Mapping]]] = ..., content_type: _Optional[str] = ..., data: _Optional[bytes] = ...) -> None: ...
