"""Base class of the kernels, and two compositions of kernels.

A kernel consists of settings that do not change. Its method `init` makes a state and `step` moves the state. A step
leaves the posterior of the model invariant unless the kernel's documentation says otherwise. A kernel holds no data of
a run: everything that changes is in the state, so one kernel can drive many chains.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter
from typing import Any, Literal, NoReturn

import numpy as np
import numpy.typing as npt

from expfam.amounts import counted
from expfam.errors import CapabilityError, DataError
from expfam.families.support import repeated
from expfam.model.data import Dataset
from expfam.params import Settings, check_settings
from expfam.protocols import Info
from expfam.samplers.starts.rules import default_n_clusters, starting_labels
from expfam.structures.ground.rng import generator, resolve_seed

_TAKERS = {
    "clusters": "collapsed samplers can, and with a given number of components EM, variational and uncollapsed ones:"
    " write Mixture(labels='clusters', sampler='gibbs')",
    "classes": "collapsed samplers can: write Mixture(labels='classes', sampler='gibbs')",
    "links": "samplers of mixtures, EM and variational inference can: write Mixture(sampler='gibbs')",
}
_TAKERS_WITH_GROUPS = "Gibbs sampling of groups can: write GroupedMixture(sampler='gibbs')"
OPPOSITE: dict[str, Literal["sequential", "backward"]] = {"sequential": "backward", "backward": "sequential"}
_NAMED = 5  # classes that a message names


class Kernel(Settings):
    """Base class of the kernels; it stores the keywords of the constructor unchanged.

    Subclasses set `state_type` and write `init_state(model, data, labels, *, seed)` and `move(state)`. They also write
    `check(model, data)` if they need abilities of the family or of the weights.

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

    def check(self, model: Any, data: Dataset) -> None:
        """Raise for settings out of range, and for a model or data that the kernel cannot work with.

        The message of a `CapabilityError` names the kernel, the missing ability and the family.

        Parameters
        ----------
        model : MixtureModel, AdmixtureModel or HierarchicalProcess
            Bound to the data.
        data : Dataset

        Raises
        ------
        ValueError
            A setting is out of range.
        CapabilityError
            The family or the prior of the weights lacks an ability that the kernel needs.
        DataError
            The kernel cannot use these data.
        """
        check_settings(self)

    def init(
        self,
        model: Any,
        data: Any,
        *,
        seed: int | np.random.Generator | np.random.RandomState | None = None,
        start: Any = "auto",
        n_clusters: int | None = None,
    ) -> Any:
        """Make the first state of a chain.

        Parameters
        ----------
        model : MixtureModel
            Bound to the data here if it is not bound yet.
        data : Dataset, array_like or ShardedData
        seed : None, int, numpy Generator or RandomState
            Converted to a seed of 64 bits once.
        start : str or (N,) array_like of int
            Name of a start, or labels.
        n_clusters : int, optional
            Number of clusters to start with; only for starts that draw clusters.

        Returns
        -------
        State
        """
        if hasattr(data, "first_state"):  # the rows are elsewhere
            return data.first_state(self, model, seed=seed, start=start, n_clusters=n_clusters)
        model, data, seed, labels = self.prepare(model, data, seed=seed, start=start, n_clusters=n_clusters)
        return self.init_state(model, data, labels, seed=seed)

    def prepare(
        self,
        model: Any,
        data: Any,
        *,
        seed: int | np.random.Generator | np.random.RandomState | None,
        start: Any,
        n_clusters: int | None = None,
        check: Callable[[Any, Dataset], None] | None = None,
    ) -> tuple[Any, Dataset, int, Any]:
        """Prepare what a first state is made of.

        Parameters
        ----------
        model, data, seed, start, n_clusters
            As in `init`; `data` are not in parts.
        check : callable, optional
            Called with the bound model and the data in place of the method `check`.

        Returns
        -------
        model, data : bound MixtureModel and Dataset
        seed : int
            Seed of 64 bits.
        labels : (N,) int32 ndarray
            Checked starting labels.
        """
        if not isinstance(data, Dataset):
            data = Dataset(data, model.family, n_threads=getattr(self, "n_threads", None))
            model = model.with_family(data.family)
        model = model.bind(data)
        (check or self.check)(model, data)
        if not self.takes_weight and data.weight is not None and (data.weight != 1.0).any():
            if hasattr(model, "weights"):
                others = ["SparseVariational", *(["ExpectationMaximization"] if _most_clusters(model) else [])]
            else:
                others = ["GroupedVariational" if self.takes_groups else "TopicVariational"]
            refuse_weights(self, others)
        if data.groups is not None and not self.takes_groups:
            raise CapabilityError(
                f"{type(self).__name__} has weights that all rows share and cannot use groups: use GroupedGibbs or"
                " GroupedVariational, or a Dataset without groups"
            )
        if data.known is not None:
            check_known(self, model, data.known)
        seed = resolve_seed(seed)
        if n_clusters is None and (limit := self.max_clusters(model)) is not None:
            n_clusters = min(limit, default_n_clusters(model, data.n_rows))
        labels = self.first_labels(start, model, data.without_known(), seed, n_clusters)
        if data.known is not None:
            labels = _agreeing(start, labels, model, data.known)
        return model, data, seed, labels

    def init_state(self, model: Any, data: Any, labels: Any, *, seed: int) -> Any:
        """Make the first state of a chain from labels; `init` calls it after all checks.

        Parameters
        ----------
        model : MixtureModel, AdmixtureModel or HierarchicalProcess
            Bound to the data.
        data : Dataset
        labels : (N,) int32 ndarray
            Starting labels, from 0. Kernels of words get what their `first_labels` returns.
        seed : int
            Seed of the chain, 64 bits.

        Returns
        -------
        state_type
        """
        raise NotImplementedError(f"{type(self).__name__} does not implement init_state()")

    def move(self, state: Any) -> tuple[int, int, dict[str, Any]]:
        """Move the state in place by one sweep, pass or batch of moves; `step` calls it.

        Parameters
        ----------
        state : State

        Returns
        -------
        proposed, accepted : int
            Number of proposed and of accepted moves; equal for kernels that draw exactly.
        extra : dict
            Further diagnostics by name, for `Info.extra`.
        """
        raise NotImplementedError(f"{type(self).__name__} does not implement move()")

    def first_labels(self, start: Any, model: Any, data: Dataset, seed: int, n_clusters: int | None) -> Any:
        """Return the labels of a start: (N,) int32 ndarray.

        Kernels that do not move labels of rows override this method.

        Parameters
        ----------
        start : str or (N,) array_like of int
            Name of a start, or labels.
        model : MixtureModel, AdmixtureModel or HierarchicalProcess
            Bound to the data.
        data : Dataset
            The data without what is known of their rows.
        seed : int
            Seed of 64 bits.
        n_clusters : int or None
            Number of clusters to start with; None for the default of the start.
        """
        n_threads = getattr(self, "n_threads", None)
        return starting_labels(start, model, data, seed=seed, n_clusters=n_clusters, n_threads=n_threads)

    def sample_start(self, start: Any, data: Dataset, rows: Any) -> Any:
        """Return the start of a sample of the rows.

        The forecast of the time uses it: on the sample, the start takes its share of the time on all rows.

        Parameters
        ----------
        start : str or (N,) array_like of int
            Start on all data, see `init`.
        data : Dataset
            All data.
        rows : (n,) int64 ndarray or slice
            Rows of the sample.

        Returns
        -------
        str or (n,) ndarray
            Start to pass to `init` with the sample.
        """
        return start if isinstance(start, str) else np.asarray(start)[rows]

    on_shards = False
    # why it is not, as the end of a sentence
    not_on_shards = (
        "labels of one part would depend on counts of the others that are out of date, which is another law than the"
        " posterior"
    )
    takes_weight = False
    takes_groups = False
    takes_known: frozenset[str] = frozenset()

    def max_clusters(self, model: Any) -> int | None:
        """Return how many clusters a state can hold, or None if only the weights limit them."""
        return None

    def memory(self, model: Any, data: Dataset, n_clusters: int) -> int:
        """Return the bytes of the working objects that the kernel keeps beside the state.

        Parameters
        ----------
        model : MixtureModel, AdmixtureModel or HierarchicalProcess
            Bound to the data.
        data : Dataset
        n_clusters : int
            Number of clusters that the state is expected to hold.

        Returns
        -------
        int
            Computed from sizes alone; nothing is allocated. 0 for kernels that keep nothing.
        """
        return 0

    def start_memory(self, start: Any, model: Any, data: Dataset) -> int:
        """Return the bytes that a start needs at its peak.

        Most of them are free afterwards. It is 0 for starts that only make labels.

        Parameters
        ----------
        start, model, data
            As of `first_labels`.
        """
        return 0

    def is_done(self, state: Any) -> bool:
        """Return whether an optimiser has converged; always False for samplers."""
        return False

    def finish(self, state: Any) -> None:
        """Do the last work on a state before it is used as a result; most kernels do nothing."""

    def frozen(self, state: Any) -> Kernel:
        """Return the kernel with its adapted settings fixed, for the steps after the warm-up.

        Parameters
        ----------
        state : State
            State of the chain to which the settings were adapted.

        Returns
        -------
        Kernel
            The kernel itself if it adapts nothing.
        """
        return self

    def reversed(self) -> Kernel | None:
        """Return the kernel of the reversed chain, or None if there is none.

        A chain in equilibrium that is read backwards moves by the reversed kernel: from the posterior, moves of the
        kernel from a to b are as frequent as moves of its reversal from b to a. A reversible kernel is its own
        reversal. `expfam.evaluation.certificate` runs chains both ways from a known truth.
        """
        return None

    @property
    def is_sampler(self) -> bool:
        """Tell whether the steps are meant to leave the posterior invariant; False for optimisers."""
        return True

    @property
    def makes_draws(self) -> bool:
        """Tell whether steps draw labels; False where they improve soft ones."""
        return True

    def own_state(self, state: Any) -> Any:
        """Return the state that the kernel moves: `state`, or one that is made from it.

        `Cycle` and `RandomScan` call it before each step, and give what has moved back to `state`.

        Parameters
        ----------
        state : State

        Raises
        ------
        CapabilityError
            The chain cannot become one of this kernel.
        """
        return state if self.state_type is None else state.as_type(self.state_type)

    def step(self, state: Any) -> Info:
        """Move the state in place by one sweep, pass or batch of moves.

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
    """Kernel that applies several kernels one after the other.

    It leaves the posterior invariant if each kernel does. Where the next kernel needs another type of state, parameters
    are drawn or dropped, which is exact for finite weights.

    Parameters
    ----------
    *kernels : Kernel
        Kernels in the order in which they are applied.

    Examples
    --------
    >>> from expfam.samplers import CollapsedGibbs, Cycle, UpdateHyper
    >>> Cycle(CollapsedGibbs(order="random"), UpdateHyper())
    Cycle(CollapsedGibbs(order='random', n_threads=None), UpdateHyper(family=True, weights=True, order='sequential'))
    """

    def __init__(self, *kernels: Kernel) -> None:
        if not kernels:
            raise ValueError(f"{type(self).__name__} needs at least one kernel")
        self.kernels = kernels

    @property
    def state_type(self) -> Any:
        """Type of state of the first kernel that has one."""
        return next((k.state_type for k in self.kernels if k.state_type is not None), None)

    @property
    def on_shards(self) -> bool:  # type: ignore[override]
        """Whether every kernel runs on data in parts."""
        return all(k.on_shards for k in self.kernels)

    @property
    def takes_weight(self) -> bool:  # type: ignore[override]
        """Whether every kernel accepts weighted data."""
        return all(k.takes_weight for k in self.kernels)

    @property
    def takes_groups(self) -> bool:  # type: ignore[override]
        """Whether every kernel accepts data in groups."""
        return all(k.takes_groups for k in self.kernels)

    @property
    def takes_known(self) -> frozenset[str]:  # type: ignore[override]
        """What may be known of the rows: what every kernel takes."""
        return frozenset.intersection(*(k.takes_known for k in self.kernels))

    def check(self, model: Any, data: Dataset) -> None:
        """Run the check of each kernel."""
        for kernel in self.kernels:
            kernel.check(model, data)

    def init_state(self, model: Any, data: Dataset, labels: Any, *, seed: int) -> Any:
        """Make a state by the first kernel that has a type of state."""
        return self._maker().init_state(model, data, labels, seed=seed)

    def first_labels(self, start: Any, model: Any, data: Dataset, seed: int, n_clusters: int | None) -> Any:
        """Return the labels of a start for the kernel that makes the state."""
        return self._maker().first_labels(start, model, data, seed, n_clusters)

    def sample_start(self, start: Any, data: Dataset, rows: Any) -> Any:
        """Return the start of a sample of the rows for the kernel that makes the state."""
        return self._maker().sample_start(start, data, rows)

    def max_clusters(self, model: Any) -> int | None:
        """Return how many clusters the kernel that makes the state can hold, or None."""
        return self._maker().max_clusters(model)

    def memory(self, model: Any, data: Dataset, n_clusters: int) -> int:
        """Return the bytes of the working objects of all kernels."""
        return sum(kernel.memory(model, data, n_clusters) for kernel in self.kernels)

    def start_memory(self, start: Any, model: Any, data: Dataset) -> int:
        """Return the bytes that a start needs at its peak for the kernel that makes the state."""
        return self._maker().start_memory(start, model, data)

    def _maker(self):
        maker = next((k for k in self.kernels if k.state_type is not None), None)
        if maker is None:
            raise CapabilityError(f"{self!r} has no kernel that makes a state")
        return maker

    def is_done(self, state: Any) -> bool:
        """Return False: one kernel may change what another has left."""
        return False

    def finish(self, state: Any) -> None:
        """Do the last work of each kernel on a state."""
        for kernel in self.kernels:
            kernel.finish(state)

    def frozen(self, state: Any) -> Kernel:
        """Return the same composition with the adapted settings of each kernel fixed."""
        kernels = []
        for index, kernel in enumerate(self.kernels):
            with _memory_of(state, index):
                kernels.append(kernel.frozen(state))
        return type(self)(*kernels, **{k: v for k, v in self.get_params().items() if k != "kernels"})

    def reversed(self) -> Kernel | None:
        """Return the reversed kernels in the opposite order; None if one cannot be reversed."""
        return self._reversed(self.kernels[::-1])

    def _reversed(self, kernels: Sequence[Kernel], **settings: Any) -> Kernel | None:
        found = [kernel.reversed() for kernel in kernels]
        reversals = [kernel for kernel in found if kernel is not None]
        return type(self)(*reversals, **settings) if len(reversals) == len(found) else None

    @property
    def is_sampler(self) -> bool:
        """Tell whether every kernel is meant to leave the posterior invariant."""
        return all(kernel.is_sampler for kernel in self.kernels)

    @property
    def makes_draws(self) -> bool:
        """Tell whether every kernel draws labels, where it moves them."""
        return all(kernel.makes_draws for kernel in self.kernels)

    def step(self, state: Any) -> Info:
        """Make one step of every kernel.

        The result has the sums of the counts. ``extra["parts"]`` holds the Info of each kernel in the order of the
        cycle, and ``extra["n_large"]`` the number of large clusters that the last one tells.
        """
        return _join([self._apply(index, state) for index in range(len(self.kernels))])

    def _apply(self, index, state):
        kernel = self.kernels[index]
        own = kernel.own_state(state)
        # two kernels of one type must not share working objects: each gets its own part of the state's memory
        outer = state.memory
        own.memory = outer.setdefault(str(index), {})
        try:
            info = kernel.step(own)
        finally:
            state.memory = outer
        if own is not state:
            state.take(own)
        return info

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the kernels by name."""
        return {"kernels": self.kernels}

    def __repr__(self):
        return f"{type(self).__name__}({', '.join(map(repr, self.kernels))})"


class RandomScan(Cycle):
    """Kernel that applies one of several kernels at each step, chosen at random.

    Parameters
    ----------
    *kernels : Kernel
        Kernels to choose from.
    probabilities : sequence of float, optional
        Probability of each kernel; they are normalised, and equal if not given.

    Examples
    --------
    >>> from expfam.samplers import CollapsedGibbs, RandomScan, UpdateHyper
    >>> RandomScan(CollapsedGibbs(), UpdateHyper(), probabilities=[0.9, 0.1]).probabilities
    [0.9, 0.1]
    """

    def __init__(
        self, *kernels: Kernel, probabilities: Sequence[float] | npt.NDArray[np.float64] | None = None
    ) -> None:
        super().__init__(*kernels)
        self.probabilities = probabilities
        if probabilities is not None:
            p = np.asarray(probabilities, dtype=np.float64)
            if p.shape != (len(kernels),) or not (p > 0).all():
                raise ValueError(
                    f"probabilities must be {counted(len(kernels), 'positive number')}; got {probabilities!r}"
                )

    def reversed(self) -> Kernel | None:
        """Return the scan of the reversed kernels; None if a kernel has no reversed one."""
        return self._reversed(self.kernels, probabilities=self.probabilities)

    def step(self, state: Any) -> Info:
        """Make one step of a kernel that is chosen at random."""
        p = np.ones(len(self.kernels)) if self.probabilities is None else np.asarray(self.probabilities, np.float64)
        index = int(generator(state.seed, "choice", step=state.n_steps).choice(len(p), p=p / p.sum()))
        return self._apply(index, state)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the kernels and their probabilities by name."""
        return {"kernels": self.kernels, "probabilities": self.probabilities}

    def __repr__(self):
        return super().__repr__()[:-1] + f", probabilities={self.probabilities!r})"


def check_known(kernel: Any, model: Any, known: Any) -> None:
    """Refuse what a kernel cannot take of what is known, and more classes than components.

    Parameters
    ----------
    kernel : Kernel
    model : MixtureModel or AdmixtureModel
    known : Known
        What is known of the rows: `Dataset.known`.

    Raises
    ------
    CapabilityError, DataError
    """
    for need in known.needs:
        if need not in kernel.takes_known:
            refuser = next((k for k in getattr(kernel, "kernels", ()) if need not in k.takes_known), kernel)
            what = "links" if need == "links" else f"labels={need!r}"
            takers = _TAKERS_WITH_GROUPS if kernel.takes_groups else _TAKERS[need]
            raise CapabilityError(f"{type(refuser).__name__} cannot use {what}: {takers}")
    limit = _most_clusters(model)
    if limit is not None and known.n_classes > limit:
        raise DataError(
            f"y has {counted(known.n_classes, 'class', 'classes')}{_some_names(known)}, and "
            f"{getattr(model, 'weights', model)!r} allows {counted(limit, 'cluster')}: write "
            f"{'Mixture' if hasattr(model, 'weights') else 'GroupedMixture'}(n_components={known.n_classes}), or more"
        )


def refuse_weights(kernel: Any, others: Sequence[str]) -> NoReturn:
    """Refuse weights of rows for a kernel that cannot take them.

    Parameters
    ----------
    kernel : Kernel
    others : sequence of str
        Names of kernels that can.

    Raises
    ------
    CapabilityError
    """
    refuser = next((k for k in getattr(kernel, "kernels", ()) if not k.takes_weight), kernel)
    lines = ", or ".join(f"{name}().init(model, data)" for name in others)
    raise CapabilityError(
        f"{type(refuser).__name__} cannot use weights of rows: it would tie the copies of a row together; write"
        f" {lines}, or if all weights are whole {repeated('weight')}"
    )


def check_sharded(kernel: Any) -> None:
    """Refuse a kernel that cannot run on data in parts.

    Raises
    ------
    CapabilityError
    """
    if getattr(kernel, "on_shards", False):
        return
    refuser = next((k for k in getattr(kernel, "kernels", ()) if not getattr(k, "on_shards", False)), kernel)
    why = getattr(refuser, "not_on_shards", Kernel.not_on_shards)
    raise CapabilityError(
        f"{type(refuser).__name__} cannot run on data in parts: {why}. Take UncollapsedGibbs, StochasticEM"
        " without a proposal, both also with UpdateHyper in a Cycle, or ExpectationMaximization: write"
        " UncollapsedGibbs().init(model, data)"
    )


def check_sticks(kernel: Any, model: Any, known: Any) -> None:
    """Refuse clusters of classes under ordered sticks, whose order is part of the model.

    Parameters
    ----------
    kernel : Kernel
    model : MixtureModel
    known : Known or None
        What is known of the rows: `Dataset.known`.

    Raises
    ------
    CapabilityError
    """
    if known is not None and known.fixes_rows and model.weights.max_components is None:
        raise CapabilityError(
            f"{type(kernel).__name__} cannot use labels='clusters' under {model.weights!r}: classes on ordered sticks"
            f" are another model. Write Mixture(labels='clusters', n_components={max(2, known.n_classes)}), or keep an"
            " open number of clusters: write Mixture(labels='clusters', sampler='gibbs')"
        )


def _some_names(known):
    """Return the names of the first classes, for a message; nothing where they have none."""
    if known.class_names is None:
        return ""
    names = [repr(name) for name in known.class_names[:_NAMED].tolist()]
    return f" ({', '.join(names)}{', ...' if known.n_classes > _NAMED else ''})"


def _most_clusters(model):
    """Return the largest number of clusters, or None; models of groups have no weights."""
    return model.weights.max_components if hasattr(model, "weights") else getattr(model, "n_components", None)


def _agreeing(start, labels, model, known):
    """Return starting labels that agree with what is known; refuse given labels that do not."""
    if isinstance(start, str):
        return known.agreeing(labels, limit=_most_clusters(model))
    fault = known.fault(labels)
    if fault is not None:
        raise DataError(f"the starting labels disagree with what is known: {fault}")
    return labels


@contextmanager
def _memory_of(state: Any, index: int) -> Iterator[None]:
    """Give the state, within a block, the memory of one kernel of a composition."""
    outer = state.memory
    state.memory = outer.setdefault(str(index), {})
    try:
        yield
    finally:
        state.memory = outer


def _join(infos):
    last, extra = infos[-1], {"parts": infos}
    proposed, accepted, seconds = 0, 0, 0.0
    for info in infos:
        proposed, accepted, seconds = proposed + info.proposed, accepted + info.accepted, seconds + info.seconds
    if "n_large" in last.extra:
        extra["n_large"] = last.extra["n_large"]
    return Info(last.step, last.objective, last.n_clusters, proposed, accepted, seconds, extra)
