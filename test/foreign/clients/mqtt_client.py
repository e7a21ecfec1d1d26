"""An MQTT client, by paho-mqtt: mqtt_client.py HOST PORT VERSION. It carries out the commands on its input, one JSON object a line, and prints
what happens, one event a line. A message is acknowledged by the command ack."""
import json
import socket
import sys
import threading
from typing import Any

import paho.mqtt.client as mqtt
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

host, port, version = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
five = version == 5
telling = threading.Lock()  # each connection has a thread


def tell(event: str, **fields: Any) -> None:
    with telling:
        print(json.dumps({"event": event, **fields}), flush=True)


def code(reason: Any) -> int:
    return reason.value if hasattr(reason, "value") else int(reason)


def connect(c: dict[str, Any]) -> mqtt.Client:
    kind = {"clean_session": None if five else c["clean"]}
    client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, c["id"], protocol=mqtt.MQTTv5 if five else mqtt.MQTTv311, manual_ack=True, reconnect_on_failure=False, **kind)
    client.username_pw_set(c["user"], c.get("password"))
    if "will" in c:
        client.will_set(c["will"], c["payload"], 1)
    client.on_connect = lambda _c, _u, flags, reason, _p: tell("connected", present=bool(flags.session_present), code=code(reason))
    client.on_subscribe = lambda _c, _u, _mid, reasons, _p: tell("subscribed", codes=[code(r) for r in reasons])
    client.on_unsubscribe = lambda _c, _u, _mid, reasons, _p: tell("unsubscribed")
    client.on_publish = lambda _c, _u, _mid, reason, _p: tell("published", code=code(reason))
    client.on_disconnect = lambda _c, _u, _f, reason, _p: tell("closed", code=code(reason))

    def message(_c: mqtt.Client, _u: Any, m: mqtt.MQTTMessage) -> None:
        tell("message", topic=m.topic, payload=m.payload.decode(), qos=m.qos, retain=m.retain, ref=m.mid)

    client.on_message = message
    extra: dict[str, Any] = {}
    if five:
        properties = Properties(PacketTypes.CONNECT)
        properties.SessionExpiryInterval = 0 if c["clean"] else 3600
        extra = {"clean_start": c["clean"], "properties": properties}
    client.connect(host, port, 20, **extra)
    client.loop_start()
    return client


client: Any = None
for line in sys.stdin:
    c = json.loads(line)
    match c["do"]:
        case "connect":
            client = connect(c)
        case "subscribe":
            client.subscribe([(c["filter"], SubscribeOptions(qos=c["qos"]))] if five else [(c["filter"], c["qos"])])
        case "unsubscribe":
            client.unsubscribe(c["filter"])
        case "publish":
            client.publish(c["topic"], c["payload"], c["qos"])
        case "ack":
            client.ack(c["ref"], 1)
        case "disconnect":
            client.disconnect()
        case "drop":
            client.socket().shutdown(socket.SHUT_RDWR)
