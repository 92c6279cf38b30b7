"""Proposals behind the versioned C struct: the handle that kernels and tests go through.

`ProposalHandle` copies the struct of any owner, built-in or foreign, checks its version, and offers each function to
Python. Kernels cimport the class and call the struct without the gil.
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
    """A bound proposal at work: its functions, checked.

    Parameters
    ----------
    owner : object
        What ``proposal.bind`` returned; it owns the memory behind the struct.
    name : str
        For messages.

    Attributes
    ----------
    owner : object

    Raises
    ------
    PluginError
        When the owner's capsule has another name, or its struct another version or size or not all functions.
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
        """Whether the functions take the gil, so that one thread is to call them."""
        return bool(self.p.flags & EXPFAM_NEEDS_GIL)

    @property
    def takes_single_moves(self):
        """Whether data can be held out and moved one by one, as the modes "removed" and "included" need."""
        return self.p.hold_out != NULL and self.p.restore != NULL and self.p.moved != NULL

    def refresh(self, snapshot):
        """Take up the statistics of a snapshot, forgetting all former ones."""
        self.owner.refresh(snapshot)
        self.take()

    def shift(self, snapshot, added, removed):
        """Take up a change of the statistics by data added and removed; a refresh where the proposal has no shift."""
        if hasattr(self.owner, "shift"):
            self.owner.shift(snapshot, added, removed)
            self.take()
        else:
            self.refresh(snapshot)

    def reserve(self, Py_ssize_t n_slots):
        """Room for so many slots."""
        if hasattr(self.owner, "reserve"):
            self.owner.reserve(n_slots)
            self.take()

    def draw(self, Py_ssize_t i, Py_ssize_t k_old, rng):
        """One draw for datum `i`.

        Parameters
        ----------
        i : int
        k_old : int
            Slot that the way back leads to; -1 for a cluster that has no slot.
        rng : numpy Generator

        Returns
        -------
        (k_new, log_back) : (int, float)
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
        """Log probability of a draw for datum `i`, nats.

        Parameters
        ----------
        i : int
        k_old : int
        ks : sequence of int
            Slots; -1 for a new cluster.

        Returns
        -------
        (m,) float64 ndarray
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
        """Forget datum `i`, which is in slot `k`."""
        self._single(self.p.hold_out(self.p.self, i, k) if self.takes_single_moves else EXPFAM_RANGE, i, k)

    def restore(self, Py_ssize_t i, Py_ssize_t k):
        """Undo `hold_out`."""
        self._single(self.p.restore(self.p.self, i, k) if self.takes_single_moves else EXPFAM_RANGE, i, k)

    def moved(self, Py_ssize_t i, Py_ssize_t source, Py_ssize_t target):
        """After `hold_out`: put datum `i`, which was in `source`, into `target`."""
        cdef int code = EXPFAM_RANGE
        if self.takes_single_moves:
            code = self.p.moved(self.p.self, i, source, target)
        self._single(code, i, target)

    def _single(self, int code, Py_ssize_t i, Py_ssize_t k):
        if code:
            raise self.fail(code, i, k)
