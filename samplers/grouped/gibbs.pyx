"""Exact Gibbs sweeps over rows in groups, with weights and parameters integrated out.

A sweep goes group by group: it holds the counts of one group, O(K), and computes those of the next group from the
labels of its rows.
"""

import numpy as np

from libc.math cimport log
from libc.stdint cimport int64_t

from expfam.samplers.collapsed.gibbs cimport Sweep, sweep
from expfam.samplers.states.classes cimport ClassTable
from expfam.structures.ground.rng cimport philox_stream
from expfam.structures.simd.vectors cimport expfam_add_row

from expfam.model.pseudo_counts import draw_pseudocounts
from expfam.params import Integer
from expfam.samplers.collapsed.gibbs import CollapsedGibbs, law_of, run_sweep
from expfam.samplers.grouped.gibbs_state import GroupedState
from expfam.samplers.grouped.linked import draw_linked_groups
from expfam.samplers.grouped.rows import check_grouped, first_clusters
from expfam.structures.ground.rng import generator


cdef bint begin_in_group(sweep *s, Py_ssize_t i) noexcept nogil:
    """Compute counts and masses of the group of row i, if it is not the present one."""
    cdef group_counts *t = <group_counts *> s.masses.self
    cdef Py_ssize_t k, place, g = t.of_row[i]
    if t.visited == g:
        return True
    t.visited = g
    for k in range(s.slots.n_slots):
        t.counts[k] = 0
    for place in range(t.starts[g], t.starts[g + 1]):
        t.counts[s.labels[t.rows[place]]] += 1
    for k in range(s.slots.n_slots):
        t.log_mass[k] = log(t.counts[k] + t.alpha[k])
    return True


cdef void add_group_masses(sweep *s, Py_ssize_t old, double own) noexcept nogil:
    """Add log masses of all clusters in the present group, without a datum of cluster `old`."""
    cdef group_counts *t = <group_counts *> s.masses.self
    expfam_add_row(s.scores, t.log_mass, 1.0, s.slots.n_slots)
    s.scores[old] = log(t.counts[old] - 1 + t.alpha[old]) + own


cdef void change_in_group(sweep *s, Py_ssize_t old, Py_ssize_t new, philox_stream *rng) noexcept nogil:
    """Count a datum in cluster `new` in place of `old`, in the present group and in total."""
    change_count(s, old, -1)
    change_count(s, new, 1)


cdef inline void change_count(sweep *s, Py_ssize_t k, int64_t change) noexcept nogil:
    """Change the number of data of cluster k by 1 or -1."""
    cdef group_counts *t = <group_counts *> s.masses.self
    t.counts[k] += change
    t.log_mass[k] = log(t.counts[k] + t.alpha[k])
    s.slots.n_live -= s.slots.counts[k] > 0
    s.slots.counts[k] += change
    s.slots.n_live += s.slots.counts[k] > 0


class GroupedGibbs(CollapsedGibbs):
    """Exact Gibbs sweep over rows in groups, with parameters and weights integrated out.

    The cluster k of a datum in group g is drawn with probability proportional to n_gk + alpha_k times the predictive
    of the datum, given all data of the cluster in all groups. Linked rows move as one. One thread, float64, any family;
    O(K) memory beside the state.

    Parameters
    ----------
    order : {"sequential", "random"}
        Order of the groups, and of the rows of each group, in a sweep: by their numbers, or a new random order for each
        sweep.
    learn_alpha : bool
        Draw the pseudo-count of each cluster from its conditional law, under a Gamma(1, 1) prior.
    learn_every : int
        Number of sweeps from one draw of the pseudo-counts to the next.
    backward : bool
        Make the reversed step: draw the pseudo-counts first, then linked rows, then all others, in the opposite order.
        Checks of the sampler use it.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import AdmixtureModel, Dataset, Poisson
    >>> from expfam.samplers import GroupedGibbs, sample
    >>> X = np.repeat([[0, 9], [9, 0]], 20, axis=0)
    >>> data = Dataset(X, Poisson(), groups=np.arange(40) % 4)
    >>> kernel = GroupedGibbs(learn_alpha=False)
    >>> state = kernel.init(AdmixtureModel(data.family, 2, alpha=0.5), data, seed=0)
    >>> trace = sample(kernel, state, 20)
    >>> state.group_counts().toarray().tolist() == [[5, 5]] * 4
    True

    Notes
    -----
    Griffiths and Steyvers 2004, "Finding scientific topics", with rows of any family in place of words.
    """

    state_type = GroupedState
    takes_groups = True
    takes_known = frozenset({"clusters", "links"})
    _constraints = {"order": ("sequential", "random"), "learn_every": Integer(1), "backward": bool}

    def __init__(self, *, order="sequential", learn_alpha=True, learn_every=1, backward=False):
        super().__init__(order=order)
        self.learn_alpha, self.learn_every, self.backward = learn_alpha, learn_every, backward

    def reversed(self):
        """Return the kernel with the opposite order; None where a subclass moves in another way.

        Draws of pseudo-counts by auxiliary variables are reversible.
        """
        if type(self).move is not GroupedGibbs.move:
            return None
        return type(self)(**self.get_params() | {"backward": not self.backward})

    def check(self, model, data):
        """Raise for models that are no admixtures, data without groups, and settings out of range."""
        super().check(model, data)
        check_grouped(model, data, "GroupedGibbs")

    def first_labels(self, start, model, data, seed, n_clusters):
        """Return the clusters that a start gives the rows, as for a mixture: (N,) int32."""
        return first_clusters(start, model, data, seed, n_clusters)

    def init_state(self, model, data, labels, *, seed):
        """Make a state of the labels, with class c in cluster c where classes are known."""
        if data.known is not None:
            labels = data.known.numbered_by_class(labels, model.n_components)
        return super().init_state(model, data, labels, seed=seed)

    def move(self, state):
        """Sweep over all data and links; every `learn_every` steps draw the pseudo-counts."""
        learns = self.learn_alpha and (state.n_steps + 1) % self.learn_every == 0
        if learns and self.backward:
            draw_alpha(state)
        n_linked, moved = 0, 0
        known = state.data.known
        if known is not None and known.groups:
            n_linked = len(known.groups)
        if n_linked and self.backward:
            moved = draw_linked_groups(state, backward=True)
        # a random order is its own opposite
        order = "backward" if self.backward and self.order == "sequential" else self.order
        proposed, moved_rows, extra = run_sweep(GroupedSweep(state, order))
        if n_linked and not self.backward:
            moved = draw_linked_groups(state)
        if learns and not self.backward:
            draw_alpha(state)
        return proposed + n_linked, moved_rows + moved, extra


def draw_alpha(state):
    """Draw the pseudo-counts of a state from their conditional law."""
    rng = generator(state.seed, "hyper", unit=1, step=state.n_steps)
    alpha = draw_pseudocounts(state.model.pseudocounts, state.count_table(), state.data.groups.sizes, rng)
    state.set_model(state.model.with_alpha(alpha))


cdef class GroupedSweep(Sweep):
    """The buffers and pointers of one sweep over a state of rows in groups."""

    cdef int take(self, order) except -1:
        """Set the tables of one group's counts, and the order of the groups and their rows."""
        cdef const Py_ssize_t[::1] of_row, rows, starts, places
        cdef double[::1] alpha
        cdef int64_t[::1] counts
        cdef double[::1] log_mass
        groups, K = self.state.data.groups, self.state.n_slots
        self.order = groups.rows
        if order == "random":
            rng = generator(self.state.seed, "order", step=self.state.n_steps)
            rows_at_random, rank = rng.permutation(groups.of_row.size), rng.permutation(groups.n_groups)
            by_group = np.argsort(rank[groups.of_row[rows_at_random]], kind="stable")
            self.order = rows_at_random[by_group].astype(np.intp)
        elif order == "backward":
            self.order = np.ascontiguousarray(groups.rows[::-1])
        self.kept = (groups, self.state.pseudocounts, np.zeros(K, dtype=np.int64), np.zeros(K))
        known = self.state.data.known
        self.classes = ClassTable(None)
        if known is not None:
            is_free = np.zeros(groups.of_row.size, dtype=bool)
            is_free[known.free] = True
            self.order = self.order[is_free[self.order]]
        self.n_places = len(self.order)
        if not self.n_places:
            self.order = np.zeros(1, dtype=np.intp)     # never read: its address is needed
        of_row, rows, starts, places = groups.of_row, groups.rows, groups.starts, self.order
        alpha, counts, log_mass = self.kept[1], self.kept[2], self.kept[3]
        self.s.log_new_mass = NULL
        self.s.order = &places[0]
        self.groups.of_row, self.groups.rows, self.groups.starts = &of_row[0], &rows[0], &starts[0]
        self.groups.alpha, self.groups.counts, self.groups.log_mass = &alpha[0], &counts[0], &log_mass[0]
        self.groups.visited = -1
        self.s.masses.self = <void *> &self.groups
        self.s.masses.begin, self.s.masses.add = begin_in_group, add_group_masses
        self.s.masses.change = change_in_group
        return 0


def conditional(state, Py_ssize_t i):
    """Return the exact conditional law (K,) of the cluster of datum `i`, by the sweep's code."""
    return law_of(GroupedSweep(state, "sequential"), i)
