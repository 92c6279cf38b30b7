"""Exact Gibbs sampling of rows in groups that share clusters whose number is unknown.

A sweep draws the cluster of each row given the clusters of all others and the weights that the groups share; then
weights and concentrations are drawn. Clusters begin and end by themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from expfam.amounts import counted
from expfam.errors import CapabilityError, DataError
from expfam.model.hierarchical import HierarchicalProcess
from expfam.model.mixture import MixtureModel
from expfam.model.weights import SymmetricDirichlet
from expfam.params import Integer
from expfam.samplers.collapsed.gibbs import run_sweep
from expfam.samplers.grouped.gibbs import GroupedGibbs
from expfam.samplers.nonparametric.group_sweep import GroupedProcessState, GroupedProcessSweep, checked_labels
from expfam.samplers.nonparametric.weights import draw_shared_weights
from expfam.samplers.starts.rules import starting_labels
from expfam.samplers.states.large import count_large
from expfam.structures.ground.rng import generator

if TYPE_CHECKING:
    import numpy.typing as npt

    from expfam.model.data import Dataset

_FEWEST, _MOST = 10, 100  # clusters to begin with


def default_n_rows_clusters(n_rows: int) -> int:
    """Return the number of clusters to begin with: more than will be left."""
    return int(min(n_rows, np.clip(0.25 * np.sqrt(n_rows), _FEWEST, _MOST)))


def check_process_of_rows(model: Any, data: Dataset, kernel: str) -> None:
    """Raise for other models, data without groups, and more classes than known clusters.

    Parameters
    ----------
    model : HierarchicalProcess
        Any other model is refused.
    data : Dataset
    kernel : str
        Name of the kernel, for the message.

    Raises
    ------
    CapabilityError, DataError
    """
    if not isinstance(model, HierarchicalProcess):
        raise CapabilityError(
            f"{kernel} works on a HierarchicalProcess; got {type(model).__name__}: write"
            f" {kernel}().init(HierarchicalProcess(data.family), data)"
        )
    if data.groups is None:
        raise CapabilityError(f"{kernel} needs the group of each row: give it a Dataset(X, family, groups=...)")
    n_classes = 0 if data.known is None else data.known.n_classes
    if n_classes > model.n_known:
        raise DataError(
            f"{kernel}: rows of {counted(n_classes, 'class', 'classes')} are known, and the model knows"
            f" {counted(model.n_known, 'cluster')}: write HierarchicalProcess(data.family, n_known={n_classes})"
        )


def first_labels_of_rows(
    start: Any, model: Any, data: Dataset, seed: int, n_clusters: int | None, *, n_threads: int | None = None
) -> npt.NDArray[np.int32]:
    """Return the clusters that a start gives the rows: (N,) int32.

    Parameters
    ----------
    start, model, data, seed
        As in `Kernel.first_labels`.
    n_clusters : int or None
        Number of clusters to begin with; None for `default_n_rows_clusters`.
    n_threads : int or None
        Number of threads; the labels do not depend on it.
    """
    if not isinstance(start, str) and not callable(getattr(start, "labels", None)):
        return checked_labels(start, data.n_rows)
    K = default_n_rows_clusters(data.n_rows) if n_clusters is None else min(int(n_clusters), data.n_rows)
    mixture = MixtureModel(model.family, SymmetricDirichlet(K))
    return starting_labels(start, mixture, data, seed=seed, n_clusters=K, n_threads=n_threads)


class GroupedProcessGibbs(GroupedGibbs):
    """Exact Gibbs sweeps over rows in groups, the number of clusters unknown.

    Parameters of the clusters and weights of the groups are integrated out. After each sweep the weights that all
    groups share are drawn. One thread, float64, any family; O(K) memory beside the state.

    Parameters
    ----------
    order : {"sequential", "random"}
        Order of the groups, and of the rows of each group, in a sweep: by their numbers, or a new random order for each
        sweep.
    learn_alpha : bool
        Draw both concentrations from their conditional laws. Their priors are Gamma(1, 1).

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import Dataset, HierarchicalProcess, Poisson
    >>> from expfam.samplers import GroupedProcessGibbs, sample
    >>> X = np.repeat([[0, 90], [90, 0]], 20, axis=0)
    >>> data = Dataset(X, Poisson(shape=1.0, rate=0.02), groups=np.arange(40) % 4)
    >>> kernel = GroupedProcessGibbs()
    >>> state = kernel.init(HierarchicalProcess(data.family), data, seed=0)
    >>> trace = sample(kernel, state, 40)
    >>> bool(np.median(trace.column("n_clusters")[20:]) < 4)
    True

    Notes
    -----
    Teh, Jordan, Beal and Blei 2006, "Hierarchical Dirichlet processes", section 5.3: sampling by direct assignment.
    """

    state_type = GroupedProcessState
    takes_known = frozenset({"clusters"})
    _constraints: ClassVar = {"order": ("sequential", "random"), "learn_every": Integer(1)}

    def __init__(self, *, order: str = "sequential", learn_alpha: bool = True, learn_every: int = 1) -> None:
        super().__init__(order=order, learn_alpha=learn_alpha, learn_every=learn_every)

    def check(self, model: Any, data: Dataset) -> None:
        """Raise for models of another kind, data without groups, and settings out of range."""
        super(GroupedGibbs, self).check(model, data)
        name = type(self).__name__
        check_process_of_rows(model, data, name)

    def reversed(self) -> Any:
        """Return None: a step backwards would draw the weights before a sweep in the opposite order."""
        return

    def first_labels(
        self, start: Any, model: Any, data: Dataset, seed: int, n_clusters: int | None
    ) -> npt.NDArray[np.int32]:
        """Return the clusters that a start gives the rows: (N,) int32.

        `n_clusters` is the number of clusters to begin with.
        """
        return first_labels_of_rows(start, model, data, seed, n_clusters)

    def init_state(self, model: Any, data: Dataset, labels: Any, *, seed: int) -> GroupedProcessState:
        """Make the state of the labels (N,), with class c in cluster c where classes are known."""
        if data.known is not None:
            labels = data.known.numbered_by_class(labels)
        return GroupedProcessState(model, data, labels, seed=seed)

    def move(self, state: Any) -> tuple[int, int, dict[str, Any]]:
        """Sweep over all data; draw the shared weights, and the concentrations."""
        proposed, moved, extra = run_sweep(GroupedProcessSweep(state, self.order))
        rng, model = generator(state.seed, "hyper", unit=1, step=state.n_steps), state.model
        learn = self.learn_alpha and (state.n_steps + 1) % self.learn_every == 0
        table, sizes = state.count_table(), state.data.groups.sizes
        state.set_weights(
            draw_shared_weights(
                *(state.pseudocounts, model.alpha, model.gamma, table, sizes, rng), learn=learn, n_known=model.n_known
            )
        )
        return proposed, moved, extra | {"n_large": count_large(state.counts)}
