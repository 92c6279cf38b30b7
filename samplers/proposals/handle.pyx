"""Handle through which kernels and tests call proposals.

`ProposalHandle` copies the versioned C struct of a proposal, which may come from another package, checks its version,
and offers each function in Python. Kernels cimport the class and call the struct without the gil.
"""

import numpy as np

from cpython.pycapsule cimport PyCapsule_GetPointer
from numpy.random cimport bitgen_t

from expfam.contracts cimport EXPFAM_NEEDS_GIL, EXPFAM_NUMERICAL, EXPFAM_PYTHON, EXPFAM_RANGE, proposal_v1
from expfam.families.components cimport copy_struct

from expfam.errors import PluginError
from expfam.families.components import require_functions

cdef const char *CAPSULE = "expfam.proposal_v1"


cdef class ProposalHandle:
    """Checked functions of a bound proposal.

    `owner` is the result of ``proposal.bind`` and owns the memory of the struct. A PluginError refuses a capsule of
    another name, or a struct of another version or size or without a required function; `name` is the proposal in
    messages.
    """

    def __init__(self, owner, name):
        self.owner, self.name = owner, name
        self.work = np.empty(1)
        self.take()

    cdef int take(self) except -1:
        what = f"the functions of proposal {self.name}"
        copy_struct(self.owner.capsule, CAPSULE, &self.p, sizeof(proposal_v1), sizeof(proposal_v1), what)
        require_functions(what, draw=self.p.draw != NULL, log_prob=self.p.log_prob != NULL)
        if self.work.shape[0] < self.p.work_size:
            self.work = np.empty(self.p.work_size)
        return 0

    cdef object fail(self, int code, Py_ssize_t i, Py_ssize_t k):
        where = f"proposal {self.name}, datum {i}, slot {k}"
        if code == EXPFAM_PYTHON:
            pending = getattr(self.owner, "pending", None)
            self.owner.pending = None
            return pending if pending is not None else PluginError(f"{where}: failed without leaving its exception")
        if code == EXPFAM_NUMERICAL:
            return FloatingPointError(f"{where}: no cluster has a finite positive weight")
        if code == EXPFAM_RANGE:
            return PluginError(f"{where}: a slot it does not know, or a datum that is not there")
        return PluginError(f"{where}: unknown result {code}")

    @property
    def needs_gil(self):
        """Whether the functions need the gil, so that only one thread should call them."""
        return bool(self.p.flags & EXPFAM_NEEDS_GIL)

    @property
    def takes_single_moves(self):
        """Whether data can be held out and moved one by one.

        The modes "removed", "included", "published" and "asynchronous" need it.
        """
        return self.p.hold_out != NULL and self.p.restore != NULL and self.p.moved != NULL

    def refresh(self, snapshot):
        """Use the statistics of a snapshot and forget all earlier ones."""
        self.owner.refresh(snapshot)
        self.take()

    def shift(self, snapshot, added, removed):
        """Update the statistics by data that were added and removed.

        A proposal without `shift` is refreshed.

        Parameters
        ----------
        snapshot : Snapshot
            Statistics after the change.
        added, removed : pair of (m,) intp ndarrays
            Data that were added and then removed, and the slot of each.
        """
        if hasattr(self.owner, "shift"):
            self.owner.shift(snapshot, added, removed)
            self.take()
        else:
            self.refresh(snapshot)

    def reserve(self, Py_ssize_t n_slots):
        """Allocate memory for `n_slots` slots."""
        if hasattr(self.owner, "reserve"):
            self.owner.reserve(n_slots)
            self.take()

    def draw(self, Py_ssize_t i, Py_ssize_t k_old, rng):
        """Draw a cluster for datum `i`, with the log ratio of the reverse and the forward law.

        Parameters
        ----------
        i : int
        k_old : int
            Slot of the reverse move; -1 for a cluster that has no slot.
        rng : numpy Generator

        Returns
        -------
        k_new : int
            Slot; -1 for a new cluster.
        float
            log q(k_old | i) - log q(k_new | i), nats.
        """
        cdef bitgen_t *bits = <bitgen_t *> PyCapsule_GetPointer(rng.bit_generator.capsule, "BitGenerator")
        cdef Py_ssize_t k_new = 0
        cdef double log_back = 0.0
        cdef int code = self.p.draw(self.p.self, i, k_old, bits, &k_new, &log_back, &self.work[0])
        if code:
            raise self.fail(code, i, k_old)
        return k_new, log_back

    def log_prob(self, Py_ssize_t i, Py_ssize_t k_old, ks):
        """Compute the log probability of each draw for datum `i`.

        Parameters
        ----------
        i : int
        k_old : int
            As in `draw`.
        ks : (m,) sequence of int
            Slots; -1 stands for a new cluster.

        Returns
        -------
        (m,) float64 ndarray
            Nats.
        """
        cdef const Py_ssize_t[::1] slots = np.ascontiguousarray(ks, dtype=np.intp)
        out = np.empty(slots.shape[0])
        cdef double[::1] view = out
        cdef int code
        if slots.shape[0]:
            code = self.p.log_prob(self.p.self, i, k_old, &slots[0], slots.shape[0], &view[0], &self.work[0])
            if code:
                raise self.fail(code, i, k_old)
        return out

    def hold_out(self, Py_ssize_t i, Py_ssize_t k):
        """Remove datum `i`, which is in slot `k`, from the statistics.

        Parameters
        ----------
        i : int
            Number of the datum.
        k : int
            Its slot.
        """
        self._single(self.p.hold_out(self.p.self, i, k) if self.takes_single_moves else EXPFAM_RANGE, i, k)

    def restore(self, Py_ssize_t i, Py_ssize_t k):
        """Undo `hold_out`.

        Parameters
        ----------
        i, k : int
            Those of `hold_out`.
        """
        self._single(self.p.restore(self.p.self, i, k) if self.takes_single_moves else EXPFAM_RANGE, i, k)

    def moved(self, Py_ssize_t i, Py_ssize_t source, Py_ssize_t target):
        """Put datum `i`, which was in `source`, into `target`; call it after `hold_out`.

        Parameters
        ----------
        i, source : int
            Those of `hold_out`.
        target : int
            New slot of the datum.
        """
        cdef int code = EXPFAM_RANGE
        if self.takes_single_moves:
            code = self.p.moved(self.p.self, i, source, target)
        self._single(code, i, target)

    def _single(self, int code, Py_ssize_t i, Py_ssize_t k):
        if code:
            raise self.fail(code, i, k)
