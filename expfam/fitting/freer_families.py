"""The warning of clusters whose shape cuts groups into pieces.

Under a diagonal family the columns of a cluster are independent, under a spherical one they have one variance, and
Poisson counts vary as much as their mean. A group of other rows is then covered by many small clusters, all of which
raise the log joint. So the clusters are merged under a family with a freer shape, and the densities of rows that were
held out are compared. Only an open number of clusters is looked at; a given one cuts nothing into pieces.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from expfam.amounts import counted
from expfam.errors import DataWarning, ExpFamError
from expfam.families.counts.poisson import Poisson
from expfam.families.gaussian.diagonal import DiagonalGaussian
from expfam.families.gaussian.full import Gaussian
from expfam.families.gaussian.spherical import SphericalGaussian
from expfam.families.trials.negative_binomial import NegativeBinomial
from expfam.fitting.count_sizes import sized_counts
from expfam.fitting.held_rows import held_out_densities, settler_of
from expfam.model.data import Dataset
from expfam.model.partitions import compact_labels
from expfam.samplers.geometry.drawn_rows import drawn_rows
from expfam.user_warnings import warn

if TYPE_CHECKING:
    import numpy.typing as npt

    from expfam.families.base import Family
    from expfam.fitting.plan import Asked
    from expfam.protocols import Floats

_FEWEST_CLUSTERS = 4  # of fewer, no group is in pieces
_MOST_COLUMNS = 40  # more, and few rows tell nothing of covariances
_FEWEST_ROWS, _MOST_ROWS = 100, 2500  # of the sample, a fifth of which is held out
_PIECES, _MANY_PIECES = 2, 4  # clusters that a freer shape must join on average: if its density is higher, or as high
_LEAST_GAIN, _CLEAR = 0.02, 2.0  # nats a cell; standard errors of the mean over the held-out rows
_UNIT = 17  # stream of the purpose "start"
_DEPENDENT, _UNEQUAL = "columns depend on each other within groups", "variances differ between columns or groups"
_VARYING = "counts vary more within groups than Poisson ones"
FREER: dict[type, tuple[tuple[Family, str], ...]] = {
    DiagonalGaussian: ((Gaussian(), _DEPENDENT),),
    SphericalGaussian: ((DiagonalGaussian(), _UNEQUAL), (Gaussian(), _DEPENDENT)),
    Poisson: ((NegativeBinomial("auto"), _VARYING),),
}


class Freer(NamedTuple):
    """A family with a freer shape that needs fewer clusters.

    Attributes
    ----------
    family : Family
        Unbound.
    reason : str
        What makes the clusters pieces of groups.
    n_clusters : int
        Of the sample, after merges.
    gains : (M,) float64 ndarray
        By how much the log density of each held-out row is higher than under the clusters that were found, nats a cell.
    """

    family: Family
    reason: str
    n_clusters: int
    gains: Floats

    @property
    def gain(self) -> float:
        """Mean gain, nats a cell."""
        return float(self.gains.mean())

    @property
    def error(self) -> float:
        """Standard error of the mean gain, nats a cell."""
        return float(self.gains.std()) / len(self.gains) ** 0.5

    def explains(self, n_clusters: int) -> bool:
        """Tell whether clusters are pieces: fewer are clearly better, or far fewer are as good."""
        is_better = self.gain > max(_LEAST_GAIN, _CLEAR * self.error) and _PIECES * self.n_clusters <= n_clusters
        return is_better or (self.gain > -self.error and _MANY_PIECES * self.n_clusters <= n_clusters)


def freer_family(asked: Asked, data: Dataset, labels: npt.NDArray[np.int32], *, seed: int) -> Freer | None:
    """Return the simplest family with a freer shape that is clearly better, or None.

    Parameters
    ----------
    asked, data, labels
        As in `compared_with_simpler`.
    seed : int
        Decides which rows are looked at, and which of them are held out.

    Returns
    -------
    Freer or None
        None if the number of clusters was given or is below four, for other families than diagonal, spherical and
        Poisson ones, one column and more than 40, fewer than 100 rows, weights, known rows, and where the clusters are
        no pieces.
    """
    freer = FREER.get(type(data.family), ())
    is_plain = data.known is None and data.weight is None and not data.is_sparse and not data.family.allows_missing
    is_told = data.n_rows >= _FEWEST_ROWS and 2 <= data.n_features <= _MOST_COLUMNS
    is_told = is_told and int(labels.max()) + 1 >= _FEWEST_CLUSTERS
    if not freer or asked.n_components is not None or not is_plain or not is_told:
        return None
    with warnings.catch_warnings():  # what they say of the rows, the fit itself has said
        warnings.simplefilter("ignore")
        try:
            return _freer_of_sample(asked, data, labels, freer, seed)
        except ExpFamError:  # rows that another family does not take
            return None


def _freer_of_sample(asked, data, labels, freer, seed):
    """Return the simplest family that explains why a sample has many clusters, or None."""
    rows = drawn_rows(data.n_rows, _MOST_ROWS, seed=seed, unit=_UNIT)
    rows = np.arange(data.n_rows) if rows is None else rows
    held: Any = drawn_rows(len(rows), len(rows) // 5, seed=seed, unit=_UNIT, step=1)  # never all, so never None
    seen, new = np.delete(rows, held), data.X[rows[held]]
    X, begun = data.X[seen], compact_labels(labels[seen])

    def settler(family):
        return settler_of(asked, Dataset(X, family), family, seed)

    def fit(family, *, merges=True):
        if type(family) is NegativeBinomial:
            return sized_counts(settler, begun, new, merges=merges, n_threads=asked.n_threads)
        own = settler(family)
        fitted = own.merged(own.fitted(begun)) if merges else own.fitted(begun)
        densities = held_out_densities(fitted.model, own.data, fitted.labels, new, n_threads=asked.n_threads)
        return family, int(fitted.labels.max()) + 1, densities

    d = data.n_features
    _, n_begun, own = fit(asked.family, merges=False)
    tried = [(*fit(family), reason) for family, reason in freer]
    found = [Freer(family, reason, n, (densities - own) / d) for family, n, densities, reason in tried]
    best = max(one.gain for one in found)
    simplest = next(one for one in found if one.gain >= best - _LEAST_GAIN)
    return simplest if simplest.explains(n_begun) else None


def warn_of_pieces(asked: Asked, found: Freer, n_clusters: int) -> None:
    """Warn that a family with a freer shape describes rows better by fewer clusters."""
    family: Any = found.family if type(found.family) is NegativeBinomial else found.family.name
    own, than = asked.family.name, "less well than" if found.gain > 0.0 else "no better than"
    warn(
        f"{asked.owner}: {found.reason}, and {own} cuts such groups into pieces. Its"
        f" {counted(n_clusters, 'cluster')} describe rows that were held out {than}"
        f" {counted(found.n_clusters, 'cluster')} of {found.family.name} ({found.gain:+.2f} nats a cell). Write"
        f" {asked.line(family=family)}",
        DataWarning,
    )
