"""State of a chain over the clusters of rows in groups.

All groups share K clusters. A cluster keeps its slot even when it is empty, because clusters may differ in their
pseudo-counts. The state does not hold counts of groups: it counts the labels when they are needed.
"""

import numpy as np
from scipy import sparse

from expfam.amounts import counted
from expfam.families.components cimport Components
from expfam.samplers.states.collapsed cimport CollapsedState

from expfam.errors import ArchiveError, CapabilityError, ExpFamError
from expfam.model.admixture import check_clusters
from expfam.model.pseudo_counts import CountTable
from expfam.samplers.states.storage import family_arrays, stored_memory, with_family_arrays
from expfam.structures.ground.stored import TINY, integers, numbers


cdef class GroupedState(CollapsedState):
    """Clusters of rows in groups; parameters and weights are integrated out.

    Parameters
    ----------
    model : AdmixtureModel
        With a bound family.
    data : Dataset
        With groups.
    labels : (N,) array_like of int in 0..K-1
    seed : int
    n_steps : int

    Attributes
    ----------
    labels : (N,) int32 ndarray
        Cluster of each datum.
    components : Components
        Statistics of all K clusters.
    counts : (K,) int64 ndarray
        Number of data in each cluster.
    log_joint : float
        log p(labels) + log p(X | labels), nats, without log-base.

    Examples
    --------
    >>> from expfam import AdmixtureModel, Dataset, Poisson
    >>> from expfam.samplers import GroupedState
    >>> data = Dataset([[0], [1], [40]], Poisson(), groups=[0, 0, 1])
    >>> state = GroupedState(AdmixtureModel(data.family, 3), data, [2, 2, 0], seed=0)
    >>> state.group_counts().toarray()
    array([[0, 0, 2],
           [1, 0, 0]])
    """

    def __init__(self, model, data, labels, *, seed, n_steps=0):
        self.model, self.data, self.seed, self.n_steps = model, data, int(seed), n_steps
        self.stamp = 0
        self.memory = {}
        self.labels = check_clusters(labels, data.n_rows, model.n_components)
        self.components = Components(model.family, data, model.n_components)
        self._adopt()
        self.components.refresh(self.labels)
        self.n_moves = 0
        self.log_joint = self.compute_log_joint()

    def _adopt(self):
        """Count the labels, and give every cluster its slot; no slot stands for a new cluster."""
        self.count_by_slot(self.model.n_components)

    def count_by_slot(self, K):
        """Count the labels in K slots, none of which is free."""
        self.label_view = self.labels
        self.counts = np.bincount(self.labels, minlength=K).astype(np.int64)
        self.log_mass, self.free_slots = np.zeros(K), np.zeros(K, dtype=np.intp)
        self.slots.n_free, self.slots.n_slots, self.slots.spare, self.slots.max_live = 0, K, -1, 0
        self.slots.n_live = np.count_nonzero(self.counts)
        self.slots.offset = 0.0
        self._point()

    def adopt_labels(self):
        """Count the labels anew after they were changed with the statistics."""
        self.stamp += 1
        self._adopt()
        self.log_joint = self.compute_log_joint()

    def ensure_spare(self):
        """Do nothing: all clusters have a slot."""

    def open_all(self):
        """Do nothing: all clusters have a slot."""

    def statistics(self):
        """Return the counts (K,) and sums (K, F), dense or CSR, of all clusters."""
        n, S = self.components.export()
        return n[: self.slots.n_slots], S[: self.slots.n_slots]

    @property
    def pseudocounts(self):
        """Pseudo-count of each cluster in a group: (K,) float64."""
        return self.model.pseudocounts

    def group_counts(self):
        """Return the number of rows of each group in each cluster: (G, K) int64 CSR."""
        of_row, shape = self.data.groups.of_row, (self.data.groups.n_groups, self.slots.n_slots)
        counts = sparse.csr_array((np.ones(len(of_row), dtype=np.int64), (of_row, self.labels)), shape=shape)
        counts.sum_duplicates()
        return counts

    def count_table(self):
        """Return how often each count of a group's rows occurs, by cluster."""
        counts = self.group_counts()
        return CountTable.of_counts(counts.indices, counts.data, self.slots.n_slots)

    def compute_log_joint(self):
        """Compute the log joint of labels and data anew, nats, without log-base."""
        alpha = self.model.pseudocounts
        totals = CountTable.of_histogram(np.bincount(self.data.groups.sizes))
        prior = self.count_table().log_rising(alpha) - totals.log_rising(np.array([alpha.sum()]))
        return float(prior + self.components.log_marginal(np.arange(self.slots.n_slots)).sum())

    def settle(self):
        """Finish a step: refresh real-valued statistics every 10 N moves."""
        self.check_drift()

    def take(self, other):
        """Raise CapabilityError: states of other types have no clusters of groups."""
        raise CapabilityError("a GroupedState cannot be combined with states of other types in one chain")

    def as_type(self, state_type):
        """Return this state; raise CapabilityError for any other type."""
        if state_type is GroupedState:
            return self
        raise CapabilityError(
            f"a GroupedState cannot become a {state_type.__name__}, whose weights all rows share: begin one with"
            " start=state.partition"
        )

    def to_arrays(self):
        """Return all that later steps read, to the bit, as a dict of arrays."""
        return {
            "model": {**family_arrays(self.model.family), "alpha": self.model.pseudocounts},
            **self.label_arrays(),
        }

    def from_arrays(self, arrays):
        """Restore the state that `to_arrays` stored; later steps give the same bits.

        Raises
        ------
        ArchiveError
            For arrays that do not fit this chain and these data.
        """
        K = self.model.n_components
        if len(arrays["model"]["alpha"]) != K:
            raise ExpFamError(f"the checkpoint has {counted(len(arrays['model']['alpha']), 'cluster')}, this state {K}")
        family = with_family_arrays(self.model.family, arrays["model"])
        model = self.model.with_family(family).with_alpha(numbers(arrays["model"], "alpha", (K,), low=TINY))
        integers(arrays, "labels", (self.data.n_rows,), 0, K)
        if numbers(arrays["components"], "n", (None,)).size < K:
            raise ArchiveError(f"the statistics are not those of {counted(K, 'cluster')}: the file was altered")
        self.restore_labels(arrays, model)
        self.memory = stored_memory(arrays)
