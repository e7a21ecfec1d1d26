"""Receives notifications with the websockets package and acknowledges them: ws.py URL RECIPIENT COUNT."""
import asyncio
import json
import sys

import websockets


async def main(url: str, recipient: str, count: int) -> None:
    async with websockets.connect(url, subprotocols=["godwit.v1.json"], ping_interval=1) as ws:
        assert ws.subprotocol == "godwit.v1.json", ws.subprotocol
        await ws.send(json.dumps({"hello": {"app": "demo", "recipient": recipient}}))
        while count > 0:
            frame = json.loads(await ws.recv())
            print(json.dumps(frame), flush=True)
            if "notification" in frame:
                # In two fragments: a client may do that.
                text = json.dumps({"ack": {"ids": [frame["notification"]["id"]]}})
                await ws.send([text[:9], text[9:]])
                count -= 1
        pong = await ws.ping()
        await pong


asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
