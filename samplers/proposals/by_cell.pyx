"""Proposals written in NumPy: one law over clusters for each group of data.

An author writes which group a datum belongs to and how probable each cluster is for each group. Tables, the floor and
the C struct are made here. Data of a group share a law, so its cost is paid once for the group: O(G K) for a refresh
and 16 bytes for each group and cluster. A draw from the alias table of a group is O(1).
"""

import numpy as np
from scipy import sparse

from cpython.pycapsule cimport PyCapsule_New
from cython cimport final
from libc.math cimport log
from numpy.random cimport bitgen_t

from expfam.contracts cimport EXPFAM_ABI, EXPFAM_NEW, EXPFAM_OK, EXPFAM_RANGE, proposal_v1
from expfam.structures.selection.alias cimport AliasArena, alias_arena, alias_arena_draw, alias_arena_probability

from expfam.errors import DataError
from expfam.params import Real, check_settings
from expfam.samplers.proposals.base import Proposal

_SMALLEST_FLOOR = 1e-6               # tables hold probabilities as multiples of 2**-32
_BLOCK_ENTRIES = 1 << 20            # entries of a block of probabilities that is made dense


class CellProposal(Proposal):
    """Base class of proposals in NumPy with one law over clusters for each group of data.

    A subclass writes only `groups` and `probabilities`. Its constructor may store further settings.

    Parameters
    ----------
    floor : float in [1e-6, 1), default 0.02
        Share of the draws that choose any cluster, or a new one, with equal probability.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import Dataset, DirichletProcess, MixtureModel, Poisson
    >>> from expfam.samplers import CollapsedMetropolis, CellProposal
    >>> class BySign(CellProposal):
    ...     def groups(self, data):
    ...         return (data.X[:, 0] > 3).astype(int)
    ...     def probabilities(self, snapshot):
    ...         mean = snapshot.S[:, 0] / snapshot.n
    ...         return snapshot.n * np.where(np.array([[False], [True]]), mean > 3, mean <= 3)
    >>> data = Dataset([[0], [1], [9], [8], [0]], Poisson())
    >>> model = MixtureModel(data.family, DirichletProcess(alpha=1.0))
    >>> state = CollapsedMetropolis(BySign(floor=0.1), mode="crossfit").init(model, data, seed=0)
    >>> CollapsedMetropolis(BySign(floor=0.1), mode="crossfit").step(state).step
    1

    Notes
    -----
    q(k | i) = (1 - floor) p_gk / sum p_g + floor / M, where g is the group of i, and M is the number of clusters that
    can be proposed, a new one included. A row of zeros becomes the uniform law. Probabilities are those of the tables
    as they draw, multiples of 2**-64. The modes are "crossfit" and "frozen", because statistics cannot be updated datum
    by datum.
    """

    modes = frozenset({"crossfit", "frozen"})
    floor = 0.02
    _constraints = {"floor": Real(_SMALLEST_FLOOR, 1, "[)")}

    def __init__(self, *, floor=0.02):
        self.floor = floor

    def groups(self, data):
        """Return the group of each datum of a `Dataset`: (N,) ndarray of int.

        Numbers of groups are not negative. They must not depend on labels.
        """
        raise NotImplementedError(f"{type(self).__name__} does not implement groups()")

    def probabilities(self, snapshot):
        """Return the weight of each cluster of a snapshot for each group.

        Parameters
        ----------
        snapshot : Snapshot

        Returns
        -------
        (G, K) ndarray or CSR
            Weights, not negative; rows need not be normalised. Columns are in the order of ``snapshot.slots``. A
            further column, (G, K + 1), is the weight of a new cluster; it is ignored if no cluster can be opened.
            Without it a new cluster gets its share of the floor.
        """
        raise NotImplementedError(f"{type(self).__name__} does not implement probabilities()")

    def bind(self, model, data, *, seed):
        """Make the bound proposal.

        Raises
        ------
        ValueError
            The floor is out of range.
        DataError
            `groups` does not return a group number for each datum; the message names the class.
        """
        check_settings(self)
        return BoundGrouped(self, data)


ctypedef struct grouped_state:
    alias_arena arena
    const Py_ssize_t *group         # (N,)
    const Py_ssize_t *slots         # (columns,) slot of each column, EXPFAM_NEW for a new cluster
    const Py_ssize_t *columns       # (n_slots,) column of each slot, -1 for slots that are not in the snapshot
    Py_ssize_t new_column           # -1 if no cluster can be opened
    Py_ssize_t n_slots
    Py_ssize_t n_rows


cdef inline Py_ssize_t column_of(const grouped_state *s, Py_ssize_t k) noexcept nogil:
    if k == EXPFAM_NEW:
        return s.new_column
    return s.columns[k] if 0 <= k < s.n_slots else -1


cdef int grouped_draw(void *self, Py_ssize_t i, Py_ssize_t k_old, bitgen_t *rng, Py_ssize_t *k_new, double *log_back,
                      double *work) noexcept nogil:
    cdef grouped_state *s = <grouped_state *> self
    cdef Py_ssize_t old = column_of(s, k_old), drawn
    if old < 0 or not 0 <= i < s.n_rows:
        return EXPFAM_RANGE
    drawn = alias_arena_draw(&s.arena, s.group[i], rng.next_uint64(rng.state))
    k_new[0] = s.slots[drawn]
    log_back[0] = log(
        alias_arena_probability(&s.arena, s.group[i], old) / alias_arena_probability(&s.arena, s.group[i], drawn)
    )
    return EXPFAM_OK


cdef int grouped_log_prob(void *self, Py_ssize_t i, Py_ssize_t k_old, const Py_ssize_t *ks, Py_ssize_t m, double *out,
                          double *work) noexcept nogil:
    cdef grouped_state *s = <grouped_state *> self
    cdef Py_ssize_t j, column
    if s.n_slots < 0 or not 0 <= i < s.n_rows:
        return EXPFAM_RANGE
    for j in range(m):
        column = column_of(s, ks[j])
        out[j] = log(alias_arena_probability(&s.arena, s.group[i], column) if column >= 0 else 0.0)
    return EXPFAM_OK


@final
cdef class BoundGrouped:
    """A bound `CellProposal`: alias tables of one snapshot."""

    cdef proposal_v1 api
    cdef grouped_state s
    cdef readonly object capsule
    cdef public object pending
    cdef object settings, name
    cdef object group, slots, columns
    cdef AliasArena arena

    def __init__(self, settings, data):
        self.settings, self.name = settings, type(settings).__name__
        self.group = self._checked_groups(settings.groups(data), data.n_rows)
        cdef const Py_ssize_t[::1] view = self.group
        self.s.group, self.s.n_rows = &view[0], data.n_rows
        self.s.n_slots = self.s.new_column = -1
        self.api.abi_version = EXPFAM_ABI
        self.api.struct_size = sizeof(proposal_v1)
        self.api.self = <void *> &self.s
        self.api.draw, self.api.log_prob = grouped_draw, grouped_log_prob
        self.capsule = PyCapsule_New(&self.api, "expfam.proposal_v1", NULL)

    def _checked_groups(self, groups, n_rows):
        groups = np.asarray(groups)
        if groups.shape != (n_rows,) or groups.dtype.kind not in "biu":
            raise DataError(
                f"{self.name}.groups must return ({n_rows},) integers; got {groups.dtype} of shape {groups.shape}"
            )
        if groups.min() < 0:
            at = int(np.argmin(groups))
            raise DataError(f"{self.name}.groups must not be negative; datum {at} has group {groups[at]}")
        return np.array(groups, dtype=np.intp)

    def refresh(self, snapshot):
        """Make the tables from the probabilities of a snapshot."""
        K, can_open = len(snapshot.slots), snapshot.log_weight_new > -np.inf
        given = self.settings.probabilities(snapshot)
        given = given.tocsr() if sparse.issparse(given) else np.asarray(given)
        n_groups, size = int(self.group.max()) + 1, K + can_open
        self._check_shape(given, n_groups, K)
        arena = self.arena
        if arena is None or arena.size != size or arena.n_tables != given.shape[0]:
            arena = AliasArena(given.shape[0], size, floor=float(self.settings.floor), keep_probability=True)
        step = max(1, _BLOCK_ENTRIES // max(size, 1))
        for start in range(0, given.shape[0], step):
            arena.fill(self._weights(given[start : start + step], start, size), first=start)
        self._set_tables(arena, snapshot, can_open)

    def _check_shape(self, given, n_groups, K):
        is_number = given.dtype.kind in "biuf"
        if not is_number or given.ndim != 2 or given.shape[0] < n_groups or given.shape[1] not in (K, K + 1):
            raise DataError(
                f"{self.name}.probabilities must return ({n_groups}, {K}) numbers, groups by clusters of the snapshot,"
                f" or one column more for a new cluster; got {given.dtype} of shape {given.shape}"
            )

    def _weights(self, block, first, size):
        """Check the weights of a block of groups, add missing columns, make rows of zeros uniform."""
        block = block.toarray() if sparse.issparse(block) else block
        weights = np.zeros((block.shape[0], size))
        width = min(size, block.shape[1])
        weights[:, :width] = block[:, :width]
        bad = np.argwhere(~(np.isfinite(block) & (block >= 0)))
        if len(bad):
            g, k = bad[0]
            raise DataError(
                f"{self.name}.probabilities must be finite and not negative; group {first + g}, column {k} holds"
                f" {block[g, k]}"
            )
        weights[~weights.any(axis=1)] = 1.0
        return weights

    def _set_tables(self, AliasArena arena, snapshot, can_open):
        cdef Py_ssize_t K = len(snapshot.slots)
        self.arena = arena
        self.slots = np.append(snapshot.slots, EXPFAM_NEW).astype(np.intp)
        self.columns = np.full(int(snapshot.slots.max(initial=-1)) + 2, -1, dtype=np.intp)
        self.columns[snapshot.slots] = np.arange(K)
        cdef const Py_ssize_t[::1] slots = self.slots, columns = self.columns
        self.s.arena = arena.arena
        self.s.slots, self.s.columns, self.s.n_slots = &slots[0], &columns[0], columns.shape[0]
        self.s.new_column = K if can_open else -1

    def to_arrays(self):
        """Return no arrays: `refresh` makes everything again."""
        return {}

    def from_arrays(self, arrays):
        """Do nothing; a `refresh` must follow."""
