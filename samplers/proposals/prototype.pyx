"""Proposals by group: neighbouring data share one alias table.

The law of a group is the mean of the exact laws p(k | x) of some of its members, the anchors, and of its prototype, the
mean of its phi. A share of every law, the floor, is the weights of the components. The table of a group lists only the
clusters that are more probable than in the floor; all others are drawn from one table that all groups share. So tables
are short and a draw is O(1). A refresh costs one matrix product with a row for each anchor and a column for each
cluster, and a few nanoseconds for each entry of the product.
"""

import warnings
from contextlib import nullcontext

import numpy as np
from scipy import sparse

from cpython.pycapsule cimport PyCapsule_New
from cython cimport final
from libc.math cimport log
from libc.stdint cimport int32_t, uint64_t
from numpy.random cimport bitgen_t
from scipy.linalg.cython_blas cimport sgemm

from expfam.amounts import counted
from expfam.contracts cimport EXPFAM_ABI, EXPFAM_OK, EXPFAM_RANGE, proposal_v1
from expfam.families.dense_source cimport DenseSource, write_phi
from expfam.samplers.proposals.group_tables cimport (
    TABLES_MADE, TABLES_NO_ROOM, GroupTables, TableScratch, make_tables, table_rules, table_scratch,
)
from expfam.structures.ground.arrays cimport address
from expfam.structures.ground.rng cimport TABLES, philox_aim, philox_init, philox_next64, philox_stream
from expfam.structures.ground.team cimport Team
from expfam.structures.simd.sign_codes cimport expfam_mix64
from expfam.structures.selection.alias cimport AliasTable

from expfam.errors import CapabilityError, DataError
from expfam.families.dense_source import dense_source
from expfam.families.support import chosen_rows
from expfam.params import Integer, Real
from expfam.samplers.geometry.neighbourhood import is_taken_as_it_is, means_groups, neighbourhood
from expfam.samplers.proposals.base import Proposal
from expfam.structures.ground.stored import integers
from expfam.structures.ground.threads import resolve_n_threads, run, team_of
from expfam.structures.cover_tree.tree import CoverTree, CoverTreeWarning
from expfam.structures.rows.data_cells import DataCells
from expfam.user_warnings import warn

cdef enum:
    ANCHORS = 1                     # unit of the anchors, of the purpose "tables"

cdef Py_ssize_t LOOP_PRODUCTS = 1 << 33     # of rows, clusters and statistics in a loop without Python

cdef uint64_t STEP = <uint64_t> 0x9E3779B97F4A7C15      # of the counter: 2^64 divided by the golden ratio

_SMALLEST_FLOOR = 1e-6              # tables hold probabilities as multiples of 2**-32
_EVEN = 0.1                         # share of the uniform law in the shared table, so that every cluster can be drawn
_LEAST_GROUP, _LARGEST_GROUP = 128, 2048
_BLOCK_ENTRIES = 1 << 17            # scores of a block, half a MiB: they stay in the cache of a core
_LEAST_ROWS, _MOST_ENTRIES = 128, 1 << 19   # of a block: a product of fewer rows takes longer for each
_TABLE_SHARE = 0.25                 # largest share of the machine's memory for tables
_TABLE_BYTES = 24                   # bytes of an outcome: cell, law and name, and a share of the group's pointers


class PrototypeProposal(Proposal):
    """Proposal of clusters by the laws of a few members of a datum's group and of its mean.

    Parameters
    ----------
    data_cells : {"means", "tree"} or DataCells
        Groups of the data, made once for a run: cells of nested k-means, cells of a cover tree, or given ones. If the
        noise is as wide as the gaps between clusters, means are nearer to the middles of the clusters than any datum at
        which a cover tree could split. The cells of "means" are then purer, and chains get twice as far in the same
        time.
    max_group : int or "auto"
        Maximal number of data of a group; ``"auto"`` is K / 2 for K clusters, at least 128 and at most 2048.
    n_anchors : int
        Number of members that are drawn at each refresh; the draws do not depend on labels. With 0 only the mean of the
        group is used, as published. Sweeps are then cheapest and mix slowly, because other clusters than those of the
        mean are reached only by the floor.
    floor : float in [1e-6, 1)
        Share of the draws that choose clusters by their weights (a tenth of them uniformly).

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import MixtureModel, SphericalGaussian, SymmetricDirichlet
    >>> from expfam.samplers import PrototypeProposal, UncollapsedMetropolis, sample
    >>> X = np.random.default_rng(0).normal(size=(300, 2)) + 20 * np.repeat(np.eye(3, 2), 100, axis=0)
    >>> kernel = UncollapsedMetropolis(PrototypeProposal(max_group=20))
    >>> state = kernel.init(MixtureModel(SphericalGaussian(variance=1.0), SymmetricDirichlet(3)), X, seed=0)
    >>> trace = sample(kernel, state, 10)
    >>> len(set(state.labels[:100])), state.n_clusters
    (1, 3)

    Notes
    -----
    Canopy I of Zaheer, Kottur, Ahmed, Moura and Smola 2017, "Canopy: fast sampling with cover trees", has one prototype
    for a group; anchors, the floor and short tables are not in the paper. q(k | g) = (1 - e) mean_a p(k | a) + e w(k)
    with w = 0.9 pi + 0.1 / K. Clusters for which the first term is smaller than the second are drawn only from w, which
    at most halves their q. log q is exact for the draws of the table, so old or coarse tables keep the kernel exact.
    All data of a group of at most ``n_anchors + 1`` data are anchors. Groups of sparse data have no prototype, unless
    ``n_anchors=0``.
    """

    modes = frozenset({"frozen"})
    _constraints = {
        "data_cells": ("tree", "means", DataCells), "max_group": (Integer(1), "auto"),
        "n_anchors": Integer(0), "floor": Real(_SMALLEST_FLOOR, 1, "[)"),
    }

    def __init__(self, *, data_cells="means", max_group="auto", n_anchors=4, floor=0.02):
        self.data_cells, self.max_group, self.n_anchors, self.floor = data_cells, max_group, n_anchors, floor

    def check(self, model, data):
        """Refuse settings out of range, and cells of other data."""
        super().check(model, data)
        if isinstance(self.data_cells, DataCells) and len(self.data_cells.group) != data.n_rows:
            raise DataError(
                f"data_cells has {counted(len(self.data_cells.group), 'datum', 'data')}; there are {data.n_rows}"
            )

    def largest_group(self, n_clusters):
        """Return the maximal size of a group; "auto" depends only on the number of clusters."""
        if self.max_group != "auto":
            return int(self.max_group)
        return min(max(n_clusters // 2, _LEAST_GROUP), _LARGEST_GROUP)

    def memory(self, model, data, n_clusters):
        """Return the bytes of coordinates, groups and full tables, up to the limit for tables."""
        if isinstance(self.data_cells, DataCells):
            n_groups, width = self.data_cells.n_groups, 0
        else:
            n_groups = 2 * data.n_rows // self.largest_group(n_clusters) + 1
            width = 0 if is_taken_as_it_is(data) else min(data.n_features, 256)  # wider rows are projected
        tables = min(n_groups * (n_clusters + 1) * _TABLE_BYTES, _memory_limit())
        return data.n_rows * (4 * width + 32) + tables + 8 * _MOST_ENTRIES

    def bind(self, model, data, *, seed):
        """Make the bound proposal.

        Its first refresh makes the groups, because it has the number of clusters.
        """
        self.check(model, data)
        return BoundPrototype(self, data, seed)


# ---- the struct ------------------------------------------------------------------------------------------------------

cdef int prototype_draw(void *self, Py_ssize_t i, Py_ssize_t k_old, bitgen_t *rng, Py_ssize_t *k_new, double *log_back,
                        double *work) noexcept nogil:
    cdef const prototype_state *s = <const prototype_state *> self
    if not (0 <= i < s.n_rows and 0 <= k_old < s.K):
        return EXPFAM_RANGE
    k_new[0] = suggested(s, s.group[i], rng)
    log_back[0] = 0.0 if k_new[0] == k_old else log_way_back(s, s.group[i], k_old, k_new[0])
    return EXPFAM_OK


cdef int prototype_log_prob(void *self, Py_ssize_t i, Py_ssize_t k_old, const Py_ssize_t *ks, Py_ssize_t m, double *out,
                            double *work) noexcept nogil:
    cdef const prototype_state *s = <const prototype_state *> self
    cdef Py_ssize_t j
    if s.K == 0 or not 0 <= i < s.n_rows:
        return EXPFAM_RANGE
    for j in range(m):
        out[j] = log(law_of(s, s.group[i], ks[j]) if 0 <= ks[j] < s.K else 0.0)
    return EXPFAM_OK


# ---- making tables ---------------------------------------------------------------------------------------------------

cdef void choose_rows(uint64_t seed, uint64_t step, Py_ssize_t first, Py_ssize_t last, const Py_ssize_t[::1] rows,
                      const Py_ssize_t[::1] starts, const Py_ssize_t[::1] members, Py_ssize_t *out) noexcept nogil:
    """Write the anchors of the groups first..last-1: all data of a group, or drawn ones."""
    # The law needs only anchors that do not depend on labels: hashes of a counter take a tenth of the time of Philox.
    cdef philox_stream rng
    cdef uint64_t key
    cdef Py_ssize_t g, r, size, place
    philox_init(&rng, seed, TABLES)
    philox_aim(&rng, ANCHORS, step)
    key = philox_next64(&rng)
    for g in range(first, last):
        size = starts[g + 1] - starts[g]
        for r in range(rows[g], rows[g + 1]):
            place = r - rows[g]
            if size > rows[g + 1] - rows[g]:
                place = <Py_ssize_t> ((expfam_mix64(key + <uint64_t> r * STEP) >> 32) * <uint64_t> size >> 32)
            out[r - rows[first]] = members[starts[g] + place]


cdef void put_means(const double[::1] center, const double[:, ::1] means, const Py_ssize_t[::1] rows,
                    const Py_ssize_t[::1] starts, Py_ssize_t first, Py_ssize_t last, float *out) noexcept nogil:
    """Put means of groups, minus `center`, in the places of their first anchors.

    Only groups with more data than anchors have means among their anchors.
    """
    cdef Py_ssize_t g, f, F = center.shape[0]
    for g in range(first, last):
        if starts[g + 1] - starts[g] > rows[g + 1] - rows[g] > 0:
            for f in range(F):
                out[(rows[g] - rows[first]) * F + f] = <float> (means[g, f] - center[f])


cdef void fill_item(void *job, Py_ssize_t item, Py_ssize_t thread) noexcept nogil:
    (<Refresh> job).fill(item, thread)


@final
cdef class Refresh:
    """Parameters of one refresh, and the tables that it makes block by block.

    Parameters
    ----------
    bound : BoundPrototype
    table : (F, K) float32 ndarray
        Parameters.
    bias : (K,) float32 ndarray
        What is added to the products of statistics and parameters.
    step : int
        Step of the chain, which decides the anchors.
    """

    cdef BoundPrototype bound
    cdef DenseSource source
    cdef GroupTables tables
    cdef TableScratch scratch
    cdef table_rules rules
    cdef object values, bias, phi           # phi of all anchors, or None
    cdef const float[:, ::1] table          # view of `values`, the parameters
    cdef const Py_ssize_t[::1] rows, cuts, starts, members
    cdef const double[:, ::1] means         # None without anchors of their own
    cdef const double[::1] center
    cdef uint64_t seed, step
    cdef Py_ssize_t[::1] made               # by block, see `make_tables`

    def __init__(self, BoundPrototype bound not None, table, bias, step):
        K = table.shape[1]
        self.bound, self.source, self.values, self.table, self.bias = bound, bound.source, table, table, bias
        self.rules.bias, self.rules.shared_law = <const float *> address(bias), <double *> address(bound.shared_law)
        self.rules.floor, self.rules.K = bound.settings.floor, K
        self.rules.cut = np.log(K / (bound.settings.floor * _EVEN))
        _, self.rows, self.cuts, _ = bound.blocks
        self.starts, self.members = bound.data_cells.indptr, bound.data_cells.members
        self.center, self.seed, self.step = bound.center, bound.seed, step
        self.means = None if bound.data.has_sparse_phi else bound.means
        self.tables, self.scratch = bound.tables, bound.scratch
        self.made = np.full(self.tables.n_blocks, TABLES_MADE, dtype=np.intp)
        self.phi = self._anchors()

    def run(self):
        """Make all tables."""
        cdef Py_ssize_t n_blocks = self.tables.n_blocks
        team, n_threads = self.bound.team, self.bound.n_threads
        if self.source is None:
            run(self._make, [(b,) for b in range(n_blocks)], n_threads)
        else:
            with team_of(n_threads, uses_blas=True) if team is None else nullcontext(team) as team:
                self._share(team)
        for b in range(n_blocks):
            if self.made[b] == TABLES_NO_ROOM:
                raise MemoryError(
                    f"there is no memory for {counted(self.tables.n_groups, 'table')} of PrototypeProposal: give larger"
                    " groups, such as PrototypeProposal(max_group=4096)"
                )
            if self.made[b] != TABLES_MADE:
                datum = self.members[self.starts[self.cuts[b] + self.made[b]]]
                raise FloatingPointError(
                    f"PrototypeProposal: a member of the group of datum {datum} has no finite score under the"
                    " parameters"
                )

    cdef int _share(self, Team team) except -1:
        """Make all tables from compiled statistics."""
        cdef Py_ssize_t n_blocks = self.tables.n_blocks
        cdef Py_ssize_t products = self.rows[self.tables.n_groups] // n_blocks * self.table.shape[0] * self.rules.K
        team.share_in_loops(fill_item, <void *> self, n_blocks, max(LOOP_PRODUCTS // max(products, 1), 64))
        return 0

    cdef void fill(self, Py_ssize_t item, Py_ssize_t thread) noexcept nogil:
        """Make the tables of a block of groups, whose anchors have compiled statistics."""
        # The last groups first: the sweep before has ended with them, so their rows are in the cache.
        cdef Py_ssize_t b = self.tables.n_blocks - 1 - item, first = self.cuts[b], last = self.cuts[b + 1]
        cdef table_scratch *s = &self.scratch.of_thread[thread]
        choose_rows(self.seed, self.step, first, last, self.rows, self.starts, self.members, s.chosen)
        write_phi(self.source, 0, s.chosen, self.rows[last] - self.rows[first], s.row, s.phi)
        put_means(self.center, self.means, self.rows, self.starts, first, last, s.phi)
        self.fill_from(b, s, s.phi)

    cdef void fill_from(self, Py_ssize_t b, table_scratch *s, const float *phi) noexcept nogil:
        """Make the tables of a block from the statistics of its anchors."""
        cdef int m = <int> self.table.shape[1], k = <int> self.table.shape[0]
        cdef int n = <int> (self.rows[self.cuts[b + 1]] - self.rows[self.cuts[b]])
        cdef char plain = b"N"
        cdef float one = 1.0, zero = 0.0
        sgemm(&plain, &plain, &m, &n, &k, &one, <float *> &self.table[0, 0], &m, <float *> phi, &k, &zero, s.scores, &m)
        self.list_from(b, s, s.scores)

    cdef void list_from(self, Py_ssize_t b, table_scratch *s, float *scores) noexcept nogil:
        """Make the tables of a block from its scores."""
        cdef Py_ssize_t first = self.cuts[b], last = self.cuts[b + 1]
        self.made[b] = make_tables(s, &self.rules, scores, &self.rows[first], last - first, &self.tables.blocks[b],
                                   &self.tables.groups[first])

    def _make(self, Py_ssize_t b):
        """Make the tables of a block, whose anchors have statistics that are made by Python."""
        cdef Py_ssize_t thread = self.scratch.free.pop()
        cdef table_scratch *s = &self.scratch.of_thread[thread]
        cdef float[:, ::1] scores
        cdef const float[:, ::1] rows
        phi = self._phi_of(b) if self.phi is None else self.phi[self.rows[self.cuts[b]] : self.rows[self.cuts[b + 1]]]
        if sparse.issparse(phi):
            scores = np.ascontiguousarray(phi @ self.values)
            with nogil:
                self.list_from(b, s, &scores[0, 0])
        else:
            rows = phi
            with nogil:
                self.fill_from(b, s, &rows[0, 0])
        self.scratch.free.append(thread)

    def _anchors(self):
        """Return phi (R, F) of the rows whose laws are averaged: float32 ndarray or CSR.

        None means that each block reads its own. The anchors of group g are rows[g]..rows[g + 1] - 1.
        """
        if int(self.bound.settings.n_anchors) == 0:
            phi = self.bound.means
        elif not self.bound.data.has_sparse_phi:
            return None
        else:
            phi = self._read(0, self.tables.n_groups)
        if sparse.issparse(phi):
            return sparse.csr_array(phi, dtype=np.float32)
        return np.ascontiguousarray(phi - self.bound.center, dtype=np.float32)

    def _phi_of(self, Py_ssize_t b):
        """Return phi of the anchors of a block: dense, float32, centred."""
        cdef Py_ssize_t first = self.cuts[b], last = self.cuts[b + 1]
        cdef float[:, ::1] out
        phi = self._read(first, last)
        phi = out = ((phi.toarray() if sparse.issparse(phi) else phi) - self.bound.center).astype(np.float32)
        with nogil:
            put_means(self.center, self.means, self.rows, self.starts, first, last, &out[0, 0])
        return phi

    def _read(self, Py_ssize_t first, Py_ssize_t last):
        """Return phi of the anchors of the groups first..last-1 as the family makes it."""
        cdef Py_ssize_t[::1] found
        chosen = found = np.empty(self.rows[last] - self.rows[first], dtype=np.intp)
        with nogil:
            choose_rows(self.seed, self.step, first, last, self.rows, self.starts, self.members, &found[0])
        return self.bound.data.family.sufficient_statistics(chosen_rows(self.bound.data.X, chosen))


# ---- the bound proposal ----------------------------------------------------------------------------------------------

@final
cdef class BoundPrototype:
    """A bound `PrototypeProposal`: groups, and tables of one snapshot.

    Attributes
    ----------
    data_cells : DataCells or None
        Groups of the data; the first refresh makes them unless they were given.
    order : (N,) intp ndarray or None
        Data sorted by group; draws in this order read each table once.
    n_threads : int or None
        Number of threads of a refresh; its result does not depend on it.
    table_bytes : int
        Bytes of the tables.
    """

    def __init__(self, settings, data, seed):
        self.settings, self.data, self.seed = settings, data, seed
        self.n_threads, self.limit = None, _memory_limit()
        self.api.abi_version = EXPFAM_ABI
        self.api.struct_size = sizeof(proposal_v1)
        self.api.self = <void *> &self.s
        self.api.draw, self.api.log_prob = prototype_draw, prototype_log_prob
        self.capsule = PyCapsule_New(&self.api, "expfam.proposal_v1", NULL)
        if isinstance(settings.data_cells, DataCells):
            self._set_groups(settings.data_cells)

    @property
    def table_bytes(self):
        """Bytes of the tables; 0 before the first refresh."""
        return 0 if self.tables is None else self.tables.nbytes

    @property
    def order(self):
        """Data sorted by group: (N,) intp ndarray; None before groups are made."""
        return None if self.data_cells is None else self.data_cells.members

    def rebind(self, model):
        """Do nothing: groups and tables do not depend on hyper-parameters."""

    # ---- groups --------------------------------------------------------------------------------------------------

    def _group(self, n_clusters):
        """Make the groups; their maximal size is chosen once, by the number of clusters."""
        if self.max_group is None:
            self.max_group = self.settings.largest_group(n_clusters)
        points = neighbourhood(self.data, self.seed)
        if self.settings.data_cells == "means":
            self._set_groups(DataCells(means_groups(points, self.max_group, self.seed, n_threads=self.n_threads)))
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CoverTreeWarning)   # cells that no split helps are cut into runs
            tree = CoverTree(points, n_threads=self.n_threads)
        self._set_groups(DataCells(_tree_groups(tree, self.max_group)))

    def _set_groups(self, data_cells):
        cdef const int32_t[::1] group
        self.data_cells = data_cells
        self.group32 = group = np.ascontiguousarray(data_cells.group, dtype=np.int32)
        self.s.group, self.s.n_rows = &group[0], group.shape[0]
        self._describe()

    def _describe(self):
        """Compute the means of phi, if they are used, and the number of scored rows of each group."""
        A, sizes, self.blocks = int(self.settings.n_anchors), self.data_cells.sizes, None
        n, S = self.data.statistics(self.data_cells.group, self.data_cells.n_groups)
        total = np.asarray(S.sum(axis=0), dtype=np.float64).ravel() / self.data.n_rows
        self.center = np.zeros_like(total) if self.data.has_sparse_phi else total
        if self.data.has_sparse_phi:
            self.means = sparse.diags_array(1.0 / n) @ S if A == 0 else None
            self.rows_of = np.where(sizes <= A, sizes, max(A, 1))
        else:
            self.means = S / n[:, None]
            self.rows_of = np.where(sizes <= A + 1, sizes, A + 1) if A else np.ones_like(sizes)
        self.source = None
        if A and not self.data.has_sparse_phi:
            self.source = dense_source(self.data.family, self.data.X, self.center)

    # ---- tables --------------------------------------------------------------------------------------------------

    def refresh(self, snapshot):
        """Make the tables of all groups for a snapshot, which must have all components."""
        K = len(snapshot.slots)
        if K == 0 or snapshot.log_weight_new > -np.inf or not np.array_equal(snapshot.slots, np.arange(K)):
            raise CapabilityError("PrototypeProposal needs a fixed number of components, all of them in the snapshot")
        if self.data_cells is None:
            self._group(K)
        self._share(snapshot.log_weight)
        self._fill(snapshot, K)
        while self.table_bytes > self.limit and self._coarsen():
            self._fill(snapshot, K)

    def _share(self, log_weight):
        """Make the table of draws by weight, which all groups share."""
        self.shared = AliasTable(np.asarray(log_weight, dtype=np.float64), is_log=True, floor=_EVEN)
        self.shared_law = self.shared.probability()

    def _coarsen(self):
        """Double the size of groups if tables do not fit; groups never become smaller again."""
        if self.max_group is None or self.max_group >= self.data.n_rows:
            return False
        self.max_group *= 2
        warn(
            f"the tables of PrototypeProposal take {self.table_bytes >> 20} MiB, more than a quarter of the memory:"
            f" groups of up to {counted(self.max_group, 'datum', 'data')} are used instead",
        )
        self._group(None)
        return True

    def _fill(self, snapshot, Py_ssize_t K):
        """Make the tables of all groups, and draw from them from now on."""
        theta = snapshot.Theta
        # subtracting the mean of all parameters changes no law and saves digits
        middle = theta.mean(axis=0)
        bias = snapshot.log_weight - snapshot.G + (theta - middle) @ self.center
        finite = bias > -np.inf
        if not finite.any():
            raise FloatingPointError("PrototypeProposal: no component has a finite weight")
        bias = np.maximum(bias - bias[finite].max(), -1e30).astype(np.float32)
        table = np.ascontiguousarray((theta - middle).T, dtype=np.float32)     # (F, K)
        self.s.K = 0        # nothing is drawn from tables that are not complete
        self._make_room(K, resolve_n_threads(self.n_threads))
        try:
            Refresh(self, table, bias, snapshot.step).run()
        except BaseException:
            self.scratch = None         # it may be left as no table begins
            raise
        self._aim(K)

    def _make_room(self, Py_ssize_t K, Py_ssize_t n_threads):
        """Cut the groups into blocks, and have memory of tables and threads.

        They are the same for all refreshes with the same groups and K.
        """
        if self.blocks is None or self.blocks[0] != K:
            rows = np.concatenate([[0], np.cumsum(self.rows_of)])
            cuts = _cuts(rows, _step(int(rows[len(rows) - 1]), _most_rows(K)))
            self.blocks = (K, rows, cuts, int(np.diff(rows[cuts]).max()))
            self.tables = GroupTables(len(rows) - 1, len(cuts) - 1)
        sizes = self.blocks[3], K, 0 if self.source is None else self.data.n_statistics, n_threads
        if self.scratch is None or self.scratch.sizes != sizes:
            self.scratch = TableScratch(*sizes)

    def _aim(self, K):
        """Draw from the tables that were made."""
        cdef AliasTable shared = self.shared
        longest, least_floor = self.tables.extremes()
        self.s.tables, self.s.longest, self.s.K = self.tables.groups, longest, K
        self.s.shared_cells, self.s.shared_law = shared.view, <const double *> address(self.shared_law)
        self.s.most_back = -np.log(least_floor * self.shared_law.min())

    def to_arrays(self):
        """Return the maximal size of groups; `refresh` makes everything else again."""
        return {} if self.max_group is None else {"max_group": np.array(self.max_group, dtype=np.int64)}

    def from_arrays(self, arrays):
        """Restore the maximal size of groups; a `refresh` must follow."""
        if "max_group" in arrays:
            self.max_group = int(integers(arrays, "max_group", (), 1, 2**31))


def _most_rows(K):
    """Return the largest number of rows of scores of a block."""
    return max(1, min(max(_BLOCK_ENTRIES // K, _LEAST_ROWS), _MOST_ENTRIES // K))


def _step(n_rows, most):
    """Return a number of rows of a block, at most `most`: blocks are one, or an even number."""
    n_blocks = -(-n_rows // most)
    return -(-n_rows // (n_blocks + n_blocks % 2)) if n_blocks > 1 else most


def _cuts(rows, step):
    """Return the first group of each block of about `step` rows of scores, and their number."""
    return np.append(np.flatnonzero(np.diff(rows[:-1] // step, prepend=-1)), len(rows) - 1)


def _tree_groups(tree, max_group):
    """Return the group of each datum: the largest cells of at most `max_group` data.

    Larger leaves are cut into runs.
    """
    return DataCells.from_tree(tree, max_group, phi=np.zeros((len(tree), 1))).group


def _memory_limit():
    """Return how many bytes the tables may use."""
    import os

    try:
        return int(_TABLE_SHARE * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return 1 << 31
