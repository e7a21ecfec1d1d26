"""Publishes and receives over gRPC with grpcio, knowing the services by reflection alone: grpc_client.py ADDR RECIPIENT COUNT."""
import json
import queue
import sys

import grpc
from google.protobuf import json_format, message_factory
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

addr, recipient, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
channel = grpc.insecure_channel(addr)
reflection = ProtoReflectionDescriptorDatabase(channel)
services = sorted(reflection.get_services())
assert {"godwit.v1.Client", "godwit.v1.Publisher", "grpc.health.v1.Health"} <= set(services), services
pool = DescriptorPool(reflection)


def method(service: str, name: str):
    found = pool.FindServiceByName(service).FindMethodByName(name)
    request = message_factory.GetMessageClass(found.input_type)
    answer = message_factory.GetMessageClass(found.output_type)
    kinds = {
        (False, False): channel.unary_unary,
        (True, True): channel.stream_stream,
    }
    call = kinds[(found.client_streaming, found.server_streaming)](
        f"/{service}/{name}", request_serializer=request.SerializeToString, response_deserializer=answer.FromString
    )
    return request, call


def show(message) -> None:
    print(json.dumps(json_format.MessageToDict(message, preserving_proto_field_name=True)), flush=True)


Check, check = method("grpc.health.v1.Health", "Check")
assert check(Check(), timeout=30).status == 1

# The back end: one notification by itself, the others on a stream, answered in order.
key = [("authorization", "Bearer dev")]
Publish, publish = method("godwit.v1.Publisher", "Publish")
ids = [f"py-{recipient}-{i}" for i in range(count)]
first = publish(Publish(to=[recipient], id=ids[0], title="one", data=b'{"n":0}'), metadata=key, timeout=30)
assert [r.id for r in first.results] == ids[:1] and first.results[0].status in ("stored", "delivered"), first
_, publish_stream = method("godwit.v1.Publisher", "PublishStream")
requests = [Publish(to=[recipient], id=i, title="more", data=b"\x00\xff") for i in ids[1:]]
answers = list(publish_stream(iter(requests), metadata=key, timeout=30))
assert [a.results[0].id for a in answers] == ids[1:], answers

# Without a key nothing is published.
try:
    publish(Publish(to=[recipient], title="no key"), timeout=30)
    raise AssertionError("a publish without a key was accepted")
except grpc.RpcError as refused:
    assert refused.code() == grpc.StatusCode.UNAUTHENTICATED, refused
# Bad input names the field.
try:
    publish(Publish(to=[], title="nobody"), metadata=key, timeout=30)
    raise AssertionError("a publish to nobody was accepted")
except grpc.RpcError as refused:
    assert refused.code() == grpc.StatusCode.INVALID_ARGUMENT and "to" in refused.details(), refused

# The client.
Frame, connect = method("godwit.v1.Client", "Connect")
outgoing = queue.SimpleQueue()
outgoing.put(Frame(hello={"app": "demo", "recipient": recipient}))
stream = connect(iter(outgoing.get, None), timeout=60)
got = []
for frame in stream:
    show(frame)
    if frame.WhichOneof("frame") == "notification":
        outgoing.put(Frame(ack={"ids": [frame.notification.id]}))
        got.append(frame.notification.id)
        if len(got) == count:
            break
assert got == ids, (got, ids)
outgoing.put(Frame(ping={}))
for frame in stream:
    if frame.WhichOneof("frame") == "pong":
        break
outgoing.put(None)
stream.cancel()
channel.close()
