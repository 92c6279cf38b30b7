"""A run that is kept in a folder: a fit that was ended goes on from there, bit for bit.

A fit is a line of parts: the search for a start, and runs of steps one after the other. All that lies between them
follows from data and settings. So the folder holds what each part has left, and of the part that was under way the
last snapshot of state, trace and callbacks. A later fit of the same data and settings passes through the same line, and
reads what is there instead of working it out.
"""

from __future__ import annotations

import hashlib
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from expfam.amounts import counted
from expfam.archive import is_archive, read_archive, write_archive
from expfam.errors import ArchiveError, CapabilityError
from expfam.samplers.chain.callbacks import Checkpoint, close_all
from expfam.samplers.states.storage import model_arrays, with_model_arrays
from expfam.structures.ground.stored import restoring

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from expfam.model.data import Dataset
    from expfam.samplers.chain.trace import Trace

_EVERY_SECONDS = 60.0
_LEAST_SHARE = 20.0  # seconds of steps for each second of writing, where nobody has said how often
_DIGESTS = ("data", "start", "graph")  # facts that are kept as digests
_KIND, _PART = "run", "run_part"
_RUN: ContextVar[KeptRun | None] = ContextVar("expfam_kept_run", default=None)
_SEED: ContextVar[int | None] = ContextVar("expfam_seed_of_run", default=None)


class KeptRun:
    """The folder of a run, and how far the present fit has come in it.

    Parameters
    ----------
    path : Path
    every_seconds : float
        Least time between two snapshots.
    least_share : float
        Least time between two snapshots, in seconds for each second that writing one takes.
    """

    def __init__(self, path: Path, every_seconds: float, least_share: float) -> None:
        self.path, self.every_seconds, self.least_share, self._n_parts = path, every_seconds, least_share, 0

    def next_part(self) -> Path:
        """Return the path of the next part of the run; parts are numbered."""
        self._n_parts += 1
        return self.path / f"part{self._n_parts}"

    def begin(self, facts: Mapping[str, str], seed: int) -> None:
        """Take note of what is fitted; refuse the run of other data or settings.

        Raises
        ------
        ArchiveError
            The folder holds the run of another fit, or something else.
        """
        header = {"facts": dict(facts), "seed": int(seed)}
        about = self.path / "about"
        if not is_archive(about, _KIND):
            if self.path.exists() and not (self.path.is_dir() and not any(self.path.iterdir())):
                raise ArchiveError(f"{self.path}: holds other files and no run: give a new name, as resume='new'")
            self.path.mkdir(parents=True, exist_ok=True)
            write_archive(about, _KIND, header=header, arrays={})
            return
        found = read_archive(about, _KIND)[0]
        known = found.get("facts", {}) | {"seed": found.get("seed")}
        wanted = {**facts, "seed": int(seed)}
        other = [name for name in wanted if known.get(name) != wanted[name]]
        if other:
            name = other[0]
            raise ArchiveError(
                f"{self.path}: is the run of another fit: {_difference(name, known.get(name), wanted[name])}: give the"
                " same data and settings to go on with it, or another name"
            )


def _difference(name, known, wanted):
    """Return in words what differs: sums of bytes have no meaning for a reader."""
    if name in _DIGESTS:
        return f"its {name} differs from that of this fit"
    return f"its {name} is {known}, that of this fit is {wanted}"


def seed_of_run(resume: Any) -> int | None:
    """Return the seed of the run that is kept there, None where there is none.

    Parameters
    ----------
    resume : path_like, Checkpoint or None
        As of `Mixture.fit`.

    Examples
    --------
    >>> from expfam.fitting.kept_run import seed_of_run
    >>> seed_of_run("no such run") is None
    True
    """
    if resume is None:
        return None
    about = Path(resume.path if isinstance(resume, Checkpoint) else resume) / "about"
    return int(read_archive(about, _KIND)[0]["seed"]) if is_archive(about, _KIND) else None


@contextmanager
def taking_seed(resume: Any) -> Iterator[None]:
    """Let a fit without a seed of its own take that of the run it goes on with."""
    token = _SEED.set(seed_of_run(resume))
    try:
        yield
    finally:
        _SEED.reset(token)


def taken_seed() -> int | None:
    """Return the seed of the run that the present fit goes on with, if there is one."""
    return _SEED.get()


@contextmanager
def keeping(resume: Any, data: Dataset, facts: Mapping[str, str], seed: int) -> Iterator[None]:
    """Keep the run of this block in a folder, or go on with the one that is kept there.

    Parameters
    ----------
    resume : path_like, Checkpoint or None
        The folder, on request with the seconds between two snapshots; None keeps nothing.
    data : Dataset
    facts : dict of str to str
        Settings on which the result depends.
    seed : int
    """
    if resume is None:
        yield
        return
    is_named = isinstance(resume, Checkpoint)
    options = (resume.every_seconds, 0.0) if is_named else (_EVERY_SECONDS, _LEAST_SHARE)
    run = KeptRun(Path(resume.path if is_named else resume), *options)
    run.begin({**facts, "data": digest_of(data)}, seed)
    token = _RUN.set(run)
    try:
        yield
    finally:
        _RUN.reset(token)


@contextmanager
def not_keeping() -> Iterator[None]:
    """Let a trial, such as one that measures time, leave the kept run of the fit alone."""
    token = _RUN.set(None)
    try:
        yield
    finally:
        _RUN.reset(token)


def digest_of(data: Dataset) -> str:
    """Return a text that tells these rows from others: their values, weights, groups and links.

    Examples
    --------
    >>> from expfam import Dataset, Poisson
    >>> from expfam.fitting.kept_run import digest_of
    >>> digest_of(Dataset([[1], [2]], Poisson())) == digest_of(Dataset([[1], [3]], Poisson()))
    False
    """
    digest = hashlib.blake2b(digest_size=16)
    known = data.known
    parts = [data.X, data.weight, None if data.groups is None else data.groups.of_row]
    parts += [None, None] if known is None else [known.classes, known.groups]
    for part in parts:
        arrays = (part.indptr, part.indices, part.data) if sparse.issparse(part) else (part,)
        for array in arrays:
            if array is None or isinstance(array, (list, tuple, int)):
                digest.update(repr(array).encode())
                continue
            array = np.asarray(array)
            digest.update(f"{array.dtype.str}{array.shape}".encode())
            for start in range(0, len(array), 1 << 16):
                digest.update(np.ascontiguousarray(array[start : start + (1 << 16)]).tobytes())
    return digest.hexdigest()


def refuse_chains(resume: Any, n_chains: int, owner: str) -> None:
    """Refuse to keep the run of several chains."""
    if resume is not None and n_chains > 1:
        raise CapabilityError(
            f"{owner}: a run of {counted(n_chains, 'chain')} is not kept: write"
            f" {owner}(n_chains=1).fit(X, resume={str(resume)!r})"
        )


# ---- parts -----------------------------------------------------------------------------------------------------------


def kept_value(make: Callable[[], Any], pack: Callable[[Any], dict], unpack: Callable[[dict], Any]) -> Any:
    """Return the result of `make`, or the one that the kept run has stored.

    Parameters
    ----------
    make : callable
        Works the value out.
    pack, unpack : callable
        Turn the value into a dict of arrays, and back.
    """
    run = _RUN.get()
    if run is None:
        return make()
    place = run.next_part()
    if is_archive(place, _PART):
        with restoring(place):
            return unpack(read_archive(place, _PART)[1])
    value = make()
    write_archive(place, _PART, header={}, arrays=pack(value))
    return value


def kept_model(model: Any) -> dict[str, Any]:
    """Return the hyper-parameters of a model as arrays, for `kept_value`."""
    return model_arrays(model)


def restored_model(model: Any, arrays: dict[str, Any]) -> Any:
    """Return the model with hyper-parameters from `kept_model`."""
    return with_model_arrays(model, arrays)


class KeptSteps:
    """Steps of a run of phases, with snapshots of state, trace and callbacks.

    Parameters
    ----------
    run : KeptRun
    state : State
    trace : Trace
    watchers : sequence of object
        Callbacks and rules whose attributes, plain values and arrays, are part of a snapshot.
    """

    def __init__(self, run: KeptRun, state: Any, trace: Trace, watchers: Sequence[Any]) -> None:
        self.run, self.state, self.trace, self.watchers = run, state, trace, list(watchers)
        self.place = run.next_part()
        self.phase, self.n_made, self.was_over, self.has_ended = 0, 0, False, False
        self._inner: Sequence[Any] = ()
        self._entry: dict[str, Any] = {}
        self._last, self._cost = perf_counter(), 0.0
        self._stored = read_archive(self.place, _PART) if is_archive(self.place, _PART) else None
        if self._stored is not None:
            header = self._stored[0]
            self.phase, self.n_made = int(header["phase"]), int(header["n_made"])
            self.was_over, self.has_ended = bool(header["is_over"]), bool(header["has_ended"])
            self._restore(self._stored[1]["entry"])

    def enter(self, phase: int) -> None:
        """Take note of the state before a phase begins."""
        if self._stored is None:
            self.phase, self.n_made, self.has_ended = phase, 0, False
            self._entry = _copied(self._arrays())
        else:
            self._entry = self._stored[1]["entry"]

    def go_on(self) -> int:
        """Return how many steps of the present phase were made, after restoring what they have left."""
        if self._stored is not None:
            self._restore(self._stored[1]["now"])
            self._stored = None
        return self.n_made

    def watch(self, callbacks: Sequence[Any]) -> list[Any]:
        """Return one callback that calls all of these, and then takes a snapshot if one is due."""
        self._inner = callbacks
        return [self]

    def __call__(self, info: Any, state: Any) -> bool:
        """Call all callbacks; write a snapshot if one is due."""
        answers = [bool(callback(info, state)) for callback in self._inner]  # all are called, also after one has asked
        self.has_ended = any(answers)
        self.n_made += 1
        if perf_counter() - self._last >= max(self.run.every_seconds, self.run.least_share * self._cost):
            self.write()
        return self.has_ended

    def close(self) -> None:
        """Close the callbacks."""
        close_all(self._inner)

    def finish(self) -> None:
        """Write what the last step has left, where it is not there already."""
        if not self.was_over:
            self.write(is_over=True)

    def write(self, *, is_over: bool = False) -> None:
        """Write a snapshot, which replaces the one before completely or not at all."""
        began = perf_counter()
        header: dict[str, Any] = {
            "phase": self.phase,
            "n_made": self.n_made,
            "is_over": is_over,
            "has_ended": self.has_ended,
        }
        header |= {"state": type(self.state).__name__}
        write_archive(self.place, _PART, header=header, arrays={"entry": self._entry, "now": self._arrays()})
        self._last = perf_counter()
        self._cost = self._last - began

    def _arrays(self):
        watchers = {str(place): packed(vars(watcher)) for place, watcher in enumerate(self.watchers)}
        return {"state": self.state.to_arrays(), "trace": self.trace.to_arrays(), "watchers": watchers}

    def _restore(self, arrays):
        header = self._stored[0]
        if header.get("state") != type(self.state).__name__ or len(arrays.get("watchers", {})) != len(self.watchers):
            raise ArchiveError(f"{self.place}: holds other steps; it was written by another version of expfam")
        with restoring(self.place):
            self.state.from_arrays(_copied(arrays["state"]))  # a state takes arrays over, and changes them
            self.trace.from_arrays(arrays["trace"])
            for place, watcher in enumerate(self.watchers):
                vars(watcher).update(unpacked(arrays["watchers"][str(place)]))


def kept_steps(state: Any, trace: Trace, watchers: Sequence[Any]) -> KeptSteps | None:
    """Return what keeps the steps of a run of phases, None where no run is kept.

    Parameters
    ----------
    state : State
    trace : Trace
    watchers : sequence of callable
        Callbacks whose arrays are stored with the state.
    """
    run = _RUN.get()
    return None if run is None else KeptSteps(run, state, trace, watchers)


# ---- values of callbacks as arrays -----------------------------------------------------------------------------------


def packed(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the plain values and arrays of a dict as arrays; other objects are left out.

    Examples
    --------
    >>> from expfam.fitting.kept_run import packed, unpacked
    >>> unpacked(packed({"best": None, "seen": [1.5, 2.0], "n": 3, "rule": print}))
    {'best': None, 'seen': [1.5, 2.0], 'n': 3}
    """
    found = {name: _packed(value) for name, value in values.items()}
    return {name: value for name, value in found.items() if value is not None}


def unpacked(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Return what `packed` has packed."""
    return {name: _unpacked(value) for name, value in arrays.items()}


def _packed(value):
    if value is None:
        return {"none": np.zeros(0)}
    for kind in (bool, int, float):  # a truth value is an int too, and a float64 a float
        if isinstance(value, kind):
            return {kind.__name__: np.array(value)}
    if isinstance(value, (np.bool_, np.integer, np.floating)):
        return {"array": np.array(value)}
    if isinstance(value, np.ndarray) or sparse.issparse(value):
        return {"array": value}
    if isinstance(value, (list, tuple)):
        if type(value) is list and value and all(isinstance(item, float) for item in value):
            return {"floats": np.array(value)}
        items = [_packed(item) for item in value]
        if any(item is None for item in items):
            return None
        return {type(value).__name__: {"length": np.array(len(items)), **{f"i{n}": i for n, i in enumerate(items)}}}
    return None


def _unpacked(found):
    ((kind, value),) = found.items()
    if kind == "none":
        return None
    if kind in ("bool", "int", "float"):
        return {"bool": bool, "int": int, "float": float}[kind](value)
    if kind == "floats":
        return value.tolist()
    if kind in ("list", "tuple"):
        items = [_unpacked(value[f"i{n}"]) for n in range(int(value["length"]))]
        return items if kind == "list" else tuple(items)
    return value if sparse.issparse(value) else np.array(value)


def _copied(arrays):
    """Return nested dicts with copies of their arrays: a state may hand out its own."""
    return {name: _copied(value) if isinstance(value, dict) else value.copy() for name, value in arrays.items()}
