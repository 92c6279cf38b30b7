"""What may be done after each step of a run: stop it, store it, show it, collect numbers from it.

A callback is any callable of (info, state); a true result ends the run. `sample` closes those that have `close`,
after which they can serve another run.
"""

from contextlib import contextmanager
from time import perf_counter

import numpy as np

from expfam.archive import read_archive, write_archive
from expfam.errors import ArchiveError
from expfam.structures.ground.stored import restoring


def close_all(callbacks):
    """Close the callbacks that have a method `close`."""
    for callback in callbacks:
        if hasattr(callback, "close"):
            callback.close()


@contextmanager
def kept_open(callbacks):
    """The callbacks for several runs in a row: none of the runs closes them, the end of the block does.

    Yields
    ------
    list of callable
        Each has `has_stopped`: whether it has asked for the end.

    Examples
    --------
    >>> from expfam.samplers.chain.callbacks import Stop, kept_open
    >>> stop = Stop(max_seconds=0.0)
    >>> with kept_open([stop]) as (watched,):
    ...     hasattr(watched, "close"), watched.has_stopped
    (False, False)
    """
    try:
        yield [_StayOpen(callback) for callback in callbacks]
    finally:
        close_all(callbacks)


class _StayOpen:
    """A callback that the driver does not close, with whether it has asked for the end."""

    def __init__(self, callback):
        self._callback, self.has_stopped = callback, False

    def __call__(self, info, state):
        stop = bool(self._callback(info, state))
        self.has_stopped |= stop
        return stop


class Stop:
    """End a run by time, or when the objective has settled.

    Parameters
    ----------
    max_seconds : float, optional
        Wall time since the first step began; looked at after each step.
    tolerance : float, optional
        Settled means that |objective - previous| <= tolerance |objective| ...
    patience : int
        ... for so many steps in a row.
    min_steps : int
        Steps that are made in any case.

    Attributes
    ----------
    reason : str or None
        "time" or "tolerance" after it has ended a run.

    Examples
    --------
    >>> from expfam.protocols import Info
    >>> from expfam.samplers.chain.callbacks import Stop
    >>> stop = Stop(tolerance=1e-3, patience=2)
    >>> [stop(Info(t, value, 1, 1, 1, 0.0, {}), None) for t, value in enumerate([-9.0, -5.0, -5.001, -5.0])]
    [False, False, False, True]
    """

    def __init__(self, *, max_seconds=None, tolerance=None, patience=5, min_steps=0):
        if max_seconds is None and tolerance is None:
            raise ValueError("Stop needs max_seconds, tolerance or both")
        for name, value in (("max_seconds", max_seconds), ("tolerance", tolerance)):
            if value is not None and not value >= 0:
                raise ValueError(f"{name} must be non-negative; got {value!r}")
        if patience != int(patience) or patience < 1:
            raise ValueError(f"patience must be an integer of at least 1; got {patience!r}")
        self.max_seconds, self.tolerance, self.patience, self.min_steps = max_seconds, tolerance, patience, min_steps
        self.reason = None
        self.close()

    def __call__(self, info, state):
        """Whether the run is to end after this step."""
        if self._began is None:
            self._began, self.reason = perf_counter() - info.seconds, None
        settled = self._previous is not None and self.tolerance is not None
        settled = settled and abs(info.objective - self._previous) <= self.tolerance * abs(info.objective)
        self._n_settled = self._n_settled + 1 if settled else 0
        self._previous = info.objective
        self._n_seen += 1
        if self._n_seen < self.min_steps:
            return False
        if self.max_seconds is not None and perf_counter() - self._began >= self.max_seconds:
            self.reason = "time"
        elif self._n_settled >= self.patience:
            self.reason = "tolerance"
        return self.reason is not None

    def close(self):
        """Forget the run; `reason` stays until the next one begins."""
        self._began, self._previous, self._n_settled, self._n_seen = None, None, 0, 0


class Checkpoint:
    """Store the state of a run now and then, so that it can be gone on with, bit for bit.

    Parameters
    ----------
    path : path_like
        Directory of the archive; each checkpoint replaces the one before, whole or not at all.
    every_seconds : float
        Wall time between checkpoints; 0 writes after each step.
    trace : Trace, optional
        Stored with the state.

    Attributes
    ----------
    n_written : int

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
    Nothing is written when the run ends: after Ctrl-C the state may be in the middle of a step. Call
    ``write(state)`` after a run that ended by itself.
    """

    def __init__(self, path, *, every_seconds=600.0, trace=None):
        if not every_seconds >= 0:
            raise ValueError(f"every_seconds must be non-negative; got {every_seconds!r}")
        self.path, self.every_seconds, self.trace = path, every_seconds, trace
        self.n_written = 0
        self.close()

    def __call__(self, info, state):
        """Write a checkpoint if one is due; never ends the run."""
        if self._last is None:
            self._last = perf_counter() - info.seconds
        if perf_counter() - self._last >= self.every_seconds:
            self.write(state)
            self._last = perf_counter()
        return False

    def write(self, state):
        """Write a checkpoint of the state as it stands."""
        arrays = {"state": state.to_arrays()}
        if self.trace is not None:
            arrays["trace"] = self.trace.to_arrays()
        header = {"seed": int(state.seed), "n_steps": int(state.n_steps), "state": type(state).__name__}
        header["n_rows"] = len(state.labels)
        write_archive(self.path, "checkpoint", header=header, arrays=arrays)
        self.n_written += 1

    def close(self):
        """Begin anew to measure time."""
        self._last = None


def restore_checkpoint(path, state, *, trace=None):
    """Bring a state to where a checkpoint was written.

    Parameters
    ----------
    path : path_like
    state : State
        Made by the same kernel for the same model, data and seed; changed in place.
    trace : Trace, optional
        Changed in place to the one stored with the state.

    Raises
    ------
    ArchiveError
        The archive is damaged or was altered, or is not a checkpoint, or is of another kind of state, seed or number of
        data. The state is as it was before. What a kernel itself keeps, such as a proposal, is read at its next step,
        which raises the same error.
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
            f"{path}: is a checkpoint of {found[0]} with seed {found[1]} over {found[2]} data; the state to restore is"
            f" {wanted[0]} with seed {wanted[1]} over {wanted[2]}: make it with the same kernel, seed and data"
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

    Parameters
    ----------
    n_steps : int, optional
        Steps to come in all; without it there is no estimate of the time left.
    **options
        Passed to tqdm, such as ``file`` or ``disable``.

    Examples
    --------
    >>> import sys
    >>> from expfam import DirichletProcess, MixtureModel, Poisson
    >>> from expfam.samplers import CollapsedGibbs, Progress, sample
    >>> state = CollapsedGibbs().init(MixtureModel(Poisson(), DirichletProcess()), [[0], [40]], seed=0)
    >>> len(sample(CollapsedGibbs(), state, 3, callbacks=[Progress(3, file=sys.stderr)]))
    3
    """

    def __init__(self, n_steps=None, **options):
        self.n_steps, self.options, self._bar = n_steps, options, None

    def __call__(self, info, state):
        """Move the bar by one step; never ends the run."""
        if self._bar is None:
            from tqdm.auto import tqdm

            self._bar = tqdm(**{"total": self.n_steps, "unit": "step", **self.options})
        rate = state.data.n_rows / info.seconds if info.seconds > 0 else np.inf
        # the text is made at each step, the screen is written at tqdm's own pace
        self._bar.set_postfix_str(
            f"K={info.n_clusters}, objective={info.objective:.6g}, {rate:.3g} data/s", refresh=False
        )
        self._bar.update()
        return False

    def close(self):
        """Write the last state of the bar and leave it."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None


class Collect:
    """Values of functions of the state after each step.

    Parameters
    ----------
    functions : dict of str to callable
        Each takes the state; what it returns is stored as it is, so it must not be a view of what the run changes.
    every : int
        Collect after every so many steps.

    Attributes
    ----------
    values : dict of str to list
    steps : list of int
        Step of each entry.

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

    def __init__(self, functions, *, every=1):
        if every != int(every) or every < 1:
            raise ValueError(f"every must be an integer of at least 1; got {every!r}")
        self.functions, self.every = dict(functions), int(every)
        self.values, self.steps = {name: [] for name in self.functions}, []
        self._n_seen = 0

    def __call__(self, info, state):
        """Collect if this step is due; never ends the run."""
        self._n_seen += 1
        if self._n_seen % self.every == 0:
            self.steps.append(info.step)
            for name, function in self.functions.items():
                self.values[name].append(function(state))
        return False

    def column(self, name):
        """Values of one function as an array."""
        if name not in self.values:
            raise KeyError(f"nothing is collected as {name!r}; there are {list(self.values)}")
        return np.array(self.values[name])
