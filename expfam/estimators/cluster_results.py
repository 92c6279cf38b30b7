"""Clusters as a frame after a fit, and what each column tells them apart by."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from expfam.amounts import counted
from expfam.errors import CapabilityError
from expfam.estimators.frame_output import FrameOutput
from expfam.families.columns.cells import as_columns, cell_laws
from expfam.families.columns.laws import CellLaw
from expfam.families.support import dense_rows
from expfam.frames.new_frames import moments, new_frame
from expfam.lazy import made_on_use
from expfam.params import Integer, check_value

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from expfam.protocols import Floats

_N_WORDS = 8  # of a cluster of texts


class ClusterResults(FrameOutput):
    """Base of estimators whose clusters are read as a frame.

    Subclasses have `family_`, and `n_`, `S_` and `weights_`, or a `_clusters` of their own.
    """

    n_: Any
    S_: Any
    weights_: Any

    def _clusters(self):
        """Return sizes, weights, counts n (K,) and sums S (K, F) of the clusters."""
        return getattr(self, "cluster_sizes_", self.n_), self.weights_, self.n_, self.S_

    @property
    @made_on_use
    def clusters_(self) -> Any:
        """Return a frame with one row a cluster, in the units of the data.

        Its columns are the number of the cluster, its size and weight, and of each column of the data mean and
        standard deviation, "31.2 (4.1)", or the most probable level and its probability, "red (0.83)". Counts of words
        have the words that are most typical of the cluster instead.
        """
        self._check_fitted()  # type: ignore[attr-defined]
        sizes, weights, n, S = self._clusters()
        found: dict[str, Any] = {"cluster": np.arange(len(n)), "size": rounded_sizes(sizes)}
        found["weight"] = np.round(weights, 4)
        kind = self._kind() or "pandas"
        names = self._column_names()
        if self.family_.name == "multinomial":
            p = self.family_.to_params(*self.family_.map_natural(n, dense_rows(S)))["probability"]
            return new_frame(found | {"words": typical_words(p, n, names)}, backend=kind)
        roles, laws = self._table_roles(), cell_laws(as_columns(self.family_), n, S)
        for j, name in enumerate(names):
            key = f"{name} (column)" if name in found else name
            found[key] = _texts(laws[j], None if roles is None else roles.kept[j])
        return new_frame(found, backend=kind)

    @property
    @made_on_use
    def params_(self) -> dict[str, Any]:
        """Return the parameters of the clusters in the units of the data: arrays (K, ...) by name.

        They are those of the family, such as "mean" and "variance" (K, V) of `DiagonalGaussian`, "mean" and
        "covariance" of `Gaussian`, "rate" of `Poisson`, and "probability" of categories and counts of words; see
        `Family.cluster_params`. Of a table there is one such dict for each column, by its name. They are the
        posterior mode in natural coordinates, with the prior in them.

        Raises
        ------
        AttributeError
            The family has no usual parameters.

        Examples
        --------
        >>> from expfam import Mixture
        >>> mixture = Mixture("poisson", 2, random_state=0).fit([[1, 0], [0, 2], [1, 1], [40, 50], [44, 47]])
        >>> mixture.params_["rate"].shape
        (2, 2)
        """
        self._check_fitted()  # type: ignore[attr-defined]
        _, _, n, S = self._clusters()
        found: dict[str, Any] = self.family_.cluster_params(n, S)
        return found

    def explain(self, k: int | None = None) -> Any:
        """Return how much each column tells a cluster apart from the others.

        It is the log Bayes factor of "the cells of cluster k have a parameter of their own" against "they have that of
        all other cells": A_j(k) + A_j(all but k) - A_j(all), nats. Below 0 the column speaks against the cluster.

        Parameters
        ----------
        k : int, optional
            A cluster, whose columns are then sorted, the one that tells most first.

        Returns
        -------
        frame or ndarray
            Clusters by columns, (K, V); of one cluster a frame of column and log Bayes factor, or (V,). After a fit of
            an array it is an array. NaN stands for columns that are one block with an earlier one, which has the sum.

        Raises
        ------
        CapabilityError
            The family does not know the evidence of its columns.
        """
        self._check_fitted()  # type: ignore[attr-defined]
        table = self._log_bayes_factors()
        if k is not None:
            check_value(f"{type(self).__name__}: explain: k", k, (Integer(0),))
            if k >= len(table):
                raise ValueError(
                    f"{type(self).__name__}: explain: there are {counted(len(table), 'cluster')}; got k={k}"
                )
        kind, names = self._kind(), self._column_names()
        if kind is None:
            return table if k is None else table[k]
        if k is None:
            columns = {f"{name} (column)" if name == "cluster" else name: table[:, j] for j, name in enumerate(names)}
            return new_frame({"cluster": np.arange(len(table)), **columns}, backend=kind)
        order = np.argsort(-np.nan_to_num(table[k], nan=-np.inf), kind="stable")
        ranked = {"column": [names[j] for j in order], "log_bayes_factor": table[k][order]}
        return new_frame(ranked, backend=kind)

    def column_evidence(self) -> tuple[list[str], Any]:
        """Return the names of the columns, and `explain` of all clusters as an array (K, V)."""
        self._check_fitted()  # type: ignore[attr-defined]
        return self._column_names(), self._log_bayes_factors()

    def _log_bayes_factors(self):
        by_column = getattr(self.family_, "log_marginal_by_column", None)
        if by_column is None:
            raise CapabilityError(
                f"explain needs log_marginal_by_column(), which family {self.family_.name!r} does not implement"
            )
        _, _, n, S = self._clusters()
        n, S = np.asarray(n, dtype=np.float64), dense_rows(S)
        rest = by_column(_others(n), _others(S))
        return by_column(n, S) + rest - by_column(n.sum(keepdims=True), S.sum(axis=0, keepdims=True))


def rounded_sizes(sizes: npt.ArrayLike) -> npt.NDArray[Any]:
    """Return sizes of clusters to be read: whole numbers as int64, others with one digit."""
    sizes = np.asarray(sizes)
    return sizes.astype(np.int64) if bool(np.all(sizes == np.rint(sizes))) else np.round(sizes, 1)


def typical_words(p: Floats, n: Floats, names: Sequence[Any]) -> list[str]:
    """Return the words that are most typical of each cluster, in one text each.

    They are those with the largest terms of the Kullback-Leibler divergence from the average of all clusters, if they
    are more probable than in the average; of a single cluster they are the most probable ones.

    Parameters
    ----------
    p : (K, V) float64
        Probability of each word in each cluster, above 0.
    n : (K,) float64
        Size of each cluster in the average.
    names : sequence of V
    """
    gain = p if len(p) == 1 else p * np.log(p / ((n / n.sum()) @ p))
    best = np.argsort(-gain, axis=1, kind="stable")[:, :_N_WORDS]
    return [", ".join(str(names[j]) for j in row if own[j] > 0.0) for row, own in zip(best, gain)]


def _others(sums):
    """Return the sum of all rows but each one, without subtraction: counts never fall below 0."""
    before, after = np.zeros_like(sums), np.zeros_like(sums)
    np.cumsum(sums[:-1], axis=0, out=before[1:])
    after[:-1] = np.cumsum(sums[:0:-1], axis=0)[::-1]
    return before + after


def known_levels(law: CellLaw, role: Any) -> CellLaw:
    """Return the law of a column without the level that stands for unseen values."""
    if law.probability is None or role is None or not role.other:
        return law
    known = law.probability[:, : len(role.levels)]
    return law._replace(probability=known / known.sum(axis=1, keepdims=True))


def _texts(law, role):
    """Return mean and spread, or mode and probability, of a column in each cluster."""
    if law.probability is None:
        offset = 0.0 if role is None else role.offset
        if role is not None and role.type in ("datetime", "date", "duration"):
            spreads = [f" ({spans(sd)})" if np.isfinite(sd) else "" for sd in law.sd]
            return [f"{_time_text(mean - offset, role.type)}{spread}" for mean, spread in zip(law.mean, spreads)]
        spreads = [f" ({_short(sd, 3)})" if np.isfinite(sd) else "" for sd in law.sd]
        return [f"{_short(mean - offset, 4)}{spread}" for mean, spread in zip(law.mean, spreads)]
    law = known_levels(law, role)
    best = law.probability.argmax(axis=1)
    levels = best if role is None else [role.levels[code] for code in best]
    return [f"{level} ({p:.2f})" for level, p in zip(levels, law.probability.max(axis=1))]


def _time_text(seconds, kind):
    """Return seconds as a date or a point in time, or as a duration."""
    if kind == "duration":
        return spans(seconds)
    try:
        moment = moments([float(seconds)], "datetime" if kind == "datetime" else "date")[0]
    except OverflowError:  # beyond the year 9999
        return f"{_short(seconds, 4)} s since 1970"
    return moment.isoformat(sep=" ", timespec="seconds") if kind == "datetime" else moment.isoformat()


def spans(seconds: float) -> str:
    """Return a number of seconds in the largest unit of which there is one at least.

    Examples
    --------
    >>> from expfam.estimators.cluster_results import spans
    >>> spans(90.0), spans(36 * 3600.0)
    ('1.5 min', '1.5 days')
    """
    units = {"days": 86400.0, "h": 3600.0, "min": 60.0}
    unit = next((name for name, size in units.items() if abs(seconds) >= size), "s")
    return f"{_short(seconds / units.get(unit, 1.0), 3)} {unit}"


def _short(value, digits):
    """Return a number with some digits, and whole below ten millions."""
    return f"{value:.0f}" if 10.0**digits <= abs(value) < 1e7 else f"{value:.{digits}g}"
