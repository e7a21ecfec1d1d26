"""Takes part as a NATS client: nats_client.py URL TOKEN. It is a member of queue workers on topic jobs and prints what it
gets, answers requests to py.>, and ends with topic end."""
import asyncio
import sys

import nats


async def main(url: str, token: str) -> None:
    end = asyncio.Event()
    nc = await nats.connect(url, token=token, allow_reconnect=False)

    async def job(msg: nats.aio.msg.Msg) -> None:
        print(msg.data.decode(), flush=True)

    async def answer(msg: nats.aio.msg.Msg) -> None:
        reply = nats.aio.msg.Msg(nc, subject=msg.reply, data=msg.data[::-1], headers={"Godwit-Status": "201"})
        await nc.publish(reply.subject, reply.data, headers=reply.headers)

    async def ended(_: nats.aio.msg.Msg) -> None:
        end.set()

    await nc.subscribe("godwit.demo.t.jobs", queue="workers", cb=job)
    await nc.subscribe("godwit.demo.r.py.>", queue="py", cb=answer)
    await nc.subscribe("godwit.demo.t.end", cb=ended)
    for _ in range(2):  # nats-py's ping overtakes subscriptions that wait to be sent; the second one follows them
        await nc.flush()
    print("ready", flush=True)
    await end.wait()
    await nc.publish("godwit.demo.t.bye", b"from Python")
    await nc.drain()


asyncio.run(main(sys.argv[1], sys.argv[2]))
