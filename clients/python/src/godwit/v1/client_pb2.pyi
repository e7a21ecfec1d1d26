from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Priority(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PRIORITY_UNSPECIFIED: _ClassVar[Priority]
    PRIORITY_HIGH: _ClassVar[Priority]
    PRIORITY_NORMAL: _ClassVar[Priority]
    PRIORITY_LOW: _ClassVar[Priority]
PRIORITY_UNSPECIFIED: Priority
PRIORITY_HIGH: Priority
PRIORITY_NORMAL: Priority
PRIORITY_LOW: Priority

class ClientFrame(_message.Message):
    __slots__ = ("hello", "ack", "nack", "register", "unregister", "object_ack", "subscribe", "unsubscribe", "serve", "unserve", "reply", "ping")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    ACK_FIELD_NUMBER: _ClassVar[int]
    NACK_FIELD_NUMBER: _ClassVar[int]
    REGISTER_FIELD_NUMBER: _ClassVar[int]
    UNREGISTER_FIELD_NUMBER: _ClassVar[int]
    OBJECT_ACK_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIBE_FIELD_NUMBER: _ClassVar[int]
    UNSUBSCRIBE_FIELD_NUMBER: _ClassVar[int]
    SERVE_FIELD_NUMBER: _ClassVar[int]
    UNSERVE_FIELD_NUMBER: _ClassVar[int]
    REPLY_FIELD_NUMBER: _ClassVar[int]
    PING_FIELD_NUMBER: _ClassVar[int]
    hello: Hello
    ack: Ack
    nack: Nack
    register: Register
    unregister: Register
    object_ack: ObjectAck
    subscribe: Subscribe
    unsubscribe: Subscribe
    serve: Serve
    unserve: Serve
    reply: Reply
    ping: Ping
    def __init__(self, hello: _Optional[_Union[Hello, _Mapping]] = ..., ack: _Optional[_Union[Ack, _Mapping]] = ..., nack: _Optional[_Union[Nack, _Mapping]] = ..., register: _Optional[_Union[Register, _Mapping]] = ..., unregister: _Optional[_Union[Register, _Mapping]] = ..., object_ack: _Optional[_Union[ObjectAck, _Mapping]] = ..., subscribe: _Optional[_Union[Subscribe, _Mapping]] = ..., unsubscribe: _Optional[_Union[Subscribe, _Mapping]] = ..., serve: _Optional[_Union[Serve, _Mapping]] = ..., unserve: _Optional[_Union[Serve, _Mapping]] = ..., reply: _Optional[_Union[Reply, _Mapping]] = ..., ping: _Optional[_Union[Ping, _Mapping]] = ...) -> None: ...

class ServerFrame(_message.Message):
    __slots__ = ("welcome", "notification", "recall", "registered", "registration_failed", "object", "message", "request", "pong", "goodbye", "error", "inbox")
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    NOTIFICATION_FIELD_NUMBER: _ClassVar[int]
    RECALL_FIELD_NUMBER: _ClassVar[int]
    REGISTERED_FIELD_NUMBER: _ClassVar[int]
    REGISTRATION_FAILED_FIELD_NUMBER: _ClassVar[int]
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    PONG_FIELD_NUMBER: _ClassVar[int]
    GOODBYE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    INBOX_FIELD_NUMBER: _ClassVar[int]
    welcome: Welcome
    notification: Notification
    recall: Recall
    registered: Registered
    registration_failed: RegistrationFailed
    object: Object
    message: Message
    request: Request
    pong: Pong
    goodbye: Goodbye
    error: Error
    inbox: Inbox
    def __init__(self, welcome: _Optional[_Union[Welcome, _Mapping]] = ..., notification: _Optional[_Union[Notification, _Mapping]] = ..., recall: _Optional[_Union[Recall, _Mapping]] = ..., registered: _Optional[_Union[Registered, _Mapping]] = ..., registration_failed: _Optional[_Union[RegistrationFailed, _Mapping]] = ..., object: _Optional[_Union[Object, _Mapping]] = ..., message: _Optional[_Union[Message, _Mapping]] = ..., request: _Optional[_Union[Request, _Mapping]] = ..., pong: _Optional[_Union[Pong, _Mapping]] = ..., goodbye: _Optional[_Union[Goodbye, _Mapping]] = ..., error: _Optional[_Union[Error, _Mapping]] = ..., inbox: _Optional[_Union[Inbox, _Mapping]] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("app", "token", "recipient", "group", "device", "digest", "held", "window", "heartbeat_ms", "observe")
    APP_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    RECIPIENT_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_MS_FIELD_NUMBER: _ClassVar[int]
    OBSERVE_FIELD_NUMBER: _ClassVar[int]
    app: str
    token: str
    recipient: str
    group: str
    device: str
    digest: str
    held: _containers.RepeatedScalarFieldContainer[str]
    window: int
    heartbeat_ms: int
    observe: bool
    def __init__(self, app: _Optional[str] = ..., token: _Optional[str] = ..., recipient: _Optional[str] = ..., group: _Optional[str] = ..., device: _Optional[str] = ..., digest: _Optional[str] = ..., held: _Optional[_Iterable[str]] = ..., window: _Optional[int] = ..., heartbeat_ms: _Optional[int] = ..., observe: _Optional[bool] = ...) -> None: ...

class Ack(_message.Message):
    __slots__ = ("ids",)
    IDS_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, ids: _Optional[_Iterable[str]] = ...) -> None: ...

class Nack(_message.Message):
    __slots__ = ("ids", "after_ms", "reason")
    IDS_FIELD_NUMBER: _ClassVar[int]
    AFTER_MS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[str]
    after_ms: int
    reason: str
    def __init__(self, ids: _Optional[_Iterable[str]] = ..., after_ms: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...

class Register(_message.Message):
    __slots__ = ("objects", "group", "reset", "more")
    OBJECTS_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    RESET_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    objects: _containers.RepeatedScalarFieldContainer[str]
    group: str
    reset: bool
    more: bool
    def __init__(self, objects: _Optional[_Iterable[str]] = ..., group: _Optional[str] = ..., reset: _Optional[bool] = ..., more: _Optional[bool] = ...) -> None: ...

class ObjectAck(_message.Message):
    __slots__ = ("object", "group", "version")
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    object: str
    group: str
    version: int
    def __init__(self, object: _Optional[str] = ..., group: _Optional[str] = ..., version: _Optional[int] = ...) -> None: ...

class Subscribe(_message.Message):
    __slots__ = ("topics", "queue")
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    topics: _containers.RepeatedScalarFieldContainer[str]
    queue: str
    def __init__(self, topics: _Optional[_Iterable[str]] = ..., queue: _Optional[str] = ...) -> None: ...

class Serve(_message.Message):
    __slots__ = ("subjects", "queue")
    SUBJECTS_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    subjects: _containers.RepeatedScalarFieldContainer[str]
    queue: str
    def __init__(self, subjects: _Optional[_Iterable[str]] = ..., queue: _Optional[str] = ...) -> None: ...

class Reply(_message.Message):
    __slots__ = ("request_id", "id", "status", "headers", "data", "content_type", "header_fields")
    class HeadersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    CONTENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    HEADER_FIELDS_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    id: str
    status: int
    headers: _containers.ScalarMap[str, str]
    data: bytes
    content_type: str
    header_fields: _containers.RepeatedCompositeFieldContainer[HeaderField]
    def __init__(self, request_id: _Optional[str] = ..., id: _Optional[str] = ..., status: _Optional[int] = ..., headers: _Optional[_Mapping[str, str]] = ..., data: _Optional[bytes] = ..., content_type: _Optional[str] = ..., header_fields: _Optional[_Iterable[_Union[HeaderField, _Mapping]]] = ...) -> None: ...

class HeaderField(_message.Message):
    __slots__ = ("name", "value")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: str
    def __init__(self, name: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...

class Ping(_message.Message):
    __slots__ = ("digest",)
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    digest: str
    def __init__(self, digest: _Optional[str] = ...) -> None: ...

class Welcome(_message.Message):
    __slots__ = ("session", "app", "recipient", "heartbeat_ms", "digest", "registrations", "server_time_ms", "inbox")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    APP_FIELD_NUMBER: _ClassVar[int]
    RECIPIENT_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_MS_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    REGISTRATIONS_FIELD_NUMBER: _ClassVar[int]
    SERVER_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    INBOX_FIELD_NUMBER: _ClassVar[int]
    session: str
    app: str
    recipient: str
    heartbeat_ms: int
    digest: str
    registrations: int
    server_time_ms: int
    inbox: Inbox
    def __init__(self, session: _Optional[str] = ..., app: _Optional[str] = ..., recipient: _Optional[str] = ..., heartbeat_ms: _Optional[int] = ..., digest: _Optional[str] = ..., registrations: _Optional[int] = ..., server_time_ms: _Optional[int] = ..., inbox: _Optional[_Union[Inbox, _Mapping]] = ...) -> None: ...

class Notification(_message.Message):
    __slots__ = ("seq", "attempt", "id", "title", "body", "category", "data", "content_type", "priority", "created_at_ms", "expires_at_ms", "reply_by_ms")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    CATEGORY_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    CONTENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_MS_FIELD_NUMBER: _ClassVar[int]
    REPLY_BY_MS_FIELD_NUMBER: _ClassVar[int]
    seq: int
    attempt: int
    id: str
    title: str
    body: str
    category: str
    data: bytes
    content_type: str
    priority: Priority
    created_at_ms: int
    expires_at_ms: int
    reply_by_ms: int
    def __init__(self, seq: _Optional[int] = ..., attempt: _Optional[int] = ..., id: _Optional[str] = ..., title: _Optional[str] = ..., body: _Optional[str] = ..., category: _Optional[str] = ..., data: _Optional[bytes] = ..., content_type: _Optional[str] = ..., priority: _Optional[_Union[Priority, str]] = ..., created_at_ms: _Optional[int] = ..., expires_at_ms: _Optional[int] = ..., reply_by_ms: _Optional[int] = ...) -> None: ...

class Recall(_message.Message):
    __slots__ = ("ids",)
    IDS_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, ids: _Optional[_Iterable[str]] = ...) -> None: ...

class Inbox(_message.Message):
    __slots__ = ("unseen", "unread", "changed", "more", "marked")
    UNSEEN_FIELD_NUMBER: _ClassVar[int]
    UNREAD_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    MARKED_FIELD_NUMBER: _ClassVar[int]
    unseen: int
    unread: int
    changed: _containers.RepeatedScalarFieldContainer[str]
    more: bool
    marked: _containers.RepeatedCompositeFieldContainer[InboxMark]
    def __init__(self, unseen: _Optional[int] = ..., unread: _Optional[int] = ..., changed: _Optional[_Iterable[str]] = ..., more: _Optional[bool] = ..., marked: _Optional[_Iterable[_Union[InboxMark, _Mapping]]] = ...) -> None: ...

class InboxMark(_message.Message):
    __slots__ = ("id", "seen", "read", "archived", "pinned", "answered")
    ID_FIELD_NUMBER: _ClassVar[int]
    SEEN_FIELD_NUMBER: _ClassVar[int]
    READ_FIELD_NUMBER: _ClassVar[int]
    ARCHIVED_FIELD_NUMBER: _ClassVar[int]
    PINNED_FIELD_NUMBER: _ClassVar[int]
    ANSWERED_FIELD_NUMBER: _ClassVar[int]
    id: str
    seen: bool
    read: bool
    archived: bool
    pinned: bool
    answered: str
    def __init__(self, id: _Optional[str] = ..., seen: _Optional[bool] = ..., read: _Optional[bool] = ..., archived: _Optional[bool] = ..., pinned: _Optional[bool] = ..., answered: _Optional[str] = ...) -> None: ...

class Registered(_message.Message):
    __slots__ = ("objects", "digest", "group")
    OBJECTS_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    objects: _containers.RepeatedScalarFieldContainer[str]
    digest: str
    group: str
    def __init__(self, objects: _Optional[_Iterable[str]] = ..., digest: _Optional[str] = ..., group: _Optional[str] = ...) -> None: ...

class RegistrationFailed(_message.Message):
    __slots__ = ("objects", "code", "transient", "group")
    OBJECTS_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    TRANSIENT_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    objects: _containers.RepeatedScalarFieldContainer[str]
    code: str
    transient: bool
    group: str
    def __init__(self, objects: _Optional[_Iterable[str]] = ..., code: _Optional[str] = ..., transient: _Optional[bool] = ..., group: _Optional[str] = ...) -> None: ...

class Object(_message.Message):
    __slots__ = ("group", "object", "version", "payload", "unknown", "content_type")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_FIELD_NUMBER: _ClassVar[int]
    CONTENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    group: str
    object: str
    version: int
    payload: bytes
    unknown: bool
    content_type: str
    def __init__(self, group: _Optional[str] = ..., object: _Optional[str] = ..., version: _Optional[int] = ..., payload: _Optional[bytes] = ..., unknown: _Optional[bool] = ..., content_type: _Optional[str] = ...) -> None: ...

class Message(_message.Message):
    __slots__ = ("topic", "content_type", "data", "gap")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    CONTENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    GAP_FIELD_NUMBER: _ClassVar[int]
    topic: str
    content_type: str
    data: bytes
    gap: int
    def __init__(self, topic: _Optional[str] = ..., content_type: _Optional[str] = ..., data: _Optional[bytes] = ..., gap: _Optional[int] = ...) -> None: ...

class Request(_message.Message):
    __slots__ = ("request_id", "subject", "method", "path", "query", "headers", "content_type", "data", "deadline_ms", "header_fields")
    class HeadersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    METHOD_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    QUERY_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    CONTENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_MS_FIELD_NUMBER: _ClassVar[int]
    HEADER_FIELDS_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    subject: str
    method: str
    path: str
    query: str
    headers: _containers.ScalarMap[str, str]
    content_type: str
    data: bytes
    deadline_ms: int
    header_fields: _containers.RepeatedCompositeFieldContainer[HeaderField]
    def __init__(self, request_id: _Optional[str] = ..., subject: _Optional[str] = ..., method: _Optional[str] = ..., path: _Optional[str] = ..., query: _Optional[str] = ..., headers: _Optional[_Mapping[str, str]] = ..., content_type: _Optional[str] = ..., data: _Optional[bytes] = ..., deadline_ms: _Optional[int] = ..., header_fields: _Optional[_Iterable[_Union[HeaderField, _Mapping]]] = ...) -> None: ...

class Pong(_message.Message):
    __slots__ = ("digest",)
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    digest: str
    def __init__(self, digest: _Optional[str] = ...) -> None: ...

class Goodbye(_message.Message):
    __slots__ = ("reason", "retry_after_ms")
    REASON_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_MS_FIELD_NUMBER: _ClassVar[int]
    reason: str
    retry_after_ms: int
    def __init__(self, reason: _Optional[str] = ..., retry_after_ms: _Optional[int] = ...) -> None: ...

class Error(_message.Message):
    __slots__ = ("code", "message", "field", "refused")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    FIELD_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    code: str
    message: str
    field: str
    refused: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, code: _Optional[str] = ..., message: _Optional[str] = ..., field: _Optional[str] = ..., refused: _Optional[_Iterable[str]] = ...) -> None: ...
