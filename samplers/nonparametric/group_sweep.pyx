"""State and sweep of a chain over an unknown number of clusters of rows in groups.

One empty slot stands for all clusters that are not listed. A datum that is drawn to it gives that slot a share of their
weight, and a free slot stands for the rest from then on.
"""

import numpy as np

from libc.math cimport exp, expm1, log, log1p
from libc.stdint cimport int64_t

from expfam.families.components cimport Components
from expfam.samplers.collapsed.gibbs cimport sweep
from expfam.samplers.grouped.gibbs cimport GroupedSweep, begin_in_group, change_in_group, group_counts
from expfam.samplers.grouped.gibbs_state cimport GroupedState
from expfam.structures.ground.rng cimport philox_double, philox_stream

from expfam.amounts import counted

from expfam.model.pseudo_counts import CountTable
from expfam.samplers.nonparametric.slots import Slots, capacity_for
from expfam.samplers.nonparametric.weights import first_weights, log_density
from expfam.samplers.states.storage import family_arrays, stored_memory, with_family_arrays
from expfam.structures.ground.stored import TINY, numbers


cdef class GroupedProcessState(GroupedState):
    """An unknown number of clusters of rows in groups, and the weights that all groups share.

    Parameters of the clusters and weights of the groups are integrated out.

    Parameters
    ----------
    model : HierarchicalProcess
        With a bound family.
    data : Dataset
        With groups.
    labels : (N,) array_like of non-negative int
    seed : int
    n_steps : int

    Attributes
    ----------
    labels : (N,) int32 ndarray
        Slot of the cluster of each datum. Some slots hold no data.
    shared : Slots
        Pseudo-counts and names of the clusters.
    components : Components
        Statistics of the clusters by slot.
    counts : (capacity,) int64 ndarray
        Number of data in each slot.
    log_joint : float
        Log density of labels, data and the shared weights, nats, without log-base.

    Examples
    --------
    >>> from expfam import Dataset, HierarchicalProcess, Poisson
    >>> from expfam.samplers import GroupedProcessState
    >>> data = Dataset([[0], [1], [40]], Poisson(), groups=[0, 0, 1])
    >>> state = GroupedProcessState(HierarchicalProcess(data.family), data, [2, 2, 0], seed=0)
    >>> state.n_clusters
    2
    """

    cdef public object shared

    def __init__(self, model, data, labels, *, seed, n_steps=0):
        self.model, self.data, self.seed, self.n_steps = model, data, int(seed), n_steps
        self.stamp = 0
        self.memory = {}
        self.labels = checked_labels(labels, data.n_rows)
        self.shared = Slots(capacity_for(max(int(self.labels.max()) + 1, model.n_known)), model.n_known)
        self.components = Components(model.family, data, self.shared.capacity)
        self._adopt()
        self.components.refresh(self.labels)
        self.n_moves = 0
        self.shared.name(self.counts)
        self.shared.set_weights(first_weights(self.counts, model.alpha, model.gamma, model.n_known))
        self.log_joint = self.compute_log_joint()

    def _adopt(self):
        """Count the labels by slot."""
        self.components.reserve(self.shared.capacity)
        self.count_by_slot(self.shared.capacity)

    def ensure_spare(self):
        """Make more slots where none is free for the clusters that are not listed."""
        if not len(self.shared.free):
            self.add_slots()

    def add_slots(self):
        """Make more slots; rows keep theirs."""
        self.shared.resize(capacity_for(self.shared.capacity))
        self._adopt()

    def adopt_moves(self, Py_ssize_t n_moved):
        """Count the labels anew after rows have moved with their statistics, and name new clusters."""
        self.n_moves += n_moved
        self.stamp += 1
        self._adopt()
        self.shared.name(self.counts)
        self.log_joint = self.compute_log_joint()

    @property
    def pseudocounts(self):
        """Pseudo-count of each slot in a group: (capacity,) float64, the array that a sweep changes."""
        return self.shared.pseudocounts

    @property
    def weights(self):
        """Concentrations, and the weights of the clusters by slot."""
        return self.shared.weights(self.model.alpha, self.model.gamma)

    def set_weights(self, weights):
        """Use other concentrations and weights of the clusters; slots without data become free."""
        self.model = self.model.with_concentrations(weights.alpha, weights.gamma)
        self.shared.name(self.counts)
        self.shared.set_weights(weights)
        places = self.shared.compacted()
        if places is not None:
            for new, old in enumerate(np.flatnonzero(self.shared.names >= 0)):
                if new != old:
                    self.components.swap(new, old)
            self.labels = places[self.labels]
            self.shared.renumber(places, capacity_for(self.shared.n_live))
            self.stamp += 1
            self._adopt()
        self.log_joint = self.compute_log_joint()

    def set_model(self, model):
        """Use a model with another family or other concentrations; labels and weights stay."""
        if model.family is not self.model.family:
            self.components.rebind(model.family)
        self.shared.pseudocounts *= model.alpha / self.model.alpha
        self.model = model
        self.log_joint = self.compute_log_joint()

    def compute_log_joint(self):
        """Compute the log density of labels, data and shared weights anew, nats, without log-base."""
        totals = CountTable.of_histogram(np.bincount(self.data.groups.sizes))
        prior = log_density(self.weights, self.count_table(), totals, self.shared.pseudocounts, self.model.n_known)
        return float(prior + self.components.log_marginal(np.flatnonzero(self.counts)).sum())

    def as_type(self, state_type):
        """Return this state; raise CapabilityError for any other type."""
        return self if state_type is GroupedProcessState else GroupedState.as_type(self, state_type)

    def to_arrays(self):
        """Return all that later steps read, to the bit, as a dict of arrays."""
        return {
            "model": family_arrays(self.model.family),
            "concentrations": np.array([self.model.alpha, self.model.gamma]),
            "shared": self.shared.to_arrays(),
            **self.label_arrays(),
        }

    def from_arrays(self, arrays):
        """Restore the state that `to_arrays` stored; later steps give the same bits.

        Raises
        ------
        ArchiveError
            For arrays that do not fit this chain and these data.
        """
        alpha, gamma = numbers(arrays, "concentrations", (2,), low=TINY).tolist()
        family = with_family_arrays(self.model.family, arrays["model"])
        model = self.model.with_family(family).with_concentrations(alpha, gamma)
        former, self.shared = self.shared, Slots.from_arrays(
            arrays["shared"], np.asarray(arrays["labels"]), self.model.n_known
        )
        try:
            self.restore_labels(arrays, model)
        except Exception:
            self.shared = former    # what was refused changes nothing
            raise
        self.memory = stored_memory(arrays)


ctypedef struct open_groups:
    group_counts listed         # comes first: functions of the sweep over a given number of clusters read it here
    Py_ssize_t rest             # empty slot that stands for all clusters not listed
    const Py_ssize_t *free      # slots without data and weight; the last of the first n_free is the next to be used
    Py_ssize_t n_free
    double gamma


cdef bint begin_in_open_group(sweep *s, Py_ssize_t i) noexcept nogil:
    """Get ready for row i; return False if no slot is free for the clusters that are not listed."""
    return (<open_groups *> s.masses.self).n_free > 0 and begin_in_group(s, i)


cdef void change_in_open_group(sweep *s, Py_ssize_t old, Py_ssize_t new, philox_stream *rng) noexcept nogil:
    """Count a datum in cluster `new` in place of `old`; `new` may be the slot of the rest."""
    cdef open_groups *t = <open_groups *> s.masses.self
    if new == t.rest:
        break_stick(t, philox_double(rng))
    change_in_group(s, old, new, rng)


cdef void break_stick(open_groups *t, double uniform) noexcept nogil:
    """Give the slot of the rest a Beta(1, gamma) share; a free slot gets what is left."""
    cdef Py_ssize_t k = t.rest
    cdef double whole = t.listed.alpha[k], log_left = log1p(-uniform) / t.gamma
    t.n_free -= 1
    t.rest = t.free[t.n_free]
    t.listed.alpha[k] = -whole * expm1(log_left)
    t.listed.alpha[t.rest] = whole * exp(log_left)
    t.listed.log_mass[k] = log(t.listed.counts[k] + t.listed.alpha[k])
    t.listed.log_mass[t.rest] = log(t.listed.alpha[t.rest])     # the slot is empty in every group


cdef class GroupedProcessSweep(GroupedSweep):
    """Buffers and pointers of one sweep over a `GroupedProcessState`."""

    cdef open_groups opened
    cdef object free

    cdef void aim(self):
        """Set the pointers into the state, which may have more slots than before."""
        cdef GroupedProcessState state = self.state
        cdef double[::1] alpha = state.shared.pseudocounts
        cdef int64_t[::1] counts = np.zeros(state.slots.n_slots, dtype=np.int64)
        cdef double[::1] log_mass = np.zeros(state.slots.n_slots)
        cdef const Py_ssize_t[::1] free
        GroupedSweep.aim(self)
        self.free = np.append(state.shared.free, 0).astype(np.intp)     # one more: its address is needed
        self.kept = (self.kept[0], state.shared.pseudocounts, counts, log_mass)
        free = self.free
        self.groups.alpha, self.groups.counts, self.groups.log_mass = &alpha[0], &counts[0], &log_mass[0]
        self.opened.listed, self.opened.gamma = self.groups, state.model.gamma
        self.opened.rest, self.opened.free, self.opened.n_free = state.shared.rest, &free[0], len(self.free) - 1
        self.s.masses.self = <void *> &self.opened
        self.s.masses.begin, self.s.masses.change = begin_in_open_group, change_in_open_group

    cdef void note(self):
        """Tell the state which slot now stands for the clusters that are not listed."""
        self.state.shared.rest = self.opened.rest


def checked_labels(labels, Py_ssize_t n_rows):
    """Return the clusters of all rows as (N,) int32 after checking them."""
    labels = np.asarray(labels)
    if labels.shape != (n_rows,) or labels.dtype.kind not in "iu":
        raise ValueError(f"clusters must be {counted(n_rows, 'integer')}, one for each row; got {labels.dtype}"
                         f" {labels.shape}")
    if labels.min(initial=0) < 0:
        raise ValueError(f"clusters must be numbers from 0 on; found {labels.min()}")
    return labels.astype(np.int32)
