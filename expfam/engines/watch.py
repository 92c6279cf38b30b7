"""Watch over the time that orders take: a worker that does not answer is named in a warning."""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Iterable
from statistics import median

from expfam.user_warnings import warn

LEAST_SECONDS = 10.0  # no order is called slow before
TIMES_THE_MEDIAN = 10.0
_LEAST_ORDERS = 3  # of a kind, before one is compared with them


class Watch:
    """Times of the orders of a run by their kind, and a warning where one takes much longer.

    A worker that is stopped, or whose machine is overloaded, does not die, so its parts are not given to another one.
    The run waits, and goes on when the worker does.

    Examples
    --------
    >>> from expfam.engines.watch import Watch
    >>> watch = Watch("end it, so that others take its rows")
    >>> watch.begin("redraw")
    >>> watch.look(["worker 3"])          # nothing is said of an order that has just begun
    >>> watch.end()
    """

    def __init__(self, way_on: str) -> None:
        self.way_on = way_on
        self._times: defaultdict[str, deque[float]] = defaultdict(lambda: deque(maxlen=64))
        self._kind, self._begun, self._named = "", 0.0, set()  # type: str, float, set[str]

    def begin(self, kind: str) -> None:
        """Note that an order of some kind is given."""
        self._kind, self._begun, self._named = kind, time.monotonic(), set()

    def look(self, workers: Iterable[str]) -> None:
        """Warn once of each worker that has not answered for long."""
        times, elapsed = self._times[self._kind], time.monotonic() - self._begun
        if len(times) < _LEAST_ORDERS or elapsed < max(LEAST_SECONDS, TIMES_THE_MEDIAN * median(times)):
            return
        for worker in sorted(set(workers) - self._named):
            self._named.add(worker)
            warn(
                f"the run has waited {elapsed:.0f} seconds for {worker}, where such an order takes {median(times):.2g}:"
                f" it goes on when that answers; {self.way_on}"
            )

    def end(self) -> None:
        """Note that all workers have answered."""
        self._times[self._kind].append(time.monotonic() - self._begun)
