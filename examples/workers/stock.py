"""The stock: a worker with nats-py. GET /gw/stock/ asks it stock.get; the orders worker asks warehouse.take.

Nothing opens service "warehouse" to the page, so only workers and back ends get through to it.
"""

import asyncio
import json
import os
import signal

import nats
from nats.aio.msg import Msg

APP = "godwit.demo."  # whose topics and requests these are
JSON = {"Content-Type": "application/json"}

stock = {"coffee": 20, "tea": 3, "cake": 8}


async def main() -> None:
    """Serve until asked to end."""
    url, key = os.environ["NATS_URL"], os.environ["GODWIT_API_KEY"]
    nc = await nats.connect(url, token=key, name="stock", max_reconnect_attempts=-1)

    async def answer(request: Msg, data: bytes, status: int = 200) -> None:
        kind = JSON if status == 200 else {"Content-Type": "text/plain"}
        await nc.publish(request.reply, data, headers={"Godwit-Status": str(status), **kind})

    async def show(request: Msg) -> None:
        await answer(request, json.dumps(stock).encode())

    async def take(request: Msg) -> None:
        item = request.subject.rsplit(".", 1)[1]
        if not request.data.isdigit():
            await answer(request, b"send how many to take", 400)
            return
        count = int(request.data)
        if stock.get(item, 0) < count:
            await answer(request, f"not enough {item}: {stock.get(item, 0)} left".encode(), 409)
            return
        stock[item] -= count
        await answer(request, json.dumps({item: stock[item]}).encode())
        await nc.publish(APP + "t.shop.stock", json.dumps({"item": item, "left": stock[item]}).encode(), headers=JSON)

    # Of several of us, one gets each request: they are one queue. (Then the numbers would have to live elsewhere.)
    await nc.subscribe(APP + "r.stock.get", queue="stock", cb=show)
    await nc.subscribe(APP + "r.warehouse.take.*", queue="stock", cb=take)
    for _ in range(2):  # nats-py's ping overtakes subscriptions that wait to be sent; the second one follows them
        await nc.flush()
    print("serving stock.get, warehouse.take.*", flush=True)
    end = asyncio.Event()
    for sign in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(sign, end.set)
    await end.wait()
    await nc.drain()


asyncio.run(main())
