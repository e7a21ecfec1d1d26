"""A client of nammayatri's notification-service with grpcio: it prints each notification and acknowledges it, so many times.

Messages are written down here once more, from what is known of the service.
"""

import json
import queue
import sys

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

STRING = descriptor_pb2.FieldDescriptorProto.TYPE_STRING
MESSAGE = descriptor_pb2.FieldDescriptorProto.TYPE_MESSAGE


def messages():
    file = descriptor_pb2.FileDescriptorProto(name="app.proto", package="notification_service", syntax="proto3")
    for name, fields in {
        "NotificationAck": ["id"],
        "Entity": ["id", "type", "data"],
        "NotificationPayload": ["id", "category", "title", "body", "show", "entity"],
    }.items():
        message = file.message_type.add(name=name)
        for number, field in enumerate(fields, 1):
            made = message.field.add(name=field, number=number, label=1, type=STRING)
            if field == "entity":
                made.type, made.type_name = MESSAGE, ".notification_service.Entity"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return lambda name: message_factory.GetMessageClass(pool.FindMessageTypeByName("notification_service." + name))


def main():
    addr, token, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    message = messages()
    ack, payload = message("NotificationAck"), message("NotificationPayload")
    options = [("grpc.keepalive_time_ms", 15000), ("grpc.keepalive_permit_without_calls", 1)]
    acks = queue.SimpleQueue()
    acks.put(ack(id=""))
    with grpc.insecure_channel(addr, options=options) as channel:
        call = channel.stream_stream(
            "/notification_service.Notification/StreamPayload",
            request_serializer=ack.SerializeToString,
            response_deserializer=payload.FromString,
        )
        stream = call(iter(acks.get, None), metadata=[("token", token), ("token-origin", "DriverApp")], wait_for_ready=True)
        seen = set()
        for p in stream:
            acks.put(ack(id=p.id))
            if p.id in seen:  # it was not acknowledged in time
                continue
            seen.add(p.id)
            print(json.dumps([p.id, p.category, p.title, p.body, p.show, p.entity.id, p.entity.type, p.entity.data]), flush=True)
            if len(seen) == count:
                break
        acks.put(None)  # no more acknowledgements: what was said is sent before the stream ends
        for _ in stream:
            pass


main()
