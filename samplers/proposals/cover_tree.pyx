"""Clusters reached by a walk down a tree of them, from the weights of the cells.

At each cell the walk goes on to one of its parts, by the weight that the part's clusters have together if all scored as
its representative does; the probability of a cluster is the product along its path, so the way back is judged along
the path of the old cluster. With `level`, data in one cell of a cover tree of phi share the walk of their mean. A draw
costs O(F) for each part of the cells on two paths, some logarithm of K in all.
"""

import numbers

from cython cimport final
from libc.math cimport INFINITY, exp, log
from libc.stdint cimport int32_t
from numpy.random cimport bitgen_t

from expfam.contracts cimport EXPFAM_NUMERICAL, EXPFAM_OK, EXPFAM_RANGE
from expfam.structures.cluster_tree.cells cimport cluster_cell, cluster_query, item_scores, root_score, tree_item
from expfam.structures.cluster_tree.search cimport tree_search
from expfam.samplers.proposals._on_tree cimport OnTree, aim, column_of, tree_state

from expfam.errors import CapabilityError
from expfam.samplers.proposals.base import Proposal
from expfam.structures.cover_tree.tree import CoverTree
from expfam.structures.data_cells import DataCells


class CoverTreeProposal(Proposal):
    """Clusters by a walk down a tree of them, for each datum or for cells of data.

    Parameters
    ----------
    level : int, optional
        Level of a cover tree of phi, base 1.3, whose cells share the walk of their mean: cells of level l hold data
        within 1.3**(l + 1) of a centre or so. Without it each datum has its own. Dense phi only.
    floor : float in (0, 1), default 0.02
        Share of the draws that go to any cluster with equal probability.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import Dataset, MixtureModel, SphericalGaussian, SymmetricDirichlet
    >>> from expfam.samplers.proposals.cover_tree import CoverTreeProposal
    >>> from expfam.samplers.proposals.handle import ProposalHandle
    >>> from expfam.samplers.proposals.snapshot import Snapshot
    >>> data = Dataset(np.array([[-1.0], [0.0], [9.0]]), SphericalGaussian())
    >>> model = MixtureModel(data.family, SymmetricDirichlet(2))
    >>> handle = ProposalHandle(CoverTreeProposal().bind(model, data, seed=0), "cover_tree")
    >>> n, S = data.statistics(np.array([0, 0, 1]), 2)
    >>> handle.refresh(Snapshot(data.family, n, [0, 1], lambda: S, log_weight=np.log(n)))
    >>> k_new, log_back = handle.draw(2, 0, np.random.default_rng(0))

    Notes
    -----
    The joint descent of Zaheer et al. 2016, "Canopy: fast sampling with cover trees", section 3.2.1, as a proposal.
    Departs from it: one prototype, the mean of the cell of `level`, at all depths of the tree of clusters, where the
    paper takes a coarser one near the root; normalisers are computed where they are needed. Errors of the
    representatives add up along the path, so acceptance is below that of laws that score every cluster.
    """

    modes = frozenset({"frozen"})

    def __init__(self, level=None, *, floor=0.02):
        self.level, self.floor = level, floor

    def memory(self, model, data, n_clusters):
        """Bytes of phi in single precision; sparse phi is read in place."""
        return 0 if data.has_sparse_phi else 4 * data.n_rows * data.n_statistics

    def bind(self, model, data, *, seed):
        """Working object.

        Raises
        ------
        ValueError
            Naming the parameter.
        CapabilityError
            Levels of sparse phi.
        """
        if self.level is not None and not isinstance(self.level, numbers.Integral):
            raise ValueError(f"CoverTreeProposal: level must be an integer or None; got {self.level!r}")
        if not isinstance(self.floor, numbers.Real) or not 0 < self.floor < 1:
            raise ValueError(f"CoverTreeProposal: floor must lie in (0, 1); got {self.floor!r}")
        if self.level is not None and data.has_sparse_phi:
            raise CapabilityError(
                f"CoverTreeProposal: a level needs dense statistics, those of {model.family.name!r} are sparse here;"
                " level=None serves them"
            )
        return BoundCoverTree(self, data)


cdef double weigh_parts(const tree_state *s, const cluster_query *q, tree_search *w, Py_ssize_t c,
                        double f) noexcept nogil:
    """Weights of a cell's items in `before`, relative to the largest, and of what is left at their end: their sum."""
    cdef const cluster_cell *cell = &s.tree.cells[c]
    cdef const tree_item *items = s.tree.items + cell.item
    cdef Py_ssize_t j, n = cell.n_items
    cdef double top, total = 0.0
    cdef double own = f + (s.tree.cells[cell.own].log_beta if cell.own >= 0 else s.tree.log_pi[cell.lo])
    for j in range(n):
        w.which[j] = <int32_t> j
    if n:
        item_scores(&s.tree, q, cell, w.which, n, w.products, w.f)
    top = own
    for j in range(n):
        w.before[j] = w.f[j] + items[j].log_beta
        top = max(top, w.before[j])
    for j in range(n):
        w.before[j] = exp(w.before[j] - top)
        total += w.before[j]
    w.best = exp(own - top)
    return total + w.best


cdef double along(const tree_state *s, const cluster_query *q, tree_search *w, Py_ssize_t position) noexcept nogil:
    """Log probability of the walk to a cluster."""
    cdef const cluster_cell *cell
    cdef const tree_item *item
    cdef Py_ssize_t c = 0, j, hi
    cdef double f, distance, total, result = 0.0
    root_score(&s.tree, q, w.products, &f, &distance)
    while c >= 0:
        cell = &s.tree.cells[c]
        total = weigh_parts(s, q, w, c, f)
        hi = s.tree.cells[cell.own].hi if cell.own >= 0 else cell.lo + 1
        if position < hi:
            result += log(w.best / total)
            c = cell.own
            continue
        for j in range(cell.n_items):
            item = &s.tree.items[cell.item + j]
            hi = s.tree.cells[item.cell].hi if item.cell >= 0 else item.position + 1
            if item.position <= position < hi:
                result += log(w.before[j] / total)
                f, c = w.f[j], item.cell
                break
    return result


cdef inline double mixed(const tree_state *s, const cluster_query *q, tree_search *w, Py_ssize_t column) noexcept nogil:
    """Probability of a cluster."""
    cdef Py_ssize_t position = s.tree.position[column]
    cdef double p = s.floor / s.n_columns
    return p + (1.0 - s.floor) * exp(along(s, q, w, position)) if position >= 0 else p


cdef int cover_draw(void *self, Py_ssize_t i, Py_ssize_t k_old, bitgen_t *rng, Py_ssize_t *k_new, double *log_back,
                    double *work) noexcept nogil:
    cdef tree_state *s = <tree_state *> self
    cdef const cluster_cell *cell
    cdef const tree_item *item = NULL
    cdef tree_search w
    cdef cluster_query q
    cdef double f, distance, total, u, result
    cdef Py_ssize_t old = column_of(s, k_old), column, j, c = 0, position = 0
    if old < 0 or not 0 <= i < s.n_rows:
        return EXPFAM_RANGE
    aim(s, i, &w, &q, work)
    if rng.next_double(rng.state) < s.floor:
        column = <Py_ssize_t> (rng.next_double(rng.state) * s.n_columns)
    else:
        root_score(&s.tree, &q, w.products, &f, &distance)
        while c >= 0:
            cell = &s.tree.cells[c]
            total = weigh_parts(s, &q, &w, c, f)
            if not total < INFINITY:
                return EXPFAM_NUMERICAL
            u = rng.next_double(rng.state) * total - w.best
            position, c = cell.lo, cell.own
            if u < 0.0:
                continue
            for j in range(cell.n_items):
                if w.before[j] > 0.0:
                    item = &s.tree.items[cell.item + j]
                    f, position, c = w.f[j], item.position, item.cell
                    u -= w.before[j]
                    if u < 0.0:
                        break
        column = s.tree.cluster[position]
    result = mixed(s, &q, &w, old) / mixed(s, &q, &w, column)
    k_new[0] = s.slots[column]
    log_back[0] = log(result)
    return EXPFAM_OK if 0.0 < result < INFINITY else EXPFAM_NUMERICAL


cdef int cover_log_prob(void *self, Py_ssize_t i, Py_ssize_t k_old, const Py_ssize_t *ks, Py_ssize_t m, double *out,
                        double *work) noexcept nogil:
    cdef tree_state *s = <tree_state *> self
    cdef tree_search w
    cdef cluster_query q
    cdef Py_ssize_t j, column
    if s.n_slots < 0 or not 0 <= i < s.n_rows:
        return EXPFAM_RANGE
    aim(s, i, &w, &q, work)
    for j in range(m):
        column = column_of(s, ks[j])
        out[j] = log(mixed(s, &q, &w, column) if column >= 0 else 0.0)
    return EXPFAM_OK


@final
cdef class BoundCoverTree(OnTree):
    """A `CoverTreeProposal` at work.

    Parameters
    ----------
    settings : CoverTreeProposal
        Checked.
    data : Dataset

    Attributes
    ----------
    n_groups : int
        Prototypes: cells of data, or data.
    """

    cdef readonly Py_ssize_t n_groups

    def __init__(self, settings, data):
        rows = row_of = None
        self.n_groups = data.n_rows
        if settings.level is not None:
            data_cells = _cells_of_data(data, int(settings.level))
            rows, row_of, self.n_groups = data_cells.prototype, data_cells.group, data_cells.n_groups
        super().__init__(data, float(settings.floor), rows, row_of)
        self.api.draw, self.api.log_prob = cover_draw, cover_log_prob


def _cells_of_data(data, level):
    """DataCells of the data by the cells of a cover tree of phi at a level, with their means."""
    phi = data.phi(0, data.n_rows)
    tree = CoverTree(phi, leaf=1)
    return DataCells(tree.assign(tree.cells_at(level)), phi=phi)
