"""Modes of the posterior of one cluster in natural coordinates, for optimisers of few rows.

They are computed in C where the family has a compiled form, and equal the results of `map_natural` and `log_prior`. A
step of EM on a hundred rows takes no longer than one call of NumPy for its clusters.
"""

import numpy as np


cdef class ModeLaw:
    """Modes of the posterior, and prior densities, of one cluster of a bound family.

    Subclasses set the pointer `law`. Families make them by a method `_mode_law`.

    >>> import numpy as np
    >>> from expfam import DiagonalGaussian
    >>> from expfam.families.modes import mode_law_of
    >>> family = DiagonalGaussian().bind([[-1.0], [1.0]])
    >>> law = mode_law_of(family)
    >>> theta, g = law.mode(2.0, [0.0, 2.0])
    >>> np.allclose(theta, family.map_natural(np.array([2.0]), np.array([[0.0, 2.0]]))[0][0])
    True
    >>> bool(np.isclose(law.log_prior(theta, g), family.log_prior(theta[None], np.array([g]))[0]))
    True
    """

    cdef const double *keep(self, values) except? NULL:
        """Keep a copy of numbers and return a pointer to it; NULL for none."""
        cdef const double[::1] view = np.array(values, dtype=np.float64).ravel()
        if not view.shape[0]:
            return NULL
        if self.arrays is None:
            self.arrays = []
        self.arrays.append(view)
        return &view[0]

    def mode(self, double n, S):
        """Return theta (F,) and g at the mode of the posterior of one cluster.

        Parameters
        ----------
        n : float
            Number of data of the cluster.
        S : (F,) float64 ndarray
            Sum of their phi.
        """
        cdef const double[::1] statistics = np.ascontiguousarray(S, dtype=np.float64)
        out = np.empty(statistics.shape[0])
        cdef double[::1] theta = out
        cdef double g = 0.0
        if self.law.at(self.law, n, &statistics[0], &theta[0], &g):
            raise FloatingPointError("the statistics of the cluster are not finite or not positive definite")
        return out, g

    def log_prior(self, theta, double g):
        """Return the unnormalised log prior density of the parameters of one cluster, nats.

        Parameters
        ----------
        theta : (F,) float64 ndarray
            Natural parameter.
        g : float
            Its log-partition function, nats.
        """
        cdef const double[::1] given = np.ascontiguousarray(theta, dtype=np.float64)
        return self.law.log_prior(self.law, &given[0], g)


def mode_law_of(family):
    """Return the `ModeLaw` of a bound family, or None if it has none.

    It has one if the class that defines its `map_natural` and `log_prior`, or one derived from it, has a compiled form
    of the data that it is bound to.
    """
    for ancestor in type(family).__mro__:
        if "_mode_law" in ancestor.__dict__:
            return family._mode_law()
        if "map_natural" in ancestor.__dict__ or "log_prior" in ancestor.__dict__:
            break
    return None
