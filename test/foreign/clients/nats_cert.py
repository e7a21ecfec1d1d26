"""Takes part as a NATS client with a certificate: nats_cert.py URL CERT KEY, for recipient unit-7 of app shop. It subscribes to a topic of its
own and to one of another unit, which must be refused, and answers one request with what came."""
import asyncio
import ssl
import sys

import nats


async def main(url: str, cert: str, key: str) -> None:
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE  # nats.go checks the server's
    tls.load_cert_chain(cert, key)
    refused: list[Exception] = []
    told = asyncio.Event()

    async def error(e: Exception) -> None:
        refused.append(e)
        told.set()

    nc = await nats.connect(url, tls=tls, allow_reconnect=False, error_cb=error)
    news = await nc.subscribe("godwit.shop.t.units.unit-7.>")
    questions = await nc.subscribe("godwit.shop.r.ask.unit-7")
    await nc.subscribe("godwit.shop.t.units.unit-8.>")
    await told.wait()  # the refusal of the last follows the others
    print("ready", flush=True)
    message = await news.next_msg(timeout=60)
    question = await questions.next_msg(timeout=60)
    await question.respond(message.data + b", refused: %d" % len(refused))
    await nc.drain()


asyncio.run(main(*sys.argv[1:]))
