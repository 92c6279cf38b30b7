"""Callbacks after each step of a run: stop it, store it, show it, or collect numbers.

A callback is any callable of (info, state). A true result ends the run. At the end of a run `sample` calls the method
`close` of each callback that has one; the callback can then be used in another run.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from expfam.amounts import counted
from expfam.archive import read_archive, write_archive
from expfam.errors import ArchiveError
from expfam.stages import EVERY_SECONDS, give_way, is_terminal, is_written
from expfam.structures.ground.stored import restoring

if TYPE_CHECKING:
    from expfam.protocols import Callback, Info, State
    from expfam.samplers.chain.trace import Trace


def close_all(callbacks: Sequence[Callback]) -> None:
    """Close the callbacks that have a method `close`."""
    for callback in callbacks:
        if hasattr(callback, "close"):
            callback.close()


@contextmanager
def kept_open(callbacks: Sequence[Callback]) -> Iterator[list[_StayOpen]]:
    """Keep callbacks open over several runs; they are closed at the end of the block.

    It yields the wrapped callbacks. The attribute `has_stopped` of each tells whether it has asked to end a run.
    """
    try:
        yield [_StayOpen(callback) for callback in callbacks]
    finally:
        close_all(callbacks)


class _StayOpen:
    """Wrapper of a callback that the driver does not close."""

    def __init__(self, callback: Callback) -> None:
        self._callback, self.has_stopped = callback, False

    def __call__(self, info: Info, state: State) -> bool:
        stop = bool(self._callback(info, state))
        self.has_stopped |= stop
        return stop


def _chain_of(state):
    """Return the number of the chain of a state among those of a fit."""
    return getattr(state, "chain", 0)


class Stop:
    """Callback that ends a run after some time, or when the objective no longer changes.

    Parameters
    ----------
    max_seconds : float, optional
        Wall time since the first step began; it is checked after each step.
    tolerance : float, optional
        The objective has not changed in a step if |objective - previous| <= tolerance |objective|.
    patience : int
        Number of consecutive steps without a change after which the run ends.
    min_steps : int
        Number of steps before which the run never ends.

    Attributes
    ----------
    reason : str or None
        "time" or "tolerance" after the callback has ended a run.

    Examples
    --------
    >>> from expfam.protocols import Info
    >>> from expfam.samplers.chain.callbacks import Stop
    >>> stop = Stop(tolerance=1e-3, patience=2)
    >>> [stop(Info(t, value, 1, 1, 1, 0.0, {}), None) for t, value in enumerate([-9.0, -5.0, -5.001, -5.0])]
    [False, False, False, True]
    """

    _began: float | None
    _previous: dict[int, float]  # objective of the last step of each chain
    _n_settled: dict[int, int]
    _n_seen: dict[int, int]

    def __init__(
        self,
        *,
        max_seconds: float | None = None,
        tolerance: float | None = None,
        patience: int = 5,
        min_steps: int = 0,
    ) -> None:
        if max_seconds is None and tolerance is None:
            raise ValueError("Stop needs max_seconds, tolerance or both")
        for name, value in (("max_seconds", max_seconds), ("tolerance", tolerance)):
            if value is not None and not value >= 0:
                raise ValueError(f"{name} must be non-negative; got {value!r}")
        if patience != int(patience) or patience < 1:
            raise ValueError(f"patience must be an integer of at least 1; got {patience!r}")
        self.max_seconds, self.tolerance, self.patience, self.min_steps = max_seconds, tolerance, patience, min_steps
        self.reason: str | None = None
        self.close()

    def __call__(self, info: Info, state: Any) -> bool:
        """Return whether the run is to end after this step."""
        if self._began is None:
            self._began, self.reason = perf_counter() - info.seconds, None
        chain = _chain_of(state)
        settled = (
            chain in self._previous
            and self.tolerance is not None
            and abs(info.objective - self._previous[chain]) <= self.tolerance * abs(info.objective)
        )
        self._n_settled[chain] = self._n_settled.get(chain, 0) + 1 if settled else 0
        self._previous[chain] = info.objective
        self._n_seen[chain] = self._n_seen.get(chain, 0) + 1
        if min(self._n_seen.values()) < self.min_steps:
            return False
        if self.max_seconds is not None and perf_counter() - self._began >= self.max_seconds:
            self.reason = "time"
        elif min(self._n_settled.values()) >= self.patience:  # of several chains the last one to settle ends the run
            self.reason = "tolerance"
        return self.reason is not None

    def close(self) -> None:
        """Forget the run; `reason` stays until the next run begins."""
        self._began, self._previous, self._n_settled, self._n_seen = None, {}, {}, {}


class Checkpoint:
    """Callback that stores the state of a run, so that the run can be continued bit for bit.

    Parameters
    ----------
    path : path_like
        Directory of the archive. Each checkpoint replaces the one before, completely or not at all. Of a fit with
        several chains it is that of chain 0; the others have ``-chain1`` and so on after the name.
    every_seconds : float
        Wall time between checkpoints; 0 writes one after each step.
    trace : Trace, optional
        Trace to store with the state.

    Attributes
    ----------
    n_written : int
        Number of checkpoints that were written.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from expfam import DirichletProcess, MixtureModel, Poisson
    >>> from expfam.samplers import Checkpoint, CollapsedGibbs, sample
    >>> from expfam.samplers.chain.callbacks import restore_checkpoint
    >>> model, X, kernel = MixtureModel(Poisson(), DirichletProcess()), [[0], [1], [40]], CollapsedGibbs()
    >>> state = kernel.init(model, X, seed=0)
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = Path(directory, "run")
    ...     trace = sample(kernel, state, 5, callbacks=[Checkpoint(path, every_seconds=0)])
    ...     again = kernel.init(model, X, seed=0)
    ...     restore_checkpoint(path, again)
    >>> again.n_steps
    5

    Notes
    -----
    Nothing is written when the run ends, because after Ctrl-C the state may be in the middle of a step. Call
    ``write(state)`` after a run that ended by itself.
    """

    _last: dict[int, float]  # when the last checkpoint of each chain was written

    def __init__(self, path: Path | str, *, every_seconds: float = 600.0, trace: Trace | None = None) -> None:
        if not every_seconds >= 0:
            raise ValueError(f"every_seconds must be non-negative; got {every_seconds!r}")
        self.path, self.every_seconds, self.trace = path, every_seconds, trace
        self.n_written = 0
        self.close()

    def __call__(self, info: Info, state: Any) -> bool:
        """Write a checkpoint if one is due; never end the run."""
        last = self._last.setdefault(_chain_of(state), perf_counter() - info.seconds)
        if perf_counter() - last >= self.every_seconds:
            self.write(state)
            self._last[_chain_of(state)] = perf_counter()
        return False

    def write(self, state: Any) -> None:
        """Write a checkpoint of the present state."""
        arrays = {"state": state.to_arrays()}
        if self.trace is not None:
            arrays["trace"] = self.trace.to_arrays()
        header = {"seed": int(state.seed), "n_steps": int(state.n_steps), "state": type(state).__name__}
        header["n_rows"] = len(state.labels)
        chain = _chain_of(state)
        path = Path(f"{self.path}-chain{chain}") if chain else self.path
        write_archive(path, "checkpoint", header=header, arrays=arrays)
        self.n_written += 1

    def close(self) -> None:
        """Forget when the last checkpoint was written."""
        self._last = {}


def restore_checkpoint(path: Path | str, state: Any, *, trace: Trace | None = None) -> None:
    """Restore a state, and a trace if one is given, in place from a checkpoint.

    Objects that a kernel keeps itself, for example a proposal, are read at its next step, which raises the same error.

    Parameters
    ----------
    path : path-like
        Archive that a `Checkpoint` has written.
    state : State
        Made by the same kernel for the same model, data and seed. It is unchanged if an error is raised.
    trace : Trace, optional
        Its records are replaced by those of the checkpoint.

    Raises
    ------
    ArchiveError
        The archive is damaged, was altered or is not a checkpoint, or its type of state, its seed or its number of data
        differ.
    """
    header, arrays = read_archive(path, "checkpoint")
    missing = [name for name in ("state", "seed", "n_rows") if name not in header]
    if missing:
        raise ArchiveError(
            f"{path}: the header lacks {', '.join(missing)}; it was written by another version of expfam"
        )
    found = (header["state"], header["seed"], header["n_rows"])
    wanted = (type(state).__name__, int(state.seed), len(state.labels))
    if found != wanted:
        raise ArchiveError(
            f"{path}: is a checkpoint of {found[0]} with seed {found[1]} over {counted(found[2], 'datum', 'data')}; "
            f"the state to restore is {wanted[0]} with seed {wanted[1]} over {wanted[2]}: make it with the same "
            "kernel, seed and data"
        )
    if trace is not None and "trace" not in arrays:
        raise ArchiveError(f"{path}: was written without a trace; leave out trace=, or give one to Checkpoint")
    before = state.to_arrays()
    try:
        with restoring(path):
            state.from_arrays(arrays["state"])
            if trace is not None:
                trace.from_arrays(arrays["trace"])
    except ArchiveError:
        state.from_arrays(before)
        raise


class Progress:
    """Progress bar with the number of clusters, the objective and the speed.

    Where standard error is no terminal, such as in the log of a batch job, there is a line every 30 seconds instead.

    Parameters
    ----------
    n_steps : int, optional
        Total number of steps; without it the bar shows no estimate of the time left.
    **options
        Options of tqdm, for example ``file`` or ``disable``.

    Examples
    --------
    >>> import sys
    >>> from expfam import DirichletProcess, MixtureModel, Poisson
    >>> from expfam.samplers import CollapsedGibbs, Progress, sample
    >>> state = CollapsedGibbs().init(MixtureModel(Poisson(), DirichletProcess()), [[0], [40]], seed=0)
    >>> len(sample(CollapsedGibbs(), state, 3, callbacks=[Progress(3, file=sys.stderr)]))
    3
    """

    def __init__(self, n_steps: int | None = None, **options: Any) -> None:
        self.n_steps, self.options = n_steps, options
        self._bar: Any = None
        self._n_steps, self._next = 0, float("inf")

    def __call__(self, info: Info, state: Any) -> bool:
        """Move the bar by one step; never end the run."""
        if self._writes_lines():
            self._write_line(info)
            return False
        if self._bar is None:
            from tqdm.auto import tqdm

            give_way()
            self._bar = tqdm(**{"total": self.n_steps, "unit": "step", **self.options})
        rate = state.data.n_rows / info.seconds if info.seconds > 0 else np.inf
        # the text is set at each step; refresh=False leaves it to tqdm when to draw it
        self._bar.set_postfix_str(
            f"K={info.n_clusters}, objective={info.objective:.6g}, {rate:.3g} data/s", refresh=False
        )
        self._bar.update()
        return False

    def _writes_lines(self):
        """Return whether there is no terminal, no notebook and no file that a bar was asked for."""
        file = self.options.get("file") or sys.stderr
        is_asked = "file" in self.options and self.options.get("disable", False) is not None
        return not (is_asked or is_terminal(file) or "ipykernel" in sys.modules)

    def _write_line(self, info):
        """Write a line if the last one, or the first step, was long ago."""
        now = perf_counter()
        self._n_steps += 1
        self._next = min(self._next, now - info.seconds + EVERY_SECONDS)
        if self.options.get("disable"):
            return
        of = "" if self.n_steps is None else f" of {self.n_steps}"
        line = f"step {self._n_steps}{of}, K={info.n_clusters}, objective={info.objective:.6g}"
        if is_written(line) or now < self._next:
            return
        self._next = now + EVERY_SECONDS
        print(f"expfam: {line}", file=self.options.get("file") or sys.stderr, flush=True)

    def close(self) -> None:
        """Draw the bar a last time and close it."""
        self._n_steps, self._next = 0, float("inf")
        if self._bar is not None:
            self._bar.close()
            self._bar = None


class Collect:
    """Callback that collects values of functions of the state.

    Parameters
    ----------
    functions : dict of str to callable
        Each is called with the state. Its result is stored without a copy, so it must not be a view of an array that
        the run changes.
    every : int
        Number of steps from one collection to the next.

    Attributes
    ----------
    values : dict of str to list
        Collected values of each function.
    steps : list of int
        Number of the step of each entry.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> from expfam.protocols import Info
    >>> from expfam.samplers.chain.callbacks import Collect
    >>> collect = Collect({"largest": lambda state: int(max(state.counts))})
    >>> _ = collect(Info(1, 0.0, 2, 1, 1, 0.0, {}), SimpleNamespace(counts=[3, 4]))
    >>> collect.column("largest")
    array([4])
    """

    def __init__(self, functions: Mapping[str, Callable[[Any], Any]], *, every: int = 1) -> None:
        if every != int(every) or every < 1:
            raise ValueError(f"every must be an integer of at least 1; got {every!r}")
        self.functions, self.every = dict(functions), int(every)
        self.values: dict[str, list[Any]] = {name: [] for name in self.functions}
        self.steps: list[int] = []
        self._n_seen = 0

    def __call__(self, info: Info, state: Any) -> bool:
        """Collect values if this step is due; never end the run."""
        self._n_seen += 1
        if self._n_seen % self.every == 0:
            self.steps.append(info.step)
            for name, function in self.functions.items():
                self.values[name].append(function(state))
        return False

    def column(self, name: str) -> np.ndarray:
        """Return the values of one function as an array."""
        if name not in self.values:
            raise KeyError(f"no collected value is called {name!r}; there are {list(self.values)}")
        return np.array(self.values[name])


_LEAST_GAIN = 0.5  # nats


class Plateau:
    """Callback that ends a run when a window of steps has gained almost nothing.

    The log joint is compared, and nothing else but the numbers of accepted splits and merges. So the number of steps
    depends on data and seed only, not on threads or on the time that a step takes.

    Parameters
    ----------
    n_rows : int
        Number of rows that the steps move.
    window : int
        Number of steps of a window; at least two windows of steps are made.
    gain_per_row : float
        Gain of a window, nats a row, below which the run ends.

    Attributes
    ----------
    is_reached : bool
        Whether the rule has ended the run.

    Examples
    --------
    >>> from expfam.protocols import Info
    >>> from expfam.samplers.chain.callbacks import Plateau
    >>> plateau = Plateau(100, window=2)
    >>> [plateau(Info(t, objective, 3, 0, 0, 0.0, {}), None) for t, objective in enumerate([-9.0, -5.0, -4.9, -5.2])]
    [False, False, False, True]

    Notes
    -----
    The run ends if the largest log joint of the last window exceeds the largest one before it by less than 0.5 nats
    or `gain_per_row` for each row, whichever is more, and if no split or merge was accepted in the window.
    """

    def __init__(self, n_rows: int, *, window: int = 5, gain_per_row: float = 1e-4) -> None:
        self.least_gain, self.window = max(_LEAST_GAIN, gain_per_row * n_rows), window
        self.objectives: list[float] = []
        self.last_change, self.is_reached = 0, False  # number of steps up to the last accepted split or merge

    def __call__(self, info: Info, state: Any) -> bool:
        """Take note of a step; return whether the run ends."""
        self.objectives.append(info.objective)
        n, w = len(self.objectives), self.window
        if _cluster_moves(info):
            self.last_change = n
        if n >= 2 * w and n - self.last_change >= w:
            self.is_reached = max(self.objectives[-w:]) - max(self.objectives[:-w]) < self.least_gain
        return self.is_reached

    @property
    def is_level(self) -> bool:
        """Return whether the second half of the steps has gained almost nothing over the first one.

        On few rows splits and merges may be accepted in every window, and the rule ends no run, although the log joint
        has long ceased to rise.
        """
        half = len(self.objectives) // 2
        return half >= self.window and max(self.objectives[half:]) - max(self.objectives[:half]) < self.least_gain


def _cluster_moves(info):
    """Return how many splits and merges a step has accepted, also within compositions."""
    counts = info.extra
    accepted = counts.get("splits_accepted", 0) + counts.get("merges_accepted", 0)
    for part in counts.get("parts", ()):
        accepted += _cluster_moves(part)
    return accepted
