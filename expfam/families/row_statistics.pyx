"""Statistics of single rows, added to sums.

C adds them where components have a function for it, NumPy otherwise.
"""

import numpy as np

from cpython.pycapsule cimport PyCapsule_New

from expfam.contracts cimport EXPFAM_ABI, EXPFAM_OK, EXPFAM_PYTHON
from expfam.families.components cimport copy_struct

from expfam.families.components import require_functions


cdef object row_statistics_capsule(row_statistics_v1 *c):
    """Return the capsule of a struct whose `self` and `add` are set.

    The owner of the struct must live as long.
    """
    c.abi_version, c.struct_size = EXPFAM_ABI, sizeof(row_statistics_v1)
    return PyCapsule_New(c, ROW_STATISTICS, NULL)


cdef int add_by_numpy(void *self, Py_ssize_t i, double sign, double *S) noexcept with gil:
    cdef RowStatistics statistics = <RowStatistics> self
    try:
        statistics.compute(i, sign, S)
        return EXPFAM_OK
    except BaseException as error:      # interrupts too; the caller raises the error later
        statistics.raised = error
        return EXPFAM_PYTHON


cdef class RowStatistics:
    """Function that adds phi of one row to a sum, for the owner of components and its data."""

    def __init__(self, owner, data):
        capsule = getattr(owner, "row_statistics", None)
        if capsule is None:
            self.data, self.F = data, data.n_statistics
            self.c.self, self.c.add = <void *> self, add_by_numpy
            return
        self.owner = owner
        what = f"statistics of rows of {type(owner).__name__}"
        copy_struct(capsule, ROW_STATISTICS, &self.c, sizeof(row_statistics_v1), sizeof(row_statistics_v1), what)
        require_functions(what, add=self.c.add != NULL)

    @property
    def pending(self):
        """Return the exception behind a result EXPFAM_PYTHON, or None."""
        return self.raised if self.owner is None else self.owner.pending

    @pending.setter
    def pending(self, error):
        if self.owner is None:
            self.raised = error
        else:
            self.owner.pending = error

    def added(self, Py_ssize_t i, double sign, S):
        """Return S + sign phi(x_i), where S is (F,) float64."""
        out = np.array(S, dtype=np.float64)
        cdef double[::1] view = out
        if self.c.add(self.c.self, i, sign, &view[0]):
            error, self.pending = self.pending, None
            raise error
        return out

    cdef object compute(self, Py_ssize_t i, double sign, double *S):
        cdef const double[::1] phi = np.ascontiguousarray(self.data.phi(i, i + 1)[0], dtype=np.float64)
        cdef Py_ssize_t f
        for f in range(self.F):
            S[f] += sign * phi[f]
