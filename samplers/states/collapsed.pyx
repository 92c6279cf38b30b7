"""States of the chains: labels with statistics (collapsed) or with parameters (uncollapsed).

A collapsed state is a set partition. Each cluster has a numbered slot, and the law does not depend on the numbers. One
empty slot stands for "a new cluster" under all weights. So the loop for a symmetric Dirichlet with K components is the
same as for a Dirichlet process, and only clusters that hold data are scored. Invariant: counts, masses and statistics
are those of the labels; `check` recomputes and compares them. A move costs O(1) here, besides the work of the
components.
"""

import numpy as np
from scipy import sparse

from libc.math cimport INFINITY, log

from expfam.errors import ArchiveError, CapabilityError, ExpFamError
from expfam.families.support import dense_rows
from expfam.model.statistics import label_statistics, moved_statistics
from expfam.structures.ground.rng import generator
from expfam.structures.ground.stored import integers, numbers

_RECOUNT_EVERY = 20     # changes of labels after which uncollapsed statistics are recomputed
_MOST_DRIFT = 1e-9      # relative rounding error of a cluster beyond which they are recomputed at each change
_MOST_GAP = 1e-6        # largest relative difference of stored statistics from those of the labels: only drift
_MOST_SLOTS = 2**31 - 1
_TINY = np.finfo(np.float64).tiny
_LOG_ONE = 1e-9         # largest log of a probability, with rounding error
_EXACT_SUPPORTS = ("counts", "categories", "binary")    # sums of integers: no drift, never refreshed


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
        self.memory = {}
        n_clusters, self.labels = _by_first_appearance(labels)
        limit = model.weights.max_components
        if limit is not None and n_clusters > limit:
            raise ExpFamError(f"{n_clusters} starting clusters, but {model.weights!r} allows {limit}")
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
        used = int(self.labels.max()) + 1
        self.free_slots = np.zeros(capacity, dtype=np.intp)
        empty = np.flatnonzero(counts[:used] == 0)[::-1]     # the lowest slot is used first
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
        return _by_first_appearance(self.labels)[1]

    def statistics(self):
        """Return counts (B,) and sums (B, F) of the clusters in the order of `partition`.

        The sums are dense or CSR.
        """
        n, S = self.components.export()
        order = _slots_by_first_appearance(self.labels)
        return n[order], S[order]

    def compute_log_joint(self):
        """Compute the log joint of partition and data from all clusters: nats, without log-base."""
        live = np.flatnonzero(self.counts > 0)
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
            if self.model.family.support in _EXACT_SUPPORTS:
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
        kept_n, kept_S = self.components.export()
        assert np.array_equal(n, kept_n), "components hold other counts than the labels"
        gap = abs(S - kept_S).max()
        scale = 1.0 + abs(S).max()
        assert gap <= 1e-9 * scale, f"statistics differ from the labels' by {gap}"
        exact = self.compute_log_joint()
        assert abs(exact - self.log_joint) <= 1e-8 * (1.0 + abs(exact)), f"log joint is {self.log_joint}, not {exact}"

    def to_arrays(self):
        """Return everything that a later step reads as a dict of arrays and numbers."""
        return {
            "model": model_arrays(self.model),
            "labels": self.labels.copy(),
            "components": self.components.to_arrays(),
            "slots": np.array([self.slots.n_slots, self.slots.n_free, self.slots.spare], dtype=np.int64),
            "free_slots": self.free_slots.copy(),
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
        self.take_labels(arrays, model)
        n_slots, n_free, spare = integers(arrays, "slots", (3,), -1, self.slots.capacity + 1).tolist()
        free = integers(arrays, "free_slots", (None,), 0, self.slots.capacity)
        self.check_slots(n_slots, n_free, spare, free)
        self.free_slots[:free.size] = free
        self.slots.n_slots, self.slots.n_free, self.slots.spare = n_slots, n_free, spare
        self.memory = stored_memory(arrays)

    def take_labels(self, arrays, model):
        """Restore labels and statistics from arrays; refuse statistics that do not fit the labels."""
        labels = integers(arrays, "labels", (self.data.n_rows,), 0, _MOST_SLOTS, dtype=np.int32)
        log_joint, n_moves = numbers(arrays, "scalars", (2,)).tolist()
        n_steps, stamp = integers(arrays, "counters", (2,)).tolist()
        # `rebind` scores the statistics that the components hold; those of a file that was refused may be anything
        self.components.load(np.zeros(1), np.zeros((1, self.data.n_statistics)))
        self.components.rebind(model.family)
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
        """Refuse a list of free slots that does not fit the labels."""
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
        if state_type is not UncollapsedState:
            raise CapabilityError(f"a CollapsedState cannot become a {state_type.__name__}")
        _refuse_truncation(self.model.weights)
        K = self.model.weights.max_components
        state = UncollapsedState(self.model, self.data, _into_slots(self.partition, K, self), n_clusters=K,
                                 seed=self.seed, n_steps=self.n_steps)
        state.stamp = self.stamp + 1
        return state


class UncollapsedState:
    """Labels of the data with drawn parameters and weights of K components.

    Parameters
    ----------
    model : MixtureModel
        Its family must be bound to the data.
    data : Dataset
    labels : (N,) array_like of int in 0..K-1
    n_clusters : int
        Number K of components; the truncation if the weights allow any number of clusters.
    seed : int
        Seed of 64 bits.
    n_steps : int
        Number of steps that the chain has made.

    Attributes
    ----------
    labels : (N,) int32 ndarray
        Component of each datum.
    n : (K,) float64 ndarray
        Number of data in each component.
    S : (K, F) float64 ndarray or CSR
        Sums of the sufficient statistics in each component.
    Theta : (K, F) float64 ndarray or None
        Natural parameters that were drawn last.
    G : (K,) float64 ndarray or None
        Log partition function of each component.
    log_pi : (K,) float64 ndarray or None
        Log weight of each component.
    log_joint : float
        Collapsed log joint of the labels, nats, without log-base. It can be compared with that of collapsed states.
    n_differences : int
        Number of changes of labels since the statistics were last computed from all data.

    Examples
    --------
    >>> from expfam import Dataset, MixtureModel, Poisson, SymmetricDirichlet
    >>> from expfam.samplers import UncollapsedState
    >>> data = Dataset([[0], [1], [40]], Poisson())
    >>> model = MixtureModel(data.family, SymmetricDirichlet(4))
    >>> state = UncollapsedState(model, data, [0, 0, 3], n_clusters=4, seed=0)
    >>> state.draw_parameters()
    >>> state.Theta.shape, state.log_pi.shape
    ((4, 1), (4,))
    """

    def __init__(self, model, data, labels, *, n_clusters, seed, n_steps=0):
        self.model, self.data, self.seed, self.n_steps = model, data, int(seed), n_steps
        self.stamp = 0
        self.memory = {}
        self.K = int(n_clusters)
        labels = np.ascontiguousarray(labels, dtype=np.int32)
        if labels.min() < 0 or labels.max() >= self.K:
            raise ExpFamError(f"labels must lie in 0..{self.K - 1}; got {labels.min()}..{labels.max()}")
        self.Theta = self.G = self.log_pi = None
        self.drifts = False
        self.set_labels(labels)

    def set_labels(self, labels):
        """Replace the labels, and compute their statistics from all data."""
        self.labels = labels
        self.n, self.S = label_statistics(self.data, labels, self.K)
        self.n_differences, self._log_joint = 0, None
        self.stamp += 1

    @property
    def log_joint(self):
        """Collapsed log joint of the labels, computed when it is first read."""
        if self._log_joint is None:
            self._log_joint = self.compute_log_joint()
        return self._log_joint

    @property
    def n_clusters(self):
        """Number of components that hold data."""
        return int(np.count_nonzero(self.n))

    @property
    def partition(self):
        """Labels renumbered 0..B-1 by first appearance: (N,) int32 ndarray, a copy."""
        return _by_first_appearance(self.labels)[1]

    def statistics(self):
        """Return counts (B,) and sums (B, F) of components with data, in the order of `partition`."""
        order = _slots_by_first_appearance(self.labels)
        return self.n[order], self.S[order]

    def compute_log_joint(self):
        """Compute the collapsed log joint of partition and data: nats, without log-base."""
        live = np.flatnonzero(self.n > 0)
        prior = self.model.weights.log_prior(self.n[live].astype(np.int64))
        return float(prior + self.model.family.total_log_marginal(self.n[live], self.S[live]))

    def draw_parameters(self, theta="draw"):
        """Make weights and parameters from the statistics of the labels.

        Parameters
        ----------
        theta : {"draw", "map", "mean"}
            "draw" draws both from their posterior, each with its own random stream of this step; "map" uses the mode of
            the posterior, "mean" its mean.
        """
        family, weights, S = self.model.family, self.model.weights, dense_rows(self.S)
        if theta == "draw":
            rng = generator(self.seed, "posterior", unit=0, step=self.n_steps)
            self.Theta, self.G = family.draw_natural(self.n, S, rng)
            self.log_pi = weights.draw_log(self.n, generator(self.seed, "posterior", unit=1, step=self.n_steps))
        elif theta == "map":
            (self.Theta, self.G), self.log_pi = family.map_natural(self.n, S), weights.map_log(self.n)
        elif theta == "mean":
            (self.Theta, self.G), self.log_pi = family.expected_natural(self.n, S), weights.expected_log(self.n)
        else:
            raise ValueError(f"theta must be 'draw', 'map' or 'mean'; got {theta!r}")

    def move_labels(self, labels):
        """Replace the labels and update their statistics.

        Parameters
        ----------
        labels : (N,) int32 ndarray
            New labels.

        Returns
        -------
        int
            Number of data whose label changed.

        Notes
        -----
        Statistics are updated by the data that change. They are recomputed from all data at each twentieth call, and if
        more than half of the data change. If the rounding error is then larger than 1e-9, for example after an outlier
        has joined and left a cluster, they are recomputed at every later call.
        """
        n_moved = int(np.count_nonzero(labels != self.labels))
        if n_moved > self.data.n_rows // 2 or self.drifts:
            self.set_labels(labels)
            return n_moved
        n, S = moved_statistics(self.data, self.n, self.S, self.labels, labels)
        self.labels, self.n_differences = labels, self.n_differences + 1
        self.n, self.S, self._log_joint = n, S, None
        self.stamp += 1
        if self.n_differences >= _RECOUNT_EVERY:
            self._recount()
        return n_moved

    def _recount(self):
        """Recompute the statistics from all data, and measure the rounding error of the updates."""
        n, S = self.n, self.S
        self.set_labels(self.labels)
        if not np.array_equal(n, self.n):
            raise ExpFamError("counts kept by differences are not those of the labels")
        if (_row_largest(self.S - S) > _MOST_DRIFT * (1.0 + _row_largest(self.S))).any():
            self.drifts = True

    def set_model(self, model):
        """Replace the model by one of the same kind with other hyper-parameters; keep the labels."""
        self.model, self._log_joint = model, None

    def take(self, other):
        """Copy labels, model and step number of `other`, a state that was made from this one.

        Its type may differ.
        """
        self.model, self.n_steps = other.model, other.n_steps
        self.Theta = self.G = self.log_pi = None
        self.set_labels(np.ascontiguousarray(_into_slots(other.partition, self.K, other), dtype=np.int32))

    def check(self):
        """Recompute the statistics from the labels and compare; raise AssertionError if they differ."""
        n, S = label_statistics(self.data, self.labels, self.K)
        assert np.array_equal(n, self.n), "counts differ from the labels"
        assert abs(S - self.S).max() <= 1e-9 * (1.0 + abs(S).max()), "statistics differ from the labels"

    def to_arrays(self):
        """Return everything that a later step reads as a dict of arrays."""
        arrays = {
            "model": model_arrays(self.model),
            "labels": self.labels.copy(),
            "n": self.n.copy(),
            "S": _matrix_arrays(self.S),
            "counters": np.array([self.n_steps, self.stamp, self.n_differences, self.drifts], dtype=np.int64),
            "memory": memory_arrays(self.memory),
        }
        if self.Theta is not None:
            arrays |= {"Theta": self.Theta.copy(), "G": self.G.copy(), "log_pi": self.log_pi.copy()}
        return arrays

    def from_arrays(self, arrays):
        """Restore the state from the arrays of `to_arrays`.

        Raises
        ------
        ArchiveError
            The arrays do not belong to a chain of this type over these data.
        """
        K, F = self.K, self.data.n_statistics
        model = with_model_arrays(self.model, arrays["model"])
        labels = integers(arrays, "labels", (self.data.n_rows,), 0, K, dtype=np.int32)     # a copy: moves are in place
        n, S = numbers(arrays, "n", (K,), low=0.0), _matrix(arrays, "S", (K, F))
        if sparse.issparse(S) != sparse.issparse(self.S):
            raise ArchiveError("the statistics are sparse where those of the data are dense, or the reverse")
        self._check_statistics(labels, n, S)
        parameters = [None, None, None]
        if "Theta" in arrays:
            parameters = [numbers(arrays, "Theta", (K, F)), numbers(arrays, "G", (K,)),
                          numbers(arrays, "log_pi", (K,), finite=False, high=_LOG_ONE)]
            if np.isnan(parameters[2]).any():
                raise ArchiveError("'log_pi' holds NaN: the file was altered")
        counters = integers(arrays, "counters", (4,)).tolist()
        self.model, self._log_joint, self.labels, self.n, self.S = model, None, labels, n, S
        self.Theta, self.G, self.log_pi = parameters
        self.n_steps, self.stamp, self.n_differences, self.drifts = counters
        self.memory = stored_memory(arrays)

    def _check_statistics(self, labels, n, S):
        """Refuse statistics that are not those of the labels.

        Soft statistics of subclasses depend on parameters and are not checked.
        """
        if type(self) is not UncollapsedState:
            return
        exact_n, exact_S = label_statistics(self.data, labels, self.K)
        if not np.array_equal(n, exact_n) or abs(S - exact_S).max() > _MOST_GAP * (1.0 + abs(exact_S).max()):
            raise ArchiveError("the statistics are not those of the labels: the file was altered, or is of other data")

    def as_type(self, state_type):
        """Convert the chain to a state of another type; parameters are dropped, which is exact."""
        if state_type is UncollapsedState:
            return self
        if state_type is not CollapsedState:
            raise CapabilityError(f"an UncollapsedState cannot become a {state_type.__name__}")
        _refuse_truncation(self.model.weights)
        state = CollapsedState(self.model, self.data, self.labels, seed=self.seed, n_steps=self.n_steps)
        state.stamp = self.stamp + 1
        return state


def _row_largest(S):
    """Return the largest absolute value of each row of a dense or CSR matrix."""
    largest = abs(S).max(axis=1)
    return largest.toarray().ravel() if sparse.issparse(largest) else largest


def _matrix_arrays(S):
    """Copy a dense matrix, or the three arrays and the width of a CSR matrix."""
    if not sparse.issparse(S):
        return S.copy()
    width = np.array(S.shape[1], dtype=np.int64)
    return {"values": S.data.copy(), "columns": S.indices.copy(), "starts": S.indptr.copy(), "width": width}


def _matrix(arrays, name, shape):
    """Restore a matrix from `_matrix_arrays`; raise ArchiveError if it has not the given shape."""
    found = arrays[name]
    if not isinstance(found, dict):
        return numbers(arrays, name, shape)
    integers(found, "width", (), shape[1], shape[1] + 1)
    values = numbers(found, "values", (None,))
    parts = (values, integers(found, "columns", values.shape, 0, shape[1], dtype=np.asarray(found["columns"]).dtype),
             integers(found, "starts", (shape[0] + 1,), 0, values.size + 1, dtype=np.asarray(found["starts"]).dtype))
    matrix = sparse.csr_array(parts, shape=shape)
    matrix.check_format(full_check=True)
    return matrix


def memory_arrays(memory):
    """Return the working objects of kernels as nested dicts of arrays.

    Arrays that were restored and that no kernel has read yet are unchanged.
    """
    return {
        key: memory_arrays(value) if isinstance(value, dict) else value if isinstance(value, np.ndarray)
        else value.to_arrays()
        for key, value in memory.items()
    }


def stored_memory(arrays):
    """Return the stored working objects of kernels; refuse all but a dict of dicts."""
    memory = arrays.get("memory", {})
    if not isinstance(memory, dict) or not all(isinstance(value, dict) for value in memory.values()):
        raise ArchiveError("what kernels keep is not stored by name: the file was altered")
    return dict(memory)


def model_arrays(model):
    """Return the numbers of a model that a chain may have learned.

    They are hyper-parameters of the family and parameters of the weights.
    """
    weights = {name: np.array(value) for name, value in model.weights.get_params().items() if isinstance(value, float)}
    return {**family_arrays(model.family), "weights": weights}


def with_model_arrays(model, arrays):
    """Return the model with the hyper-parameters from `model_arrays`."""
    now, stored = model_arrays(model)["weights"], arrays.get("weights", {})
    for name in sorted(set(stored) & set(model.weights.get_params()) - set(now)):
        now[name] = np.array(1.0 if name == "alpha" else 0.0)      # given as an int, learned as a float
    weights = _like(stored, now)
    family = with_family_arrays(model.family, arrays)
    return model.with_family(family).with_weights(model.weights.with_hyper(**weights))


def family_arrays(family):
    """Return the hyper-parameters of a family, which a chain may have learned."""
    values = {name: np.asarray(getattr(family, name), dtype=np.float64) for name in family.hyper}
    factors = getattr(family, "hyper_factors_", {})
    return {"family": values, "factors": {name: np.array(value) for name, value in factors.items()}}


def with_family_arrays(family, arrays):
    """Return the family with the hyper-parameters from `family_arrays`."""
    family = family.with_hyper(**_like(arrays.get("family", {}), family_arrays(family)["family"]))
    if arrays.get("factors"):
        if not set(arrays["factors"]) <= set(family.hyper):
            stored = sorted(arrays["factors"])
            raise ArchiveError(f"factors of {stored} are stored; {family.name} learns {family.hyper}")
        factors = arrays["factors"]
        family = family.with_factors({name: float(numbers(factors, name, (), low=_TINY)) for name in factors})
    return family


def _like(stored, now):
    """Return stored numbers by name; refuse other names, shapes or signs than those of `now`."""
    if set(stored) != set(now):
        raise ArchiveError(f"hyper-parameters {sorted(stored)} are stored; the model has {sorted(now)}")
    values = {}
    for name, value in now.items():
        values[name] = numbers(stored, name, np.shape(value), low=_TINY if np.all(value > 0) else -np.inf,
                               finite=bool(np.isfinite(value).all()))
    return {name: float(value) if value.ndim == 0 else value for name, value in values.items()}


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


def _refuse_truncation(weights):
    if weights.max_components is None:
        raise CapabilityError(
            f"{weights!r} cut off at some number of components is another posterior than the collapsed one:"
            " collapsed and uncollapsed kernels combine under a SymmetricDirichlet only"
        )


def _by_first_appearance(labels):
    """Count the distinct labels, and renumber them from 0 by first appearance: (N,) int32."""
    labels = np.asarray(labels)
    if labels.max() >= 4 * labels.size + 1024:      # numbers of the user: a table up to the largest would be too long
        labels = np.unique(labels, return_inverse=True)[1]
    order = _slots_by_first_appearance(labels)
    rank = np.zeros(int(labels.max()) + 1, dtype=np.int32)
    rank[order] = np.arange(order.size, dtype=np.int32)
    return order.size, rank[labels]


def _slots_by_first_appearance(labels):
    """Return the distinct labels in the order of their first appearance."""
    first = np.full(int(labels.max()) + 1, -1, dtype=np.int64)
    first[labels[::-1]] = np.arange(labels.size - 1, -1, -1)    # of several writes to one place the last one remains
    used = np.flatnonzero(first >= 0)
    return used[np.argsort(first[used])]


def _into_slots(partition, K, state):
    """Put the clusters of a partition into different random components of K: (N,) labels.

    The model with labelled components has the same law only if each choice is equally likely.
    """
    rng = generator(state.seed, "posterior", unit=2, step=state.n_steps)
    return rng.permutation(K)[partition]
