"""What a kernel is: frozen settings with `init`, which makes a state, and `step`, which moves it; and two compositions.

A step leaves the model's posterior invariant unless the kernel says otherwise. Kernels hold nothing of a run: all that
changes lives in the state, so one kernel may drive many chains.
"""

from contextlib import contextmanager
from time import perf_counter
from typing import Any

import numpy as np

from expfam.errors import CapabilityError
from expfam.model.data import Dataset
from expfam.params import Settings
from expfam.protocols import Info
from expfam.samplers.starts.rules import default_n_clusters, starting_labels
from expfam.structures.ground.rng import generator, resolve_seed


class Kernel(Settings):
    """Base of the kernels: settings as constructor keywords, stored unchanged.

    Subclasses set `state_type` and write `init_state(model, data, labels, *, seed)`, `move(state)` and, where they need
    abilities of family or weights, `check(model, data)`.

    Examples
    --------
    >>> from expfam.samplers import CollapsedGibbs, CollapsedState, Kernel
    >>> class TwoSweeps(Kernel):
    ...     state_type = CollapsedState
    ...     def init_state(self, model, data, labels, *, seed):
    ...         return CollapsedState(model, data, labels, seed=seed)
    ...     def move(self, state):
    ...         first, second = CollapsedGibbs().step(state), CollapsedGibbs().step(state)
    ...         return first.proposed + second.proposed, first.accepted + second.accepted, {}
    >>> from expfam import DirichletProcess, MixtureModel, Poisson
    >>> kernel = TwoSweeps()
    >>> state = kernel.init(MixtureModel(Poisson(), DirichletProcess()), [[0], [1], [40]], seed=0)
    >>> kernel.step(state).proposed
    6
    """

    state_type: Any = None

    def check(self, model, data):
        """Raise a CapabilityError naming kernel, missing ability and family, before any work."""

    def init(self, model, data, *, seed=None, start="auto", n_clusters=None):
        """First state of a chain.

        Parameters
        ----------
        model : MixtureModel
            Bound to the data here if it is not yet.
        data : Dataset or array_like
        seed : None, int, numpy Generator or RandomState
            Resolved to 64 bits once.
        start : str or (N,) array_like of int
            Name of a start, or labels.
        n_clusters : int, optional
            Clusters to start with, where the start draws them.

        Returns
        -------
        State
        """
        model, data, seed, labels = self.prepare(model, data, seed=seed, start=start, n_clusters=n_clusters)
        return self.init_state(model, data, labels, seed=seed)

    def prepare(self, model, data, *, seed, start, n_clusters=None, check=None):
        """What a first state is made of: bound model, Dataset, seed of 64 bits and checked starting labels."""
        if not isinstance(data, Dataset):
            data = Dataset(data, model.family)
            model = model.with_family(data.family)
        model = model.bind(data)
        (check or self.check)(model, data)
        if not self.takes_weight and data.weight is not None and (data.weight != 1.0).any():
            others = "'variational'" if self.takes_groups else "'variational' or 'em'"
            raise CapabilityError(
                f"{type(self).__name__} cannot use sample_weight: a collapsed sampler would tie the copies of a row"
                f" together; repeat the rows instead, or use sampler={others}"
            )
        if data.groups is not None and not self.takes_groups:
            raise CapabilityError(
                f"{type(self).__name__} has weights that all rows share and cannot use groups: use GroupedGibbs or"
                " GroupedVariational, or a Dataset without groups"
            )
        seed = resolve_seed(seed)
        if n_clusters is None and (limit := self.max_clusters(model)) is not None:
            n_clusters = min(limit, default_n_clusters(model, data.n_rows))
        return model, data, seed, self.first_labels(start, model, data, seed, n_clusters)

    def first_labels(self, start, model, data, seed, n_clusters):
        """Labels that a start stands for; kernels over other things than labels of rows have their own."""
        n_threads = getattr(self, "n_threads", None)
        return starting_labels(start, model, data, seed=seed, n_clusters=n_clusters, n_threads=n_threads)

    def sample_start(self, start, data, rows):
        """The start of a sample of the rows: on them it takes the share of the time that it takes on all.

        Parameters
        ----------
        start : str or (N,) array_like of int
            Of all data, as of `init`.
        data : Dataset
            All of them.
        rows : (n,) int64 ndarray or slice
            Those of the sample.

        Returns
        -------
        str or (n,) ndarray
            What `init` takes with the sample.
        """
        return start if isinstance(start, str) else np.asarray(start)[rows]

    takes_weight = False
    takes_groups = False

    def max_clusters(self, model):
        """Clusters that a state of this kernel can hold, or None where only the weights limit them."""
        return None

    def memory(self, model, data, n_clusters):
        """Bytes of the working objects that the kernel keeps beside the state, for so many clusters."""
        return 0

    def start_memory(self, start, model, data):
        """Bytes that a start takes at its peak, where it makes more than labels; most of them are free afterwards."""
        return 0

    def is_done(self, state):
        """Whether further steps would change nothing that matters: optimisers that have converged, never samplers."""
        return False

    def finish(self, state):
        """What is to be done before a state is used as a result; nothing for most kernels."""

    def frozen(self, state):
        """The kernel with the settings that it has adapted to this chain so far: for the steps that are to count.

        Parameters
        ----------
        state : State

        Returns
        -------
        Kernel
            Itself, where nothing is adapted.
        """
        return self

    def step(self, state):
        """Move the state by one sweep, pass or batch of moves, in place.

        Parameters
        ----------
        state : State

        Returns
        -------
        Info
        """
        begin = perf_counter()
        proposed, accepted, extra = self.move(state)
        state.n_steps += 1
        seconds = perf_counter() - begin
        return Info(state.n_steps, state.log_joint, state.n_clusters, proposed, accepted, seconds, extra)


class Cycle(Kernel):
    """Kernels applied one after the other; invariant for the posterior if each of them is.

    Neighbours of different state types are joined by drawing or dropping parameters, which is exact for finite weights.

    Parameters
    ----------
    *kernels : Kernel

    Examples
    --------
    >>> from expfam.samplers import CollapsedGibbs, Cycle, UpdateHyper
    >>> Cycle(CollapsedGibbs(), UpdateHyper())
    Cycle(CollapsedGibbs(order='sequential'), UpdateHyper(family=True, weights=True))
    """

    def __init__(self, *kernels):
        if not kernels:
            raise ValueError(f"{type(self).__name__} needs at least one kernel")
        self.kernels = kernels

    @property
    def state_type(self):
        """Type of the first kernel that has one of its own."""
        return next((k.state_type for k in self.kernels if k.state_type is not None), None)

    @property
    def takes_weight(self):
        """Whether every kernel takes weighted data."""
        return all(k.takes_weight for k in self.kernels)

    @property
    def takes_groups(self):
        """Whether every kernel takes data in groups."""
        return all(k.takes_groups for k in self.kernels)

    def check(self, model, data):
        """Each kernel's own check."""
        for kernel in self.kernels:
            kernel.check(model, data)

    def init_state(self, model, data, labels, *, seed):
        """State of the first kernel that has a type of its own."""
        return self._maker().init_state(model, data, labels, seed=seed)

    def first_labels(self, start, model, data, seed, n_clusters):
        """As the kernel that makes the state reads a start."""
        return self._maker().first_labels(start, model, data, seed, n_clusters)

    def sample_start(self, start, data, rows):
        """As of the kernel that makes the state."""
        return self._maker().sample_start(start, data, rows)

    def max_clusters(self, model):
        """That of the kernel that makes the state."""
        return self._maker().max_clusters(model)

    def memory(self, model, data, n_clusters):
        """Those of all kernels."""
        return sum(kernel.memory(model, data, n_clusters) for kernel in self.kernels)

    def start_memory(self, start, model, data):
        """That of the kernel that makes the state."""
        return self._maker().start_memory(start, model, data)

    def _maker(self):
        maker = next((k for k in self.kernels if k.state_type is not None), None)
        if maker is None:
            raise CapabilityError(f"{self!r} has no kernel that makes a state")
        return maker

    def is_done(self, state):
        """Never: what one kernel leaves another may change."""
        return False

    def finish(self, state):
        """Each kernel's own last work."""
        for kernel in self.kernels:
            kernel.finish(state)

    def frozen(self, state):
        """The same composition of the kernels with what each has adapted."""
        kernels = []
        for index, kernel in enumerate(self.kernels):
            with _memory_of(state, index):
                kernels.append(kernel.frozen(state))
        return type(self)(*kernels, **{k: v for k, v in self.get_params().items() if k != "kernels"})

    def step(self, state):
        """One step of every kernel; counts are added up, `extra` holds each one's Info by its place in the cycle."""
        return _join([self._apply(index, state) for index in range(len(self.kernels))])

    def _apply(self, index, state):
        kernel = self.kernels[index]
        own = state.as_type(kernel.state_type) if kernel.state_type is not None else state
        # each kernel of a composition has a memory of its own, kept in that of the state
        outer = state.memory
        own.memory = outer.setdefault(str(index), {})
        try:
            info = kernel.step(own)
        finally:
            state.memory = outer
        if own is not state:
            state.take(own)
        return info

    def get_params(self, deep=True):
        """The kernels."""
        return {"kernels": self.kernels}

    def __repr__(self):
        return f"{type(self).__name__}({', '.join(map(repr, self.kernels))})"


class RandomScan(Cycle):
    """One of several kernels at each step, chosen at random with fixed probabilities.

    Parameters
    ----------
    *kernels : Kernel
    probabilities : sequence of float, optional
        Equal ones if not given; normalised.

    Examples
    --------
    >>> from expfam.samplers import CollapsedGibbs, RandomScan, UpdateHyper
    >>> RandomScan(CollapsedGibbs(), UpdateHyper(), probabilities=[0.9, 0.1]).probabilities
    [0.9, 0.1]
    """

    def __init__(self, *kernels, probabilities=None):
        super().__init__(*kernels)
        self.probabilities = probabilities
        if probabilities is not None:
            p = np.asarray(probabilities, dtype=np.float64)
            if p.shape != (len(kernels),) or not (p > 0).all():
                raise ValueError(f"probabilities must be {len(kernels)} positive numbers; got {probabilities!r}")

    def step(self, state):
        """One step of the chosen kernel."""
        p = np.ones(len(self.kernels)) if self.probabilities is None else np.asarray(self.probabilities, np.float64)
        index = int(generator(state.seed, "choice", step=state.n_steps).choice(len(p), p=p / p.sum()))
        return self._apply(index, state)

    def get_params(self, deep=True):
        """The kernels and their probabilities."""
        return {"kernels": self.kernels, "probabilities": self.probabilities}

    def __repr__(self):
        return super().__repr__()[:-1] + f", probabilities={self.probabilities!r})"


@contextmanager
def _memory_of(state, index):
    """The state with the memory of one kernel of a composition."""
    outer = state.memory
    state.memory = outer.setdefault(str(index), {})
    try:
        yield
    finally:
        state.memory = outer


def _join(infos):
    last = infos[-1]
    return Info(
        last.step,
        last.objective,
        last.n_clusters,
        sum(i.proposed for i in infos),
        sum(i.accepted for i in infos),
        sum(i.seconds for i in infos),
        {"parts": infos},
    )
