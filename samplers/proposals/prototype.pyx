"""Proposals by group: neighbouring data share one alias table.

The law of a group is the mean of the exact laws p(k | x) of some of its members, the anchors, and of its prototype, the
mean of its phi. A share of every law, the floor, is the weights of the components. The table of a group lists only the
clusters that are more probable than in the floor; all others are drawn from one table that all groups share. So tables
are short and a draw is O(1). A refresh costs one matrix product with a row for each anchor and a column for each
cluster, and a few nanoseconds for each entry of the product.
"""

import warnings

import numpy as np
from scipy import sparse

from cpython.pycapsule cimport PyCapsule_New
from cython cimport final
from libc.math cimport log
from libc.stdint cimport int32_t, uint32_t, uint64_t
from numpy.random cimport bitgen_t

from expfam.amounts import counted
from expfam.contracts cimport EXPFAM_ABI, EXPFAM_OK, EXPFAM_RANGE, proposal_v1
from expfam.families.dense_source cimport DenseSource, write_phi
from expfam.structures.ground.arrays cimport aligned, in_lines
from expfam.structures.ground.rng cimport TABLES, philox_aim, philox_init, philox_next64, philox_stream
from expfam.structures.simd.float_softmax cimport expfam_float_exp_blocks
from expfam.structures.simd.sign_codes cimport expfam_mix64
from expfam.structures.simd.prototypes cimport expfam_above, expfam_biased_tops
from expfam.structures.selection.alias cimport ALIAS_OK, AliasTable, alias_build, alias_cell, alias_law

from expfam.errors import CapabilityError, DataError
from expfam.families.dense_source import dense_source
from expfam.families.support import chosen_rows
from expfam.params import Integer, Real
from expfam.samplers.geometry.neighbourhood import is_taken_as_it_is, means_groups, neighbourhood
from expfam.samplers.proposals.base import Proposal
from expfam.structures.ground.stored import integers
from expfam.structures.ground.threads import run
from expfam.structures.cover_tree.tree import CoverTree, CoverTreeWarning
from expfam.structures.rows.data_cells import DataCells
from expfam.user_warnings import warn

cdef enum:
    ANCHORS = 1                     # unit of the anchors, of the purpose "tables"

cdef uint64_t STEP = <uint64_t> 0x9E3779B97F4A7C15      # of the counter: 2^64 divided by the golden ratio

_SMALLEST_FLOOR = 1e-6              # tables hold probabilities as multiples of 2**-32
_EVEN = 0.1                         # share of the uniform law in the shared table, so that every cluster can be drawn
_LEAST_GROUP, _LARGEST_GROUP = 128, 2048
_BLOCK_ENTRIES = 1 << 19            # scores of a task: 2 MiB of float32
_TABLE_SHARE = 0.25                 # largest share of the machine's memory for tables
_TABLE_BYTES = 24                   # bytes of an entry: cell, law and name, and copies while tables are joined


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
        return data.n_rows * (4 * width + 32) + tables + 8 * _BLOCK_ENTRIES

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

cdef inline int lowest_bit(uint64_t word) noexcept nogil:
    """Return the number of the lowest bit of a word that is not 0."""
    cdef int at = 0
    while not word & 0xFF:
        word >>= 8
        at += 8
    while not word & 1:
        word >>= 1
        at += 1
    return at


cdef class Scratch:
    """Scratch memory of one task; later tasks use it again."""

    cdef object phi, scores, tops, values, places, sums, total, seen, work, queue, mass, chosen
    cdef double[::1] row            # (F,)
    cdef float *top
    cdef float *value
    cdef uint32_t *place
    cdef float *sum
    cdef double *share              # (K + 1,) zero between groups
    cdef uint64_t *bits             # (K / 64 + 1,) zero between groups
    cdef double *part
    cdef uint32_t *turn
    cdef uint64_t *word

    def __init__(self, Py_ssize_t n_rows, Py_ssize_t K, Py_ssize_t F):
        cdef Py_ssize_t padded = K + 64 + 16
        cdef float[::1] tops, values, sums
        cdef uint32_t[::1] places, queue
        cdef double[::1] total, work
        cdef uint64_t[::1] seen, mass
        self.phi, self.row = in_lines((n_rows, F), np.float32), in_lines(F)
        self.chosen = in_lines(n_rows, np.intp)
        self.scores = in_lines((n_rows, K), np.float32)
        self.tops = tops = in_lines(K // 16 + 1, np.float32)
        self.values = values = in_lines(padded, np.float32)
        self.sums = sums = in_lines(padded // 64 + 1, np.float32)
        self.places = places = in_lines(padded, np.uint32)
        self.total = total = aligned(K + 1)
        self.seen = seen = aligned(K // 64 + 1, np.uint64)
        self.work = work = in_lines(K + 1)
        self.queue = queue = in_lines(K + 1, np.uint32)
        self.mass = mass = in_lines(K + 1, np.uint64)
        self.top, self.value, self.sum, self.place = &tops[0], &values[0], &sums[0], &places[0]
        self.share, self.bits, self.part, self.turn, self.word = &total[0], &seen[0], &work[0], &queue[0], &mass[0]


cdef int add_law(Scratch s, float *scores, const float *bias, double cut, double share, Py_ssize_t K) noexcept nogil:
    """Add `share` times the law of one row of scores; return 1 if no score is finite."""
    cdef float best = expfam_biased_tops(scores, bias, s.top, K)
    cdef float scale
    cdef double *shares = s.share
    cdef uint64_t *bits = s.bits
    cdef Py_ssize_t found, n_blocks, j
    if not -1e30 < best < 1e30:
        return 1
    found = expfam_above(scores, s.top, <float> (best - cut), K, s.value, s.place)
    n_blocks = (found + 63) // 64
    for j in range(found, 64 * n_blocks):
        s.value[j] = <float> -1e38
    expfam_float_exp_blocks(s.value, best, s.sum, n_blocks)
    scale = 0.0
    for j in range(found):
        scale += s.value[j]
    scale = <float> (share / scale)
    for j in range(found):
        shares[s.place[j]] += scale * s.value[j]
        bits[s.place[j] >> 6] |= (<uint64_t> 1) << (s.place[j] & 63)
    return 0


cdef Py_ssize_t list_law(Scratch s, double floor, const double *shared_law, uint32_t *names,
                         Py_ssize_t K) noexcept nogil:
    """List the clusters whose share is larger than in the floor, and last the floor itself.

    Weights are written to `part`, and all shares are set to 0. Returns the length of the list.
    """
    cdef Py_ssize_t w, k, size = 0
    cdef uint64_t word
    for w in range((K + 63) // 64):
        word = s.bits[w]
        s.bits[w] = 0
        while word:
            k = 64 * w + lowest_bit(word)
            word &= word - 1
            if (1.0 - floor) * s.share[k] > floor * shared_law[k]:
                s.part[size] = (1.0 - floor) * s.share[k]
                names[size] = <uint32_t> k
                size += 1
            s.share[k] = 0.0
    s.part[size] = floor
    names[size] = <uint32_t> K
    return size + 1


cdef Py_ssize_t make_tables(Scratch s, float[:, ::1] scores, const float[::1] bias, const Py_ssize_t[::1] rows,
                            double cut, double floor, const double[::1] shared_law, alias_cell *cells, double *law,
                            uint32_t *names, Py_ssize_t[::1] sizes) noexcept nogil:
    """Make the tables of consecutive groups; group g has the scores rows[g]..rows[g + 1] - 1.

    Returns their total size, or -1 - g if group g has no finite score.
    """
    cdef Py_ssize_t g, r, size, at = 0, K = scores.shape[1]
    cdef double *parts
    for g in range(sizes.shape[0]):
        for r in range(rows[g], rows[g + 1]):
            if add_law(s, &scores[r - rows[0], 0], &bias[0], cut, 1.0 / (rows[g + 1] - rows[g]), K):
                return -1 - g
        size = list_law(s, floor, &shared_law[0], names + at, K)
        parts = law + at            # a copy: the builder uses `part` as scratch
        for r in range(size):
            parts[r] = s.part[r]
        if alias_build(parts, size, False, 0.0, cells + at, s.part, s.turn) != ALIAS_OK:
            return -1 - g
        alias_law(cells + at, size, s.word, law + at)
        sizes[g] = size
        at += size
    return at


cdef void choose_rows(uint64_t seed, uint64_t step, Py_ssize_t first, Py_ssize_t last, const Py_ssize_t[::1] rows,
                      const Py_ssize_t[::1] starts, const Py_ssize_t[::1] members, Py_ssize_t[::1] out) noexcept nogil:
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
                    const Py_ssize_t[::1] starts, Py_ssize_t first, Py_ssize_t last, float[:, ::1] out) noexcept nogil:
    """Put means of groups, minus `center`, in the places of their first anchors.

    Only groups with more data than anchors have means among their anchors.
    """
    cdef Py_ssize_t g, f
    for g in range(first, last):
        if starts[g + 1] - starts[g] > rows[g + 1] - rows[g] > 0:
            for f in range(center.shape[0]):
                out[rows[g] - rows[first], f] = <float> (means[g, f] - center[f])


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

    def _anchors(self, step, rows):
        """Return phi (R, F) of the rows whose laws are averaged, or None.

        None means that each block of groups reads its own. The anchors of group g are rows[g]..rows[g + 1] - 1.
        """
        if int(self.settings.n_anchors) == 0:
            return self._as_scores(self.means)
        if not self.data.has_sparse_phi:
            return None
        chosen = self._chosen(step, 0, len(self.rows_of), rows)
        return self._as_scores(self.data.family.sufficient_statistics(chosen_rows(self.data.X, chosen)))

    def _chosen(self, step, first, last, rows):
        """Return the rows that are anchors of the groups first..last-1."""
        cdef uint64_t seed = self.seed, of_step = step
        cdef const Py_ssize_t[::1] row = rows, starts = self.data_cells.indptr, members = self.data_cells.members
        cdef Py_ssize_t begin = first, end = last
        cdef Py_ssize_t[::1] found
        chosen = found = np.empty(rows[last] - rows[first], dtype=np.intp)
        with nogil:
            choose_rows(seed, of_step, begin, end, row, starts, members, found)
        return chosen

    def _phi_of(self, Scratch scratch, DenseSource source, step, first, last, rows):
        """Return phi of the anchors of the groups first..last-1: dense, float32, centred."""
        cdef const Py_ssize_t[::1] row = rows, starts = self.data_cells.indptr, members = self.data_cells.members
        cdef const double[:, ::1] means = self.means
        cdef const double[::1] center = self.center
        cdef float[:, ::1] out
        cdef Py_ssize_t[::1] found
        cdef uint64_t seed = self.seed, of_step = step
        cdef Py_ssize_t begin = first, end = last
        chosen = found = scratch.chosen[: rows[last] - rows[first]]
        centred = out = scratch.phi[: len(chosen)]
        if source is None:
            with nogil:
                choose_rows(seed, of_step, begin, end, row, starts, members, found)
            phi = _dense(self.data.family.sufficient_statistics(chosen_rows(self.data.X, chosen)))
            np.subtract(phi, self.center, out=centred, casting="same_kind")
        with nogil:
            if source is not None:
                choose_rows(seed, of_step, begin, end, row, starts, members, found)
                write_phi(source, 0, &found[0], found.shape[0], &scratch.row[0], &out[0, 0])
            put_means(center, means, row, starts, begin, end, out)
        return centred

    def _as_scores(self, phi):
        if sparse.issparse(phi):
            return sparse.csr_array(phi, dtype=np.float32)
        return np.ascontiguousarray(phi - self.center, dtype=np.float32)

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
        self._aim(K)

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
        rows, bounds, largest = self._blocks(K)
        anchors, theta = self._anchors(snapshot.step, rows), snapshot.Theta
        # subtracting the mean of all parameters changes no law and saves digits
        middle = theta.mean(axis=0)
        bias = snapshot.log_weight - snapshot.G + (theta - middle) @ self.center
        finite = bias > -np.inf
        if not finite.any():
            raise FloatingPointError("PrototypeProposal: no component has a finite weight")
        bias = np.maximum(bias - bias[finite].max(), -1e30).astype(np.float32)
        table = np.ascontiguousarray((theta - middle).T, dtype=np.float32)     # (F, K)
        sizes = largest, K, self.data.n_statistics if anchors is None else 0
        if self.spare is None or self.spare[0] != sizes:
            self.spare = sizes, []              # to make it again for each step would take a thread as long as to wake
        spare = self.spare[1]
        source = None if anchors is not None else dense_source(self.data.family, self.data.X, self.center)

        def block(first, last):
            try:
                scratch = spare.pop()
            except IndexError:
                scratch = Scratch(*sizes)
            if anchors is None:
                phi = self._phi_of(scratch, source, snapshot.step, first, last, rows)
            else:
                phi = anchors[rows[first] : rows[last]]
            made = self._block(scratch, phi, table, bias, rows[first : last + 1])
            spare.append(scratch)
            return made

        # the last groups first: the sweep before has ended with them, so their rows are in the cache
        made = run(block, bounds[::-1], self.n_threads)[::-1]
        self.cells = np.concatenate([part[0] for part in made])
        self.law = np.concatenate([part[1] for part in made])
        self.names = np.concatenate([part[2] for part in made])
        self.start = np.zeros(len(rows), dtype=np.intp)
        np.cumsum(np.concatenate([part[3] for part in made]), out=self.start[1:])
        self.table_bytes = _TABLE_BYTES * len(self.law)
        self.s.longest, self.least_floor = max(part[4] for part in made), min(part[5] for part in made)

    def _blocks(self, Py_ssize_t K):
        """Return the first row of scores of each group, and bounds of blocks of groups.

        The third result is the number of rows of the largest block. All stay the same while the groups do.
        """
        if self.blocks is None or self.blocks[0] != K:
            rows = np.concatenate([[0], np.cumsum(self.rows_of)])
            bounds = _cuts(rows, _step(int(rows[len(rows) - 1]), max(1, _BLOCK_ENTRIES // K)))
            self.blocks = (K, rows, bounds, max(int(rows[last] - rows[first]) for first, last in bounds))
        return self.blocks[1:]

    def _block(self, Scratch scratch, phi, table, bias, rows):
        """Make the tables of a few groups.

        They are cells, law, names and sizes. The largest size and the least probability of a draw by weight follow.
        """
        cdef Py_ssize_t n_rows = phi.shape[0], K = table.shape[1], n_groups = len(rows) - 1, room, filled
        cdef float[:, ::1] scores
        cdef const float[::1] bias_view = bias
        cdef const Py_ssize_t[::1] row = rows
        cdef const double[::1] shared_law = self.shared_law
        cdef double floor = self.settings.floor
        cdef double cut = np.log(K / (floor * _EVEN))   # nats below the best; lower clusters belong to the floor
        cdef Py_ssize_t[::1] size_view
        cdef uint32_t[:, ::1] cell_view
        cdef double[::1] law_view
        cdef uint32_t[::1] name_view
        if sparse.issparse(phi):
            scores = found = np.ascontiguousarray(phi @ table)
        else:
            scores = found = np.matmul(phi, table, out=scratch.scores[:n_rows])
        room = n_groups * (K + 1)
        cells, law = np.empty((room, 2), dtype=np.uint32), np.empty(room)   # pages never written need no memory
        names, sizes = np.empty(room, dtype=np.uint32), np.empty(n_groups, dtype=np.intp)
        cell_view, law_view, name_view, size_view = cells, law, names, sizes
        with nogil:
            filled = make_tables(scratch, scores, bias_view, row, cut, floor, shared_law,
                                 <alias_cell *> &cell_view[0, 0], &law_view[0], &name_view[0], size_view)
        if filled < 0:
            raise FloatingPointError(
                f"PrototypeProposal: a member of the group of datum {self._example(rows, -1 - filled)} has no finite"
                " score under the parameters"
            )
        least = float(law[np.cumsum(sizes) - 1].min())
        return cells[:filled].copy(), law[:filled].copy(), names[:filled].copy(), sizes, int(sizes.max()), least

    def _example(self, rows, place):
        g = np.searchsorted(np.cumsum(self.rows_of), rows[place], side="right")
        return int(self.data_cells.members[self.data_cells.indptr[g]])

    cdef int _aim(self, Py_ssize_t K) except -1:
        cdef uint32_t[:, ::1] cells = self.cells
        cdef const double[::1] law = self.law, shared_law = self.shared_law
        cdef const uint32_t[::1] names = self.names
        cdef const Py_ssize_t[::1] start = self.start
        cdef AliasTable shared = self.shared
        self.s.cells, self.s.law, self.s.names = <alias_cell *> &cells[0, 0], &law[0], &names[0]
        self.s.start, self.s.shared_cells, self.s.shared_law = &start[0], shared.view, &shared_law[0]
        self.s.K = K
        self.s.most_back = -np.log(self.least_floor * self.shared_law.min())
        return 0

    def to_arrays(self):
        """Return the maximal size of groups; `refresh` makes everything else again."""
        return {} if self.max_group is None else {"max_group": np.array(self.max_group, dtype=np.int64)}

    def from_arrays(self, arrays):
        """Restore the maximal size of groups; a `refresh` must follow."""
        if "max_group" in arrays:
            self.max_group = int(integers(arrays, "max_group", (), 1, 2**31))


def _dense(phi):
    return phi.toarray() if sparse.issparse(phi) else phi


def _step(n_rows, most):
    """Return a number of rows of a block, at most `most`: blocks are one, or an even number."""
    n_blocks = -(-n_rows // most)
    return -(-n_rows // (n_blocks + n_blocks % 2)) if n_blocks > 1 else most


def _cuts(rows, step):
    """Return bounds of runs of groups with about `step` rows of scores, from sizes only."""
    cuts = np.flatnonzero(np.diff(rows[:-1] // step, prepend=-1))
    return list(zip(cuts.tolist(), [*cuts[1:].tolist(), len(rows) - 1]))


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
