"""A time limit for trackers: their calls run in a thread, which is left behind where it takes too long."""

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from concurrent.futures import thread as pools
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeVar

from nzc.tracking.base import Tracker, Unreachable

T = TypeVar("T")
#: Seconds that Ctrl-C leaves to a call to end in good order.
_GRACE = 5.0


class TimeLimited(Tracker):
    """A tracker that is waited for at most `limit` seconds for `connect` and `start` together, and again for `finish`.

    Learning curves are sent meanwhile, without waiting. A limit for each request would not do: a server may answer one
    byte a second, and its client may try again.

    each_answer  whether the limit begins anew with every answer that the tracker gets (`Tracker.heard`)
    """

    def __init__(self, tracker: Tracker, limit: float, each_answer: bool = False) -> None:
        self.tracker, self.limit, self.each_answer, self.private = tracker, limit, each_answer, tracker.private
        self._left = limit  # for connect and start
        self._calls: SimpleQueue[Callable[[], None] | None] | None = None  # of the thread, one after another
        self._curves: deque[tuple[float, Future[None]]] = deque()  # points that are being sent, and since when

    def connect(self) -> None:
        self._opened(self._begin(self.tracker.connect))

    def start(
        self,
        experiment: str,
        name: str,
        params: Mapping[str, Any],
        parent: str | None,
        begun: int,
        key: str,
        question: str = "",
    ) -> str:
        opening = self._begin(partial(self.tracker.start, experiment, name, params, parent, begun, key, question))
        try:
            return self._opened(opening)
        except KeyboardInterrupt:
            if opening.done() and not opening.exception():  # nobody else knows the run yet
                wait([self._begin(partial(self.tracker.finish, opening.result(), Path(), "KILLED"))], _GRACE)
            raise

    def log_metrics(self, run: str, values: Mapping[str, float], step: int) -> None:
        while self._curves and self._curves[0][1].done():
            self._curves.popleft()[1].result()
        if self._curves and time.monotonic() - self._curves[0][0] > self.limit:
            raise self._too_long()
        self._curves.append((time.monotonic(), self._begin(partial(self.tracker.log_metrics, run, values, step))))

    def finish(self, run: str, folder: Path, status: str = "FINISHED", ended: int | None = None) -> None:
        try:
            self._answer(self._begin(partial(self.tracker.finish, run, folder, status, ended)), self.limit)
        finally:
            if self._calls is not None:
                self._calls.put(None)
            self._calls = None

    def _opened(self, call: Future[T]) -> T:
        """Return the answer of `connect` or `start`, which share one limit."""
        begun = time.monotonic()
        try:
            return self._answer(call, self.limit if self.each_answer else self._left)
        finally:
            self._left -= time.monotonic() - begun

    def _answer(self, call: Future[T], limit: float) -> T:
        """Return the answer of a call. Unreachable: there is none within `limit` seconds."""
        since = time.monotonic()
        try:
            while not wait([call], max(0.0, since + limit - time.monotonic())).done:
                if not self.each_answer or self.tracker.heard <= since:
                    call.cancel()  # it may be waiting for those before it
                    threading._register_atexit(pools._threads_queues.clear)  # type: ignore[attr-defined]  # see _work
                    raise self._too_long()
                since = self.tracker.heard
        except KeyboardInterrupt:
            wait([call], _GRACE)
            raise
        return call.result()

    def _too_long(self) -> Unreachable:
        where = getattr(self.tracker, "uri", None)
        what = "the tracker" if where is None else f"tracking.uri={where}"
        return Unreachable(f"{what} took more than {self.limit:g} s (wait={self.limit:g})")

    def _begin(self, call: Callable[[], T]) -> Future[T]:
        """Let the thread make a call, after those before it."""
        answer: Future[T] = Future()
        if self._calls is None:
            self._calls = SimpleQueue()
            threading.Thread(target=_work, args=(self._calls,), daemon=True).start()
        self._calls.put(partial(_make, call, answer))
        return answer


def _work(calls: "SimpleQueue[Callable[[], None] | None]") -> None:
    """Make calls until there is a None.

    Python does not wait for this thread when it ends, nor for threads that begin in it, because they are daemons too.
    Only for those of a ThreadPoolExecutor it would wait: they are taken off its list.
    """
    while (call := calls.get()) is not None:
        call()


def _make(call: Callable[[], T], answer: Future[T]) -> None:
    if answer.set_running_or_notify_cancel():
        try:
            answer.set_result(call())
        except BaseException as error:  # also KeyboardInterrupt, for whoever waits
            answer.set_exception(error)
