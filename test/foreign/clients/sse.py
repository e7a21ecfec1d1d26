"""Receives notifications with the sseclient package and acknowledges them over HTTP: sse.py BASE RECIPIENT COUNT."""
import json
import sys

import requests
import sseclient

base, recipient, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
who = {"app": "demo", "recipient": recipient}
with requests.get(base + "/v1/stream", params=who, stream=True, timeout=60) as response:
    response.raise_for_status()
    assert response.headers["Content-Type"].startswith("text/event-stream"), response.headers
    for event in sseclient.SSEClient(response).events():
        frame = {event.event: json.loads(event.data)}
        print(json.dumps(frame), flush=True)
        if event.event == "notification":
            assert event.id == str(frame["notification"]["seq"]), event.id
            ids = {"ids": [frame["notification"]["id"]]}
            acked = requests.post(base + "/v1/acks", params=who, json=ids, timeout=60)
            assert acked.status_code == 200 and acked.json() == {"acked": 1}, acked.text
            count -= 1
            if count == 0:
                break
