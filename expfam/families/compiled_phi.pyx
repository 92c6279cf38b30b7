"""Sufficient statistics of dense rows in C, where the family has a compiled form.

Passes that score blocks of rows write them without the gil, straight to where they are read.
"""

import numpy as np

ctypedef fused real:
    float
    double


cdef class CompiledPhi:
    """Function that writes the statistics of one row, for one bound family.

    Subclasses set the pointer `law`. Families make them by a method `_compiled_phi`.

    >>> from expfam import DiagonalGaussian
    >>> from expfam.families.compiled_phi import compiled_phi_of
    >>> compiled_phi_of(DiagonalGaussian().bind([[1.0], [3.0]]))([[5.0]])
    array([[3., 9.]])
    """

    def __call__(self, X):
        """Return the statistics of rows in single or double precision: (N, V) to (N, F) float64."""
        rows = np.ascontiguousarray(X)
        return self._of_rows(rows if rows.dtype == np.float32 else rows.astype(np.float64, copy=False))

    def _of_rows(self, const real[:, ::1] X):
        cdef Py_ssize_t i
        out = np.empty((X.shape[0], self.n_statistics))
        cdef double[:, ::1] to = out
        for i in range(X.shape[0]):
            if real is float:
                self.law.of_floats(self.law, &X[i, 0], &to[i, 0])
            else:
                self.law.of_doubles(self.law, &X[i, 0], &to[i, 0])
        return out


def compiled_phi_of(family):
    """Return the `CompiledPhi` of a bound family, or None.

    It is the one of the class that defines the family's `sufficient_statistics`, or of a class derived from that one.
    """
    for ancestor in type(family).__mro__:
        if "_compiled_phi" in ancestor.__dict__:
            return family._compiled_phi()
        if "sufficient_statistics" in ancestor.__dict__:
            return None
    return None


# ---- statistics about a center ---------------------------------------------------------------------------------------


cdef class CentredPhi(CompiledPhi):
    """Base of statistics about a center (V,); subclasses set the functions of `own.base`."""

    def __init__(self, center, n_statistics):
        self.center = np.array(center, dtype=np.float64)
        self.own.center, self.own.V, self.law = &self.center[0], self.center.shape[0], &self.own.base
        self.n_features, self.n_statistics = self.own.V, n_statistics


cdef void columns_of(const phi_law *base, const real *row, double *phi) noexcept nogil:
    cdef const centred_phi *law = <const centred_phi *> base
    cdef Py_ssize_t j
    for j in range(law.V):
        phi[j] = <double> row[j] - law.center[j]


cdef class ColumnsPhi(CentredPhi):
    """Statistics that are the columns about a center (V,)."""

    def __init__(self, center):
        super().__init__(center, len(center))
        self.own.base.of_floats, self.own.base.of_doubles = columns_of[float], columns_of[double]
