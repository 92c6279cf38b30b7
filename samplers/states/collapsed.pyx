"""State of a collapsed chain: labels with the statistics of their clusters.

The state is a set partition. Each cluster has a numbered slot, and the law does not depend on the numbers. One empty
slot stands for "a new cluster" under all weights. So the loop for a symmetric Dirichlet with K components is the same
as for a Dirichlet process, and only clusters that hold data are scored. Invariant: counts, masses and statistics are
those of the labels; `check` recomputes and compares them. A move costs O(1) here, besides the work of the components.
"""

import numpy as np

from libc.math cimport INFINITY, log

from expfam.amounts import counted
from expfam.errors import ArchiveError, CapabilityError, ExpFamError
from expfam.model.partitions import by_first_appearance, slots_by_first_appearance
from expfam.model.statistics import label_statistics
from expfam.samplers.states.storage import MOST_GAP as _MOST_GAP
from expfam.samplers.states.storage import memory_arrays, model_arrays, stored_memory, with_model_arrays
from expfam.structures.ground.stored import integers, numbers

_MOST_SLOTS = 2**31 - 1


cdef void slot_enter(slot_table *t, Py_ssize_t k) noexcept nogil:
    """Add a datum to slot k; if it was the spare slot, it no longer is."""
    if t.counts[k] == 0:
        t.n_live += 1
        if t.spare == k:
            t.spare = -1
    t.counts[k] += 1
    t.log_mass[k] = log(t.counts[k] + t.offset)


cdef void slot_leave(slot_table *t, Py_ssize_t k) noexcept nogil:
    """Remove a datum from slot k; an empty slot becomes the spare one or a free one."""
    t.counts[k] -= 1
    if t.counts[k] > 0:
        t.log_mass[k] = log(t.counts[k] + t.offset)
        return
    t.log_mass[k] = -INFINITY
    t.n_live -= 1
    if t.spare < 0:
        t.spare = k
    else:
        t.free_slots[t.n_free] = k
        t.n_free += 1


cdef bint slot_find_spare(slot_table *t) noexcept nogil:
    """Find a slot for a new cluster if the weights allow one; return False if none is left."""
    if t.spare >= 0 or t.n_live >= t.max_live:
        return True
    if t.n_free > 0:
        t.n_free -= 1
        t.spare = t.free_slots[t.n_free]
        return True
    if t.n_slots < t.capacity:
        t.spare = t.n_slots
        t.n_slots += 1
        return True
    return False


cdef void slot_claim(slot_table *t, Py_ssize_t k) noexcept nogil:
    """Make the empty slot k the spare slot; O(free slots)."""
    cdef Py_ssize_t j = 0
    if t.spare == k:
        return
    while t.free_slots[j] != k:
        j += 1
    if t.spare >= 0:
        t.free_slots[j] = t.spare
    else:
        t.n_free -= 1
        t.free_slots[j] = t.free_slots[t.n_free]
    t.spare = k


cdef class CollapsedState:
    """Labels of the data with the statistics of their clusters.

    Parameters and weights are integrated out.

    Parameters
    ----------
    model : MixtureModel
        Its family must be bound to the data.
    data : Dataset
    labels : (N,) array_like of int
        First labels, any non-negative integers; they are renumbered by first appearance.
    seed : int
        Seed of 64 bits.
    n_steps : int
        Number of steps that the chain has made.

    Attributes
    ----------
    labels : (N,) int32 ndarray
        Slot of each datum. Slots may be empty; see `partition` for labels 0..B-1.
    components : Components
        Statistics of the clusters.
    counts : (capacity,) int64 ndarray
        Number of data in each slot.
    log_joint : float
        log p(partition) + log p(X | partition), nats, without log-base.

    Examples
    --------
    >>> from expfam import Dataset, DirichletProcess, MixtureModel, Poisson
    >>> from expfam.samplers import CollapsedState
    >>> data = Dataset([[0], [1], [40]], Poisson())
    >>> state = CollapsedState(MixtureModel(data.family, DirichletProcess()), data, [7, 7, 2], seed=0)
    >>> state.partition, state.n_clusters
    (array([0, 0, 1], dtype=int32), 2)
    """

    def __init__(self, model, data, labels, *, seed, n_steps=0):
        self.model, self.data, self.seed, self.n_steps = model, data, int(seed), n_steps
        self.stamp = 0
        self.chain = 0
        self.memory = {}
        n_clusters, self.labels = by_first_appearance(labels)
        limit = model.weights.max_components
        if limit is not None and n_clusters > limit:
            raise ExpFamError(f"{counted(n_clusters, 'starting cluster')}, but {model.weights!r} allows {limit}")
        capacity = min(n_clusters + 1 + n_clusters // 8, data.n_rows if limit is None else limit)
        self.components = Components(model.family, data, max(capacity, 1))
        self._adopt()
        self.components.refresh(self.labels)
        self.n_moves = 0
        self.log_joint = self.compute_log_joint()

    def _adopt(self):
        """Recompute counts, masses and free slots from the labels and the components' capacity."""
        capacity = self.components.capacity
        self.label_view = self.labels
        counts = np.bincount(self.labels, minlength=capacity).astype(np.int64)
        self.counts = counts
        weights = self.model.weights
        self.log_mass = _log_masses(counts, weights.offset)
        used = int(np.maximum.reduce(self.labels)) + 1
        self.free_slots = np.zeros(capacity, dtype=np.intp)
        empty = (counts[:used] == 0).nonzero()[0][::-1]     # the lowest slot is used first
        self.free_slots[: empty.size] = empty
        self.slots.n_free = empty.size
        self.slots.n_slots = used
        self.slots.n_live = used - empty.size
        self.slots.spare = -1
        self.slots.offset = weights.offset
        self.slots.max_live = self.data.n_rows if weights.max_components is None else weights.max_components
        self._point()
        self.ensure_spare()

    def _point(self):
        cdef int64_t[::1] counts = self.counts
        cdef double[::1] log_mass = self.log_mass
        cdef Py_ssize_t[::1] free_slots = self.free_slots
        self.slots.counts = &counts[0]
        self.slots.log_mass = &log_mass[0]
        self.slots.free_slots = &free_slots[0]
        self.slots.capacity = self.counts.shape[0]

    def ensure_spare(self):
        """Give a new cluster a slot; allocate more slots if the weights allow more clusters."""
        if slot_find_spare(&self.slots):
            return
        self._grow(min(2 * self.slots.capacity, max(self.slots.max_live, self.slots.capacity + 1)))
        slot_find_spare(&self.slots)

    def ensure_room(self, n):
        """Give a new cluster a slot, and have `n` empty slots behind all that are in use."""
        self.ensure_spare()
        if self.slots.n_slots + n > self.slots.capacity:
            self._grow(self.slots.n_slots + n + self.slots.n_slots // 8)

    def _grow(self, capacity):
        self.components.reserve(capacity)
        more = self.components.capacity - self.slots.capacity
        self.counts = np.concatenate([self.counts, np.zeros(more, dtype=np.int64)])
        self.log_mass = np.concatenate([self.log_mass, np.full(more, -np.inf)])
        self.free_slots = np.concatenate([self.free_slots, np.zeros(more, dtype=np.intp)])
        self._point()

    def open_all(self):
        """Give each of the K components of finite weights a slot, also those without data."""
        K = self.model.weights.max_components
        if K is None:
            raise CapabilityError(f"{self.model.weights!r} has no fixed number of components")
        while self.slots.n_slots < K:
            if self.slots.n_slots == self.slots.capacity:
                self._grow(K)
            self.free_slots[self.slots.n_free] = self.slots.n_slots
            self.slots.n_free += 1
            self.slots.n_slots += 1
        slot_find_spare(&self.slots)

    @property
    def n_clusters(self):
        """Number of clusters that hold data."""
        return self.slots.n_live

    @property
    def n_slots(self):
        """Number of slots that are scored: clusters, the spare slot, and empty slots between them."""
        return self.slots.n_slots

    @property
    def partition(self):
        """Labels renumbered 0..B-1 by first appearance: (N,) int32 ndarray, a copy."""
        return by_first_appearance(self.labels)[1]

    def statistics(self):
        """Return counts (B,) and sums (B, F) of the clusters in the order of `partition`.

        The sums are dense or CSR.
        """
        n, S = self.components.export()
        order = slots_by_first_appearance(self.labels)
        return n[order], S[order]

    def compute_log_joint(self):
        """Compute the log joint of partition and data from all clusters: nats, without log-base."""
        live = (self.counts > 0).nonzero()[0]
        return float(self.model.weights.log_prior(self.counts[live]) + self.components.log_marginal(live).sum())

    def refresh(self):
        """Recompute the statistics and the log joint from the labels.

        This removes the accumulated rounding error (drift) of real-valued sums.
        """
        self.components.refresh(self.labels)
        self.log_joint = self.compute_log_joint()
        self.n_moves = 0

    def settle(self):
        """Finish a step: move clusters into empty slots if there are many, and remove drift."""
        if self.slots.n_slots > self.slots.n_live + 1 + self.slots.n_live // 4:
            self._close_holes()
        self.check_drift()

    def check_drift(self):
        """Recompute real-valued statistics every 10 N moves; sums of integers have no drift."""
        if self.n_moves >= 10 * self.data.n_rows:
            if self.model.family.has_exact_sums:
                self.n_moves = 0
            else:
                self.refresh()

    def _close_holes(self):
        """Move the last clusters into empty slots before them, so that no slot between is empty."""
        live = self.slots.n_live
        holes = np.flatnonzero(self.counts[:live] == 0)
        late = live + np.flatnonzero(self.counts[live : self.slots.n_slots] > 0)
        where = np.arange(self.slots.n_slots, dtype=np.int32)
        for hole, slot in zip(holes, late):
            self.components.swap(hole, slot)
            where[slot] = hole
        self.labels = where[self.labels]
        self.stamp += 1
        self._adopt()

    def set_model(self, model):
        """Replace the model by one of the same kind with other hyper-parameters; keep the labels."""
        if model.family is not self.model.family:
            self.components.rebind(model.family)
        self.model = model
        self._adopt()
        self.log_joint = self.compute_log_joint()

    def take(self, other):
        """Copy labels, model and step number of `other`, a state that was made from this one.

        Its type may differ.
        """
        if other.model.family is not self.model.family:
            self.components.rebind(other.model.family)
        self.model, self.n_steps = other.model, other.n_steps
        self.labels = other.partition
        self.components.reserve(int(self.labels.max()) + 1)
        self._adopt()
        self.refresh()
        self.stamp += 1

    def check(self):
        """Recompute everything from the labels and compare.

        Raises
        ------
        AssertionError
            The message names what differs, and by how much.
        """
        counts = np.bincount(self.labels, minlength=self.slots.capacity)
        assert np.array_equal(counts, self.counts), "counts differ from the labels"
        assert self.slots.n_live == np.count_nonzero(counts), "number of clusters differs from the labels"
        n, S = label_statistics(self.data, self.labels, self.slots.capacity)
        kept_n, kept_S = (kept[: self.slots.capacity] for kept in self.components.export())
        assert np.array_equal(n, kept_n), "components hold other counts than the labels"
        gap = abs(S - kept_S).max()
        scale = 1.0 + abs(S).max()
        assert gap <= 1e-9 * scale, f"statistics differ from the labels' by {gap}"
        fault = None if self.data.known is None else self.data.known.fault(self.labels)
        assert fault is None, fault
        exact = self.compute_log_joint()
        assert abs(exact - self.log_joint) <= 1e-8 * (1.0 + abs(exact)), f"log joint is {self.log_joint}, not {exact}"

    def to_arrays(self):
        """Return everything that a later step reads as a dict of arrays and numbers."""
        return {
            "model": model_arrays(self.model),
            "slots": np.array([self.slots.n_slots, self.slots.n_free, self.slots.spare], dtype=np.int64),
            "free_slots": self.free_slots.copy(),
            **self.label_arrays(),
        }

    def label_arrays(self):
        """Return labels, statistics and counters, which every state of this kind stores."""
        return {
            "labels": self.labels.copy(),
            "components": self.components.to_arrays(),
            "scalars": np.array([self.log_joint, float(self.n_moves)]),
            "counters": np.array([self.n_steps, self.stamp], dtype=np.int64),
            "memory": memory_arrays(self.memory),
        }

    def from_arrays(self, arrays):
        """Restore the state from the arrays of `to_arrays`; later steps give the same bits.

        Raises
        ------
        ArchiveError
            The arrays do not belong to a chain of this type over these data.
        """
        model = with_model_arrays(self.model, arrays["model"])
        self.restore_labels(arrays, model)
        n_slots, n_free, spare = integers(arrays, "slots", (3,), -1, self.slots.capacity + 1).tolist()
        free = integers(arrays, "free_slots", (None,), 0, self.slots.capacity)
        self.check_slots(n_slots, n_free, spare, free)
        self.free_slots[:free.size] = free
        self.slots.n_slots, self.slots.n_free, self.slots.spare = n_slots, n_free, spare
        self.memory = stored_memory(arrays)

    def restore_labels(self, arrays, model):
        """Restore labels and statistics from arrays; refuse statistics that do not fit the labels.

        Parameters
        ----------
        arrays : dict of ndarrays
            Result of `to_arrays`.
        model : MixtureModel
            With the hyper-parameters that belong to the arrays.
        """
        labels = integers(arrays, "labels", (self.data.n_rows,), 0, _MOST_SLOTS, dtype=np.int32)
        log_joint, n_moves = numbers(arrays, "scalars", (2,)).tolist()
        n_steps, stamp = integers(arrays, "counters", (2,)).tolist()
        # `rebind` scores the statistics that the components hold; those of a file that was refused may be anything
        self.components.load(np.zeros(1), np.zeros((1, self.data.n_statistics)))
        try:
            self.components.rebind(model.family)
        except ArithmeticError:
            self.components.rebind(self.model.family)  # a prior that is not finite would stay, and refuse the way back
            raise
        self.components.from_arrays(arrays["components"])
        n, S = self.components.export()
        if labels.max() >= n.size or not np.array_equal(np.bincount(labels, minlength=n.size), n):
            raise ArchiveError("the counts of the clusters are not those of the labels: the file was altered")
        exact = label_statistics(self.data, labels, n.size)[1]
        if abs(S - exact).max() > _MOST_GAP * (1.0 + abs(exact).max()):
            raise ArchiveError("the statistics of the clusters are not those of the labels: the file was altered, or is"
                               " of other data")
        self.model, self.labels, self.n_steps, self.stamp = model, labels, n_steps, stamp
        self.log_joint, self.n_moves = log_joint, int(n_moves)
        self._adopt()

    def check_slots(self, n_slots, n_free, spare, free):
        """Refuse a list of free slots that does not fit the labels.

        Parameters
        ----------
        n_slots : int
            Number of slots that have been in use.
        n_free : int
            Number of entries of `free` that count.
        spare : int
            An empty slot beside those of `free`; -1 if there is none.
        free : (capacity,) int ndarray
            Empty slots.
        """
        empty = np.flatnonzero(self.counts[:max(n_slots, 0)] == 0)
        listed = free[:max(n_free, 0)].tolist() + ([spare] if spare >= 0 else [])
        is_right = 0 <= n_free <= free.size and self.labels.max() < n_slots <= self.slots.capacity
        if not is_right or sorted(listed) != empty.tolist() or self.slots.n_live > self.slots.max_live:
            raise ArchiveError("the free slots are not those that the labels leave: the file was altered")

    def as_type(self, state_type):
        """Convert the chain to a state of another type.

        An uncollapsed state gets the clusters in random components; its first step draws parameters and weights.
        """
        if state_type is CollapsedState:
            return self
        if not hasattr(state_type, "_of_collapsed"):
            raise CapabilityError(f"a CollapsedState cannot become a {state_type.__name__}")
        return state_type._of_collapsed(self)


def _log_masses(const int64_t[::1] counts, double offset):
    """Compute log(n + offset) by the C library, as single moves do.

    NumPy's log may round in another way, and a resumed chain must have the same bits.
    """
    masses = np.empty(counts.shape[0])
    cdef double[::1] out = masses
    cdef Py_ssize_t k
    for k in range(counts.shape[0]):
        out[k] = log(counts[k] + offset) if counts[k] > 0 else -INFINITY
    return masses
