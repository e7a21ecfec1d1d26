"""An event loop in a thread of its own, for programs that have none."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from typing import Any, TypeVar

__all__ = ["Portal"]

T = TypeVar("T")


class Portal:
    """Runs coroutines for other threads. The thread starts with the first and ends with `close`."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    def submit(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Start a coroutine and return its future."""
        try:
            loop = self._running()
        except RuntimeError:
            work.close()
            raise
        return asyncio.run_coroutine_threadsafe(work, loop)

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine and return what it returns. Interrupting the wait cancels it."""
        if threading.current_thread() is self._thread:
            work.close()
            raise RuntimeError("the blocking client was called from its own thread, which would wait for itself")
        future = self.submit(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def iterate(self, items: AsyncGenerator[T, None]) -> Iterator[T]:
        """Go through what an asynchronous generator yields."""
        try:
            while True:
                try:
                    item = self.call(_next(items))
                except StopAsyncIteration:
                    return
                yield item
        finally:
            if not self._closed:
                self.call(items.aclose())

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._closed:
                raise RuntimeError(f"{self._name} is closed")
            if self._loop is None:
                started: concurrent.futures.Future[asyncio.AbstractEventLoop] = concurrent.futures.Future()
                self._thread = threading.Thread(target=self._run, args=(started,), name=self._name, daemon=True)
                self._thread.start()
                self._loop = started.result()
            return self._loop

    def _run(self, started: concurrent.futures.Future[asyncio.AbstractEventLoop]) -> None:
        with asyncio.Runner() as runner:
            runner.run(self._serve(started))

    async def _serve(self, started: concurrent.futures.Future[asyncio.AbstractEventLoop]) -> None:
        self._end = asyncio.Event()
        started.set_result(asyncio.get_running_loop())
        await self._end.wait()

    def close(self, last: Callable[[], Coroutine[Any, Any, None]] | None = None) -> None:
        """Run the last coroutine, end the thread and wait for it. What still runs on it is cancelled."""
        with self._lock:
            closed, self._closed = self._closed, True
            loop, thread = self._loop, self._thread
        if closed or loop is None or thread is None:
            return
        if last is not None:
            asyncio.run_coroutine_threadsafe(last(), loop).result()
        loop.call_soon_threadsafe(self._end.set)
        thread.join()


async def _next(items: AsyncGenerator[T, None]) -> T:
    return await anext(items)
