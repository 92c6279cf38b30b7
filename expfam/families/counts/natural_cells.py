"""Posterior means of parameters of sparse sums of counts, from the cells that are not empty.

All parameters of a column whose sum is 0 differ by a level of the cluster alone, so the cost is that of the cells.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import digamma

from expfam.families.counts import pseudocounts as counts
from expfam.families.counts.multinomial import Multinomial
from expfam.families.counts.poisson import Poisson

if TYPE_CHECKING:
    from expfam.protocols import Floats

_FORMULAS = frozenset({"expected_natural", "log_marginal"})


class NaturalCells(NamedTuple):
    """E theta and E g of K clusters.

    E theta_kw is ``empty[w] - level[k]`` where the sum S_kw is 0.

    Attributes
    ----------
    empty : (F,) float64 ndarray
    cells : (n,) float64 ndarray
        At the stored sums, in their order: E theta_kw is ``cells - level[k]``.
    level, g : (K,) float64 ndarray
    """

    empty: Floats
    cells: Floats
    level: Floats
    g: Floats


def has_natural_cells(family: Any) -> bool:
    """Return whether `natural_cells` takes a family.

    It takes multinomial and Poisson families with the formulas of these classes.

    Examples
    --------
    >>> from expfam import DiagonalGaussian, Multinomial
    >>> from expfam.families.counts.natural_cells import has_natural_cells
    >>> has_natural_cells(Multinomial()), has_natural_cells(DiagonalGaussian())
    (True, False)
    """
    for ancestor in type(family).__mro__:
        if ancestor in (Multinomial, Poisson):
            return True
        if _FORMULAS & ancestor.__dict__.keys():
            return False
    return False


def natural_cells(family: Any, n: Floats, S: Any) -> NaturalCells:
    """Return what `expected_natural` does, for sparse sums.

    Parameters
    ----------
    family : Multinomial or Poisson
        Bound.
    n : (K,) float64 ndarray
    S : (K, F) CSR

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from expfam import Multinomial
    >>> from expfam.families.counts.natural_cells import natural_cells
    >>> family, S = Multinomial(1.0).bind([[2, 0, 1]]), np.array([[0.0, 0.0, 3.0]])
    >>> found = natural_cells(family, np.array([1.0]), sparse.csr_array(S))
    >>> np.allclose([*found.empty[:2], *found.cells] - found.level, family.expected_natural(np.ones(1), S)[0])
    True
    """
    a, prior = family.pseudocounts()
    total = prior + counts.row_sums(S)
    level, g = digamma(total), np.zeros(len(n))
    if isinstance(family, Poisson):
        level, g = np.log(family.rate + n), total / (family.rate + n)
    return NaturalCells(digamma(a), digamma(a[S.indices] + S.data), level, g)
