"""Fixed division of data into groups (data cells); the data of a group share a proposal.

The groups come from cells of a tree, duplicates, hash buckets or labels. They are numbered 0..G-1 without gaps, and no
group is empty. The members of a group are stored contiguously in ascending order, so a sweep in the order of `members`
reads each group once. Besides the cost of finding the groups, construction costs O(N). A `DataCells` object never
changes. It does not depend on clusters: every division is valid, but groups of close data are more useful.
"""

import numpy as np

from cython cimport final
from libc.math cimport sqrt
from libc.stdint cimport uint64_t

from expfam.amounts import counted
from expfam.structures.ground.threads import run

cdef enum:
    GROUP_ROWS = 8192           # data in a task


@final
cdef class DataCells:
    """Fixed division of N data into G groups.

    Parameters
    ----------
    group : (N,) array_like of int
        Group of each datum. Every number 0..G-1 must occur.
    phi : (N, F) array_like, optional
        Vectors from which prototypes and radii are computed.
    n_threads : int or None
        Threads for prototypes and radii. Results are bitwise the same for any number.

    Attributes
    ----------
    group : (N,) intp ndarray
    indptr : (G + 1,) intp ndarray
        ``members[indptr[g]:indptr[g + 1]]`` are the data of group g.
    members : (N,) intp ndarray
    prototype : (G, F) float64 ndarray or None
        Mean of phi over each group. It minimises the sum of squared distances to the members.
    radius : (G,) float64 ndarray or None
        Largest distance between the prototype of a group and a member.

    Raises
    ------
    ValueError
        There are no data, a number is below 0, a group is empty, or phi has another length or is not finite.

    Examples
    --------
    >>> from expfam.structures import DataCells
    >>> data_cells = DataCells.from_labels(["b", "a", "b"], phi=[[0.0], [5.0], [2.0]])
    >>> data_cells.group, data_cells.prototype.ravel(), data_cells.radius
    (array([0, 1, 0]), array([1., 5.]), array([1., 0.]))
    """

    def __init__(self, group, *, phi=None, n_threads=None):
        group = np.asarray(group)
        if group.ndim != 1 or group.dtype.kind not in "iu" or len(group) == 0:
            raise ValueError(f"group must be a vector of at least one integer; got shape {group.shape}, "
                             f"dtype {group.dtype}")
        self.group = _frozen(group)
        if self.group.min() < 0:
            raise ValueError(f"datum {self.group.argmin()} has group {self.group.min()}; numbers start at 0")
        if self.group.max() >= len(group):
            raise ValueError(f"group {self.group.max()} of {counted(len(group), 'datum', 'data')}: some group before "
                             "it is empty; number groups without gaps, or use DataCells.from_labels")
        sizes = np.bincount(self.group)
        if not sizes.all():
            raise ValueError(f"group {np.flatnonzero(sizes == 0)[0]} is empty; number groups without gaps, or use "
                             "DataCells.from_labels")
        self.n_groups = len(sizes)
        self.indptr = _frozen(np.concatenate([[0], np.cumsum(sizes)]))
        self.members = _members_of(self.group, self.indptr)
        self.group_of, self.start, self.member = self.group, self.indptr, self.members
        if phi is not None:
            self._describe(phi, n_threads)

    @classmethod
    def from_tree(cls, tree, max_group, *, phi=None, n_threads=None):
        """Make groups from the largest cells of a cover tree with at most `max_group` data.

        Parameters
        ----------
        tree : CoverTree
            Tree of the data 0..N-1, of which none has been removed.
        max_group : int
            Largest size of a group. Larger leaves are cut into runs of this size in the order of the tree. Copies of
            one datum stay together.
        phi : (N, F) array_like, optional
            Vectors for prototypes. If not given, the rows of the tree are used.

        Raises
        ------
        ValueError
            `max_group` is below 1, or a datum was removed from the tree.
        """
        cells = tree.frontier(max_group)
        group = tree.assign(cells)
        if group.min() < 0:
            raise ValueError(f"datum {group.argmin()} was removed from the tree; DataCells need all data")
        records = tree.cells[cells]
        next_group = len(cells)
        for g in np.flatnonzero((records["size"] > max_group) & (records["radius"] > 0)):
            members = tree.members(cells[g])
            runs = np.arange(len(members)) // max_group
            group[members] = np.where(runs == 0, g, next_group + runs - 1)
            next_group += runs.max()
        alive = np.unique(group, return_inverse=True)[1]  # cells that contain only removed centres hold no datum
        return cls(alive, phi=tree.vectors(np.arange(len(group))) if phi is None else phi, n_threads=n_threads)

    @classmethod
    def from_labels(cls, labels, *, phi=None, n_threads=None):
        """Make one group for each label, numbered by first appearance.

        Parameters
        ----------
        labels : (N,) array_like
            Labels of any type that NumPy can sort.
        """
        labels = np.asarray(labels)
        if labels.ndim != 1:
            raise ValueError(f"labels must be a vector; got shape {labels.shape}")
        return cls(_by_appearance(labels), phi=phi, n_threads=n_threads)

    @classmethod
    def from_duplicates(cls, X, *, phi=None, n_threads=None):
        """Make one group for each distinct row, numbered by first appearance.

        0.0 and -0.0 are identical.

        Parameters
        ----------
        X : (N, F) array_like or sparse matrix
            Sparse rows are compared by their entries; the order of the indices does not matter.
        """
        if hasattr(X, "tocsr"):
            return cls(_by_appearance(_sparse_keys(X)), phi=phi, n_threads=n_threads)
        X = np.asarray(X)
        if X.ndim != 2 or X.dtype.kind not in "iubf":
            raise ValueError(f"X must be a matrix of real numbers; got shape {X.shape}, dtype {X.dtype}")
        return cls(_by_appearance(_row_keys(X + X.dtype.type(0))), phi=phi, n_threads=n_threads)

    # ---- prototypes --------------------------------------------------------------------------------------------------

    def _describe(self, phi, n_threads):
        """Compute prototypes and radii, in the order of groups and members."""
        phi = np.ascontiguousarray(phi, dtype=np.float64)
        if phi.ndim != 2 or len(phi) != len(self.group):
            raise ValueError(
                f"phi has shape {phi.shape}; it needs a row for each of {counted(len(self.group), 'datum', 'data')}"
            )
        prototype, radius = np.zeros((self.n_groups, phi.shape[1])), np.zeros(self.n_groups)
        # tasks contain whole groups; a new task starts where the number of data passes a multiple of GROUP_ROWS
        cuts = np.flatnonzero(np.diff(self.indptr[:-1] // GROUP_ROWS, prepend=-1))
        tasks = [(phi, prototype, radius, lo, hi) for lo, hi in zip(cuts, [*cuts[1:], self.n_groups])]
        run(self._mean_of, tasks, n_threads)
        if not np.all(np.isfinite(radius)):
            raise ValueError(f"phi is not finite in group {np.flatnonzero(~np.isfinite(radius))[0]}")
        self.prototype, self.radius = _locked(prototype), _locked(radius)

    def _mean_of(self, const double[:, ::1] phi, double[:, ::1] prototype, double[::1] radius, Py_ssize_t first,
                 Py_ssize_t last):
        """Compute prototypes and radii of the groups first..last."""
        cdef Py_ssize_t g, t, i, j, F = phi.shape[1]
        cdef double size, square, worst
        with nogil:
            for g in range(first, last):
                size = self.start[g + 1] - self.start[g]
                i = self.member[self.start[g]]
                for t in range(self.start[g] + 1, self.start[g + 1]):
                    for j in range(F):  # start at the first member, so that the mean of copies is exact
                        prototype[g, j] += phi[self.member[t], j] - phi[i, j]
                for j in range(F):
                    prototype[g, j] = phi[i, j] + prototype[g, j] / size
                worst = 0.0
                for t in range(self.start[g], self.start[g + 1]):
                    i = self.member[t]
                    square = 0.0
                    for j in range(F):
                        square += (phi[i, j] - prototype[g, j]) * (phi[i, j] - prototype[g, j])
                    if not square <= worst:  # also true for a NaN, so that it is kept
                        worst = square
                radius[g] = sqrt(worst)

    # ---- members -----------------------------------------------------------------------------------------------------

    @property
    def sizes(self):
        """Return the number of data in each group: (G,) intp ndarray."""
        return np.diff(self.indptr)

    def _drawn_members(self, n, rng):
        """Return n members of every group as compiled samplers draw them: (G, n) intp ndarray."""
        words = rng.integers(0, 2**64, size=(self.n_groups, n), dtype=np.uint64)
        drawn = np.empty((self.n_groups, n), dtype=np.intp)
        cdef const uint64_t[:, ::1] word = words
        cdef Py_ssize_t[:, ::1] out = drawn
        cdef Py_ssize_t g, a
        with nogil:
            for g in range(word.shape[0]):
                for a in range(word.shape[1]):
                    out[g, a] = self.pick(g, word[g, a])
        return drawn

    def __len__(self):
        return self.n_groups

    def __repr__(self):
        sizes = self.sizes
        return (
            f"<DataCells of {counted(len(self.group), 'datum', 'data')} into {counted(self.n_groups, 'group')} of "
            f"{sizes.min()} to {sizes.max()}>"
        )

    # ---- state -------------------------------------------------------------------------------------------------------

    def to_arrays(self):
        """Return the groups as arrays, with prototypes and radii if there are any."""
        arrays = {"group": self.group.copy()}
        if self.prototype is not None:
            arrays |= {"prototype": self.prototype.copy(), "radius": self.radius.copy()}
        return arrays

    @classmethod
    def from_arrays(cls, arrays):
        """Make the object from the arrays of `to_arrays`."""
        cdef DataCells data_cells = cls(arrays["group"])
        if "prototype" in arrays:
            prototype, radius = np.array(arrays["prototype"]), np.array(arrays["radius"])
            if prototype.ndim != 2 or len(prototype) != data_cells.n_groups or radius.shape != (data_cells.n_groups,):
                shapes = f"prototypes {prototype.shape} and radii {radius.shape}"
                raise ValueError(f"{shapes} of {counted(data_cells.n_groups, 'group')}")
            data_cells.prototype, data_cells.radius = _locked(prototype), _locked(radius)
        return data_cells

    def __reduce__(self):
        return _unpickle, (self.to_arrays(),)


def _unpickle(arrays):
    return DataCells.from_arrays(arrays)


def _locked(array):
    """Make the array read-only and return it."""
    array.flags.writeable = False
    return array


def _frozen(numbers):
    """Return a read-only copy as intp."""
    return _locked(np.array(numbers, dtype=np.intp))


def _members_of(const Py_ssize_t[::1] group, const Py_ssize_t[::1] indptr):
    """Return the data in the order of their groups: (N,) read-only intp ndarray."""
    members, places = np.empty(group.shape[0], dtype=np.intp), np.array(indptr)
    cdef Py_ssize_t[::1] member = members, place = places
    cdef Py_ssize_t i
    with nogil:
        for i in range(group.shape[0]):
            member[place[group[i]]] = i
            place[group[i]] += 1
    return _locked(members)


def _by_appearance(keys):
    """Number the distinct keys by first appearance; return the number of each key."""
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.intp)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[inverse.ravel()]


def _row_keys(X):
    """Return one sortable value for each row: its bytes."""
    X = np.ascontiguousarray(X)
    if X.shape[1] == 0:
        return np.zeros(len(X), dtype=np.int8)
    return X.view(np.dtype((np.void, X.dtype.itemsize * X.shape[1]))).ravel()


def _sparse_keys(X):
    """Return one number for each sparse row; equal rows have equal numbers."""
    X = X.tocsr().copy()
    X.sum_duplicates()
    X.eliminate_zeros()
    seen = {}
    keys = np.empty(X.shape[0], dtype=np.intp)
    for i, (lo, hi) in enumerate(zip(X.indptr[:-1], X.indptr[1:])):
        keys[i] = seen.setdefault((X.indices[lo:hi].tobytes(), X.data[lo:hi].tobytes()), len(seen))
    return keys
