from godwit.v1 import client_pb2 as _client_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class AckMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ACK_MODE_UNSPECIFIED: _ClassVar[AckMode]
    ACK_MODE_ANY: _ClassVar[AckMode]
    ACK_MODE_ALL: _ClassVar[AckMode]
    ACK_MODE_NONE: _ClassVar[AckMode]
ACK_MODE_UNSPECIFIED: AckMode
ACK_MODE_ANY: AckMode
ACK_MODE_ALL: AckMode
ACK_MODE_NONE: AckMode

class PublishRequest(_message.Message):
    __slots__ = ("to", "id", "title", "body", "category", "data", "content_type", "ttl_ms", "expires_at_ms", "send_at_ms", "collapse_key", "priority", "ack", "escalate", "reply_by_ms", "template", "variables", "locale", "inbox", "keep_ms", "actions", "digest_key", "phones")
    class VariablesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    TO_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    CATEGORY_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    CONTENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    TTL_MS_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_MS_FIELD_NUMBER: _ClassVar[int]
    SEND_AT_MS_FIELD_NUMBER: _ClassVar[int]
    COLLAPSE_KEY_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    ACK_FIELD_NUMBER: _ClassVar[int]
    ESCALATE_FIELD_NUMBER: _ClassVar[int]
    REPLY_BY_MS_FIELD_NUMBER: _ClassVar[int]
    TEMPLATE_FIELD_NUMBER: _ClassVar[int]
    VARIABLES_FIELD_NUMBER: _ClassVar[int]
    LOCALE_FIELD_NUMBER: _ClassVar[int]
    INBOX_FIELD_NUMBER: _ClassVar[int]
    KEEP_MS_FIELD_NUMBER: _ClassVar[int]
    ACTIONS_FIELD_NUMBER: _ClassVar[int]
    DIGEST_KEY_FIELD_NUMBER: _ClassVar[int]
    PHONES_FIELD_NUMBER: _ClassVar[int]
    to: _containers.RepeatedScalarFieldContainer[str]
    id: str
    title: str
    body: str
    category: str
    data: bytes
    content_type: str
    ttl_ms: int
    expires_at_ms: int
    send_at_ms: int
    collapse_key: str
    priority: _client_pb2.Priority
    ack: AckMode
    escalate: _containers.RepeatedCompositeFieldContainer[EscalationStep]
    reply_by_ms: int
    template: str
    variables: _containers.ScalarMap[str, str]
    locale: str
    inbox: bool
    keep_ms: int
    actions: _containers.RepeatedCompositeFieldContainer[Action]
    digest_key: str
    phones: str
    def __init__(self, to: _Optional[_Iterable[str]] = ..., id: _Optional[str] = ..., title: _Optional[str] = ..., body: _Optional[str] = ..., category: _Optional[str] = ..., data: _Optional[bytes] = ..., content_type: _Optional[str] = ..., ttl_ms: _Optional[int] = ..., expires_at_ms: _Optional[int] = ..., send_at_ms: _Optional[int] = ..., collapse_key: _Optional[str] = ..., priority: _Optional[_Union[_client_pb2.Priority, str]] = ..., ack: _Optional[_Union[AckMode, str]] = ..., escalate: _Optional[_Iterable[_Union[EscalationStep, _Mapping]]] = ..., reply_by_ms: _Optional[int] = ..., template: _Optional[str] = ..., variables: _Optional[_Mapping[str, str]] = ..., locale: _Optional[str] = ..., inbox: _Optional[bool] = ..., keep_ms: _Optional[int] = ..., actions: _Optional[_Iterable[_Union[Action, _Mapping]]] = ..., digest_key: _Optional[str] = ..., phones: _Optional[str] = ...) -> None: ...

class Action(_message.Message):
    __slots__ = ("id", "title", "url")
    ID_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    URL_FIELD_NUMBER: _ClassVar[int]
    id: str
    title: str
    url: str
    def __init__(self, id: _Optional[str] = ..., title: _Optional[str] = ..., url: _Optional[str] = ...) -> None: ...

class EscalationStep(_message.Message):
    __slots__ = ("channel", "after_ms", "settle", "withdraw", "to")
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    AFTER_MS_FIELD_NUMBER: _ClassVar[int]
    SETTLE_FIELD_NUMBER: _ClassVar[int]
    WITHDRAW_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    channel: str
    after_ms: int
    settle: str
    withdraw: bool
    to: str
    def __init__(self, channel: _Optional[str] = ..., after_ms: _Optional[int] = ..., settle: _Optional[str] = ..., withdraw: _Optional[bool] = ..., to: _Optional[str] = ...) -> None: ...

class PublishResponse(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[PublishResult]
    def __init__(self, results: _Optional[_Iterable[_Union[PublishResult, _Mapping]]] = ...) -> None: ...

class PublishResult(_message.Message):
    __slots__ = ("id", "to", "status", "duplicate", "expires_at_ms", "error")
    ID_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_MS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    id: str
    to: str
    status: str
    duplicate: bool
    expires_at_ms: int
    error: Problem
    def __init__(self, id: _Optional[str] = ..., to: _Optional[str] = ..., status: _Optional[str] = ..., duplicate: _Optional[bool] = ..., expires_at_ms: _Optional[int] = ..., error: _Optional[_Union[Problem, _Mapping]] = ...) -> None: ...

class Problem(_message.Message):
    __slots__ = ("type", "title", "status", "detail", "field", "retry_after_ms")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    FIELD_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_MS_FIELD_NUMBER: _ClassVar[int]
    type: str
    title: str
    status: int
    detail: str
    field: str
    retry_after_ms: int
    def __init__(self, type: _Optional[str] = ..., title: _Optional[str] = ..., status: _Optional[int] = ..., detail: _Optional[str] = ..., field: _Optional[str] = ..., retry_after_ms: _Optional[int] = ...) -> None: ...

class StatusRequest(_message.Message):
    __slots__ = ("id", "to")
    ID_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    id: str
    to: str
    def __init__(self, id: _Optional[str] = ..., to: _Optional[str] = ...) -> None: ...

class StatusResponse(_message.Message):
    __slots__ = ("items",)
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[NotificationStatus]
    def __init__(self, items: _Optional[_Iterable[_Union[NotificationStatus, _Mapping]]] = ...) -> None: ...

class NotificationStatus(_message.Message):
    __slots__ = ("id", "to", "status", "priority", "ack", "seq", "created_at_ms", "send_at_ms", "expires_at_ms", "delivered_at_ms", "settled_at_ms", "acked_at_ms", "latency_ms", "attempts", "reply", "channels", "digest", "digest_due_ms")
    ID_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    ACK_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    SEND_AT_MS_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_MS_FIELD_NUMBER: _ClassVar[int]
    DELIVERED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    SETTLED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    ACKED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    LATENCY_MS_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    REPLY_FIELD_NUMBER: _ClassVar[int]
    CHANNELS_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    DIGEST_DUE_MS_FIELD_NUMBER: _ClassVar[int]
    id: str
    to: str
    status: str
    priority: _client_pb2.Priority
    ack: AckMode
    seq: int
    created_at_ms: int
    send_at_ms: int
    expires_at_ms: int
    delivered_at_ms: int
    settled_at_ms: int
    acked_at_ms: int
    latency_ms: int
    attempts: int
    reply: NotificationReply
    channels: _containers.RepeatedCompositeFieldContainer[ChannelStatus]
    digest: str
    digest_due_ms: int
    def __init__(self, id: _Optional[str] = ..., to: _Optional[str] = ..., status: _Optional[str] = ..., priority: _Optional[_Union[_client_pb2.Priority, str]] = ..., ack: _Optional[_Union[AckMode, str]] = ..., seq: _Optional[int] = ..., created_at_ms: _Optional[int] = ..., send_at_ms: _Optional[int] = ..., expires_at_ms: _Optional[int] = ..., delivered_at_ms: _Optional[int] = ..., settled_at_ms: _Optional[int] = ..., acked_at_ms: _Optional[int] = ..., latency_ms: _Optional[int] = ..., attempts: _Optional[int] = ..., reply: _Optional[_Union[NotificationReply, _Mapping]] = ..., channels: _Optional[_Iterable[_Union[ChannelStatus, _Mapping]]] = ..., digest: _Optional[str] = ..., digest_due_ms: _Optional[int] = ...) -> None: ...

class NotificationReply(_message.Message):
    __slots__ = ("status", "content_type", "data")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    CONTENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    status: int
    content_type: str
    data: bytes
    def __init__(self, status: _Optional[int] = ..., content_type: _Optional[str] = ..., data: _Optional[bytes] = ...) -> None: ...

class ChannelStatus(_message.Message):
    __slots__ = ("channel", "status", "at_ms", "detail", "step", "endpoint", "to")
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    AT_MS_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    channel: str
    status: str
    at_ms: int
    detail: str
    step: int
    endpoint: str
    to: str
    def __init__(self, channel: _Optional[str] = ..., status: _Optional[str] = ..., at_ms: _Optional[int] = ..., detail: _Optional[str] = ..., step: _Optional[int] = ..., endpoint: _Optional[str] = ..., to: _Optional[str] = ...) -> None: ...

class RecallRequest(_message.Message):
    __slots__ = ("id", "to")
    ID_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    id: str
    to: str
    def __init__(self, id: _Optional[str] = ..., to: _Optional[str] = ...) -> None: ...

class RecallResponse(_message.Message):
    __slots__ = ("recalled",)
    RECALLED_FIELD_NUMBER: _ClassVar[int]
    recalled: int
    def __init__(self, recalled: _Optional[int] = ...) -> None: ...

class PutObjectRequest(_message.Message):
    __slots__ = ("group", "object", "version", "payload", "content_type", "unknown", "source")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    CONTENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    group: str
    object: str
    version: int
    payload: bytes
    content_type: str
    unknown: bool
    source: str
    def __init__(self, group: _Optional[str] = ..., object: _Optional[str] = ..., version: _Optional[int] = ..., payload: _Optional[bytes] = ..., content_type: _Optional[str] = ..., unknown: _Optional[bool] = ..., source: _Optional[str] = ...) -> None: ...

class PutObjectResponse(_message.Message):
    __slots__ = ("version", "changed")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    version: int
    changed: bool
    def __init__(self, version: _Optional[int] = ..., changed: _Optional[bool] = ...) -> None: ...

class DeleteObjectRequest(_message.Message):
    __slots__ = ("group", "object")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    group: str
    object: str
    def __init__(self, group: _Optional[str] = ..., object: _Optional[str] = ...) -> None: ...

class DeleteObjectResponse(_message.Message):
    __slots__ = ("version", "changed")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    version: int
    changed: bool
    def __init__(self, version: _Optional[int] = ..., changed: _Optional[bool] = ...) -> None: ...

class PublishMessageRequest(_message.Message):
    __slots__ = ("topic", "content_type", "data")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    CONTENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    topic: str
    content_type: str
    data: bytes
    def __init__(self, topic: _Optional[str] = ..., content_type: _Optional[str] = ..., data: _Optional[bytes] = ...) -> None: ...

class PublishMessageResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class AskRequest(_message.Message):
    __slots__ = ("subject", "content_type", "data", "timeout_ms")
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    CONTENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    subject: str
    content_type: str
    data: bytes
    timeout_ms: int
    def __init__(self, subject: _Optional[str] = ..., content_type: _Optional[str] = ..., data: _Optional[bytes] = ..., timeout_ms: _Optional[int] = ...) -> None: ...

class AskResponse(_message.Message):
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

class AskRecipientRequest(_message.Message):
    __slots__ = ("recipient", "device", "subject", "content_type", "data", "timeout_ms")
    RECIPIENT_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    CONTENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    recipient: str
    device: str
    subject: str
    content_type: str
    data: bytes
    timeout_ms: int
    def __init__(self, recipient: _Optional[str] = ..., device: _Optional[str] = ..., subject: _Optional[str] = ..., content_type: _Optional[str] = ..., data: _Optional[bytes] = ..., timeout_ms: _Optional[int] = ...) -> None: ...

class AskRecipientResponse(_message.Message):
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
