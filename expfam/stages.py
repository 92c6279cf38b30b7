"""Stages of a long call: logged, and shown while they last if progress was asked for.

The logger is `logging.getLogger("expfam")`. With ``callbacks="progress"`` a terminal shows the stage and its
seconds; other streams, such as the log of a batch job, get a line every 30 seconds.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import contextmanager
from contextvars import ContextVar
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

LOG = logging.getLogger("expfam")
PROGRESS = "progress"  # the callback that shows what goes on, from the first stage to the last
LOG.addHandler(logging.NullHandler())
EVERY_SECONDS = 30.0  # between lines where there is no terminal
TIMED_ROWS = 50_000  # from this number of rows on, the time of a fit is forecast unasked
_ON_A_TERMINAL = 0.5
_FIRST, _LAST = "reading the rows", "finishing"  # what goes on before the first stage, and between later ones


class Watch:
    """Thread that shows the stage of a call, also while one line of Python runs for minutes.

    Parameters
    ----------
    file : text stream, optional
        By default standard error.
    """

    def __init__(self, file: IO[str] | None = None) -> None:
        self.file = sys.stderr if file is None else file
        self.is_terminal = is_terminal(self.file)
        self.name: str | None = _FIRST
        self.began = time.perf_counter()
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._has_line = False
        self._thread = threading.Thread(target=self._run, name="expfam-progress", daemon=True)
        self._thread.start()

    def _run(self):
        while not self._over.wait(_ON_A_TERMINAL if self.is_terminal else EVERY_SECONDS):
            self._show()

    def _show(self):
        with self._lock:
            if self.name is None:
                return
            seconds = time.perf_counter() - self.began
            if self.is_terminal:
                self._write(f"\r\x1b[K{self.name}: {seconds:.0f} s")
            else:
                self._write(f"expfam: {self.name}, {seconds:.0f} s so far\n")
            self._has_line = self.is_terminal

    def _write(self, text):
        try:
            self.file.write(text)
            self.file.flush()
        except (OSError, ValueError):  # the stream was closed: the call goes on
            self._over.set()

    def rename(self, name: str) -> None:
        """Change what is shown of a stage that goes on."""
        with self._lock:
            self.name = name

    def enter(self, name: str | None) -> None:
        """Begin a stage; None shows nothing, for stages whose bar is shown."""
        with self._lock:
            if self._has_line:
                self._write("\r\x1b[K")
            self.name, self.began, self._has_line = name, time.perf_counter(), False

    def tell(self, text: str) -> None:
        """Write a line."""
        self.enter(self.name)
        self._write(f"expfam: {text}\n")

    def close(self) -> None:
        """Show nothing any more."""
        self.enter(None)
        self._over.set()
        self._thread.join()


_WATCH: ContextVar[Watch | None] = ContextVar("expfam_watch", default=None)


def is_terminal(file: IO[str]) -> bool:
    """Return whether a stream is a terminal, on which a line can be written over."""
    try:
        return bool(file.isatty())
    except (AttributeError, ValueError):  # no stream of a file, or closed
        return False


def asked_callbacks(callbacks: Any) -> tuple[Any, ...]:
    """Return the entries of the setting `callbacks`: functions, or "progress".

    Raises
    ------
    ValueError
        For any other value.

    Examples
    --------
    >>> from expfam.stages import asked_callbacks
    >>> asked_callbacks("progress"), asked_callbacks(None)
    (('progress',), ())
    """
    if callbacks is None:
        return ()
    entries = (callbacks,) if isinstance(callbacks, str) else callbacks
    if not isinstance(entries, Iterable) or not all(callable(each) or each == PROGRESS for each in entries):
        raise ValueError(
            f"callbacks must be 'progress', or a list of functions callback(info, state); got {callbacks!r}: write"
            f" {'callbacks=[callback]' if callable(callbacks) else 'callbacks=' + repr(PROGRESS)}"
        )
    return tuple(entries)


def shows_progress(callbacks: Any) -> bool:
    """Return whether what goes on is shown.

    Examples
    --------
    >>> from expfam.stages import shows_progress
    >>> shows_progress("progress"), shows_progress([print]), shows_progress([print, "progress"])
    (True, False, True)
    """
    return any(isinstance(each, str) for each in asked_callbacks(callbacks))


@contextmanager
def watching(is_asked: object, file: IO[str] | None = None) -> Iterator[None]:
    """Show the stages of a call if `is_asked` is true and no call around it shows them.

    Examples
    --------
    >>> import sys
    >>> from expfam.stages import stage, tell, watching
    >>> with watching(True, sys.stdout):
    ...     with stage("searching a start"):
    ...         tell(lambda: "4 candidates")
    expfam: 4 candidates
    """
    if not is_asked or _WATCH.get() is not None:
        yield
        return
    watch = Watch(file)
    token = _WATCH.set(watch)
    try:
        yield
    finally:
        _WATCH.reset(token)
        watch.close()


@contextmanager
def stage(name: str) -> Iterator[None]:
    """Name what goes on; log how long it took.

    Parameters
    ----------
    name : str
    """
    watch, began = _WATCH.get(), time.perf_counter()
    if watch is not None:
        watch.enter(name)
    try:
        yield
    finally:
        if watch is not None:
            watch.enter(_LAST)
        LOG.info("%s: %.3g s", name, time.perf_counter() - began)


def give_way() -> None:
    """Leave the terminal to a bar, which shows the rest of the stage."""
    watch = _WATCH.get()
    if watch is not None and watch.name is not None:
        watch.enter(None)


def is_written(name: str) -> bool:
    """Rename a stage by how far it has come; return whether lines every 30 seconds show it.

    Such lines are written where a call shows its stages and there is no terminal.

    Parameters
    ----------
    name : str
        Of the stage from now on.
    """
    watch = _WATCH.get()
    if watch is None or watch.is_terminal:
        return False
    watch.rename(name)
    return True


def tell(text: Callable[[], str]) -> None:
    """Log a line, and show it if progress was asked for; otherwise it is not made.

    Parameters
    ----------
    text : callable
        Returns the line.
    """
    watch = _WATCH.get()
    if watch is None and not LOG.isEnabledFor(logging.INFO):
        return
    line = text()
    LOG.info("%s", line)
    if watch is not None:
        watch.tell(line)
