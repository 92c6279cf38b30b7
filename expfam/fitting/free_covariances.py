"""The warning of full covariances where a simpler family describes unseen rows better.

In V columns each cluster pays for V (V + 3) / 2 parameters. With few rows a cluster the log joint then prefers fewer
and wider clusters, and groups are lost. So some rows are held out, and their density is compared.

The comparison needs no second fit. The full covariances are judged by the labels of the fit, and by those of the
simpler families as well; a simpler family gets k-means with many centres, merged greedily, and one ascent. It costs a
tenth to a fifth of the time of a fit of 1,500 x 40 rows. Other fits are not looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from expfam.amounts import counted
from expfam.errors import DataWarning
from expfam.families.gaussian.diagonal import DiagonalGaussian
from expfam.families.gaussian.full import Gaussian
from expfam.families.gaussian.spherical import SphericalGaussian
from expfam.fitting.held_rows import held_out_densities, settler_of
from expfam.model.data import Dataset
from expfam.samplers.geometry.drawn_rows import drawn_rows
from expfam.samplers.warm_starts.candidates import Divisions
from expfam.samplers.warm_starts.settle import Fitted
from expfam.user_warnings import warn

if TYPE_CHECKING:
    from expfam.families.base import Family
    from expfam.fitting.plan import Asked

_FEWEST_COLUMNS, _FEWEST_ROWS = 24, 100
_MOST_ROWS, _MOST_ROWS_OF_OPEN = 2500, 1875  # of the sample, a fifth of which is held out
_ROWS_A_CENTRE = 16  # of k-means with many centres
_FEW_CENTRES = 16
# Nats a cell. One cluster loses .01 (1,500 x 40 rows of one Gaussian), where it does no harm; groups that full
# covariances lose or nearly lose gain .04 to .11, and strong correlations cost .6 and more. Errors of the means: .004.
_LEAST_GAIN = 0.02
_MORE_CLUSTERS = 4
_UNIT = 12  # stream of the purpose "start"


class Comparison(NamedTuple):
    """Held-out densities of the simpler family that is best, and of full covariances.

    Attributes
    ----------
    family : Family
        The simpler one, unbound.
    n_clusters : int
        Clusters of it in the sample.
    simple, full : float
        Mean log density of the held-out rows, nats a cell.
    n_full, n_rows : int
        Clusters with full covariances, and the rows that they have.
    """

    family: Family
    n_clusters: int
    simple: float
    full: float
    n_full: int
    n_rows: int

    @property
    def pays(self) -> bool:
        """Tell whether the simpler family is clearly better."""
        return self.simple > self.full + _LEAST_GAIN


def compared_with_simpler(
    asked: Asked, data: Dataset, labels: npt.NDArray[np.int32], *, seed: int
) -> Comparison | None:
    """Compare full covariances with simpler families on held-out rows, where it may matter.

    Parameters
    ----------
    asked : Asked
    data : Dataset
        Groups of rows have no part in the comparison.
    labels : (N,) int32 ndarray
        Of a fit, or of the start of chunks.
    seed : int

    Returns
    -------
    Comparison or None
        None if the family is another one than `Gaussian`, for fewer than 24 columns, or where every cluster has rows
        enough.
    """
    n_full, data = int(labels.max()) + 1, data.without_groups()
    if not _may_matter(asked, data, n_full):
        return None
    is_open = asked.n_components is None
    rows = drawn_rows(data.n_rows, _MOST_ROWS_OF_OPEN if is_open else _MOST_ROWS, seed=seed, unit=_UNIT)
    rows = np.arange(data.n_rows) if rows is None else rows
    held: Any = drawn_rows(len(rows), len(rows) // 5, seed=seed, unit=_UNIT, step=1)  # never all, so never None
    seen = np.delete(rows, held)
    X, new = data.X[seen], data.X[rows[held]]
    found = [_simple_fit(asked, X, new, family, seed) for family in (DiagonalGaussian(), _shared())]
    full = _full_density(asked, X, new, [labels[seen], *(one.labels for _, one, _ in found)], seed)
    # of nearly equal ones the first, whose line is shorter
    family, one, simple = found[1] if found[1][2] > found[0][2] + _LEAST_GAIN else found[0]
    compared = Comparison(family, int(one.labels.max()) + 1, simple, full, n_full, data.n_rows)
    is_sample = len(rows) < data.n_rows
    if is_open and is_sample and data.n_rows >= compared.n_clusters * data.n_statistics:
        return None  # all rows are enough for covariances that the sample cannot tell
    return compared


def comparison_memory(data: Dataset, n_clusters: int | None) -> int:
    """Return the bytes of the comparison at its peak, beside the statistics of the clusters."""
    if type(data.family) is not Gaussian or data.n_features < _FEWEST_COLUMNS:
        return 0
    n = min(data.n_rows, _MOST_ROWS_OF_OPEN if n_clusters is None else _MOST_ROWS)
    slots = max(n_clusters or 0, n // _ROWS_A_CENTRE) + 1
    # copies of the rows, coordinates in three metrics; diagonal statistics; full ones of few clusters
    few = max(n_clusters or 0, n // data.n_features) + 1
    return n * (8 * 8 * data.n_features + 76) + 48 * slots * data.n_features + 24 * few * data.n_statistics


def warn_of_simpler(asked: Asked, compared: Comparison, n_columns: int) -> None:
    """Warn that a simpler family describes held-out rows better."""
    K, d = compared.n_full, n_columns
    line = asked.line(family="gaussian_diag")
    if isinstance(compared.family, SphericalGaussian):
        line = asked.line(family=compared.family).replace(repr(compared.family), _SHARED_LINE)
    number = counted(compared.n_clusters, "cluster")
    warn(
        f"{asked.owner}: a free covariance for each of {counted(K, 'cluster')} has"
        f" {counted(d * (d + 3) // 2, 'parameter')}, for {counted(compared.n_rows // K, 'row')} a cluster, and does"
        f" not pay: of rows that were held out, a simpler family with {number} has the higher density (by"
        f" {compared.simple - compared.full:.2f} nats a cell). Write {line}",
        DataWarning,
    )


_SHARED_LINE = "SphericalGaussian(variance='shared')"


def _shared():
    return SphericalGaussian(variance="shared")


def _may_matter(asked, data, n_full):
    """Tell whether clusters have few rows for their parameters, or one was found.

    An open number that was found may be too low: four times as many clusters are supposed then.
    """
    if type(data.family) is not Gaussian or data.n_features < _FEWEST_COLUMNS or data.n_rows < _FEWEST_ROWS:
        return False
    K = asked.n_components
    if data.known is not None or (K is not None and K < 2):
        return False
    found = n_full if K is None else K
    supposed = found if K is not None else _MORE_CLUSTERS * found
    return data.n_rows >= 2 * found and (found == 1 or data.n_rows < supposed * data.n_statistics)


def _simple_fit(asked, X, new, family, seed):
    """Return the family, its partition of the rows X, and the held-out density of the new rows."""
    settler = settler_of(asked, Dataset(X, family), family, seed)
    divisions = Divisions(settler.data, seed=seed, n_threads=asked.n_threads)
    K, n = asked.n_components, len(X)
    sizes = sorted({_FEW_CENTRES, n // _ROWS_A_CENTRE}) if K is None else [K]
    begun = [settler.fitted(divisions.kmeans(metric, k)) for metric in divisions.metrics for k in sizes]
    begun = [settler.merged(one) for one in begun] if K is None else begun
    best = settler.ascended(max(begun, key=lambda one: one.log_joint))
    if K is None:
        best = settler.ascended(settler.merged(best))
    return family, best, _density(asked, settler.data, best, new)


def _full_density(asked, X, new, partitions, seed):
    """Return the highest held-out density of full covariances under some partitions.

    Partitions with fewer rows a cluster than columns are left out, but for the first.
    """
    family = asked.family
    settler = settler_of(asked, Dataset(X, family), family, seed)
    few = [labels for labels in partitions[1:] if (int(labels.max()) + 1) * X.shape[1] <= len(X)]
    fits = [settler.fitted(labels) for labels in [partitions[0], *few]]
    return max(_density(asked, settler.data, fitted, new) for fitted in fits)


def _density(asked, data: Dataset, fitted: Fitted, new: npt.NDArray[Any]) -> float:
    """Return the mean log density of new rows under a partition: nats a cell."""
    found = held_out_densities(fitted.model, data, fitted.labels, new, n_threads=asked.n_threads)
    return float(found.mean()) / data.n_features
