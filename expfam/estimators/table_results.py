"""What is read after the fit of a table: its clusters, and cells and scores given them.

It stands on the bound family, the statistics (n, S) of the clusters and their weights, as all prediction does. A
further cluster without data has a part in every answer about rows, as in `score_samples`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy import sparse
from sklearn import get_config
from sklearn.base import BaseEstimator

from expfam.errors import CapabilityError
from expfam.estimators.scoring import log_sum_exp, opened_rows
from expfam.families.columns.cells import as_columns, cell_laws
from expfam.families.columns.roles import Roles
from expfam.io.frames import in_backend, is_frame, listed, new_frame, with_cells
from expfam.model.assignment import LoadedClusters
from expfam.params import Integer, check_value
from expfam.structures.ground.rng import generator

if TYPE_CHECKING:
    from typing import Self


_OUTPUTS = ("default", "pandas", "polars")
_N_WORDS = 8  # of a cluster of texts


class TableResults(BaseEstimator):
    """Base of estimators whose clusters are those of a table.

    Subclasses have `family_`, `n_`, `S_`, `weights_`, `log_weight_new_`, `n_threads`, `_validate` and `_seed`.
    """

    family_: Any
    n_: Any
    S_: Any
    weights_: Any
    log_weight_new_: float
    n_threads: Any

    def set_output(self, *, transform: Literal["default", "pandas", "polars"] | None = None) -> Self:
        """Choose the kind of frames that results come as.

        Parameters
        ----------
        transform : {"default", "pandas", "polars"} or None
            "default" is the kind of the data: arrays for arrays, frames of the same library for frames. None changes
            nothing. ``sklearn.set_config(transform_output=...)`` says it for all estimators.

        Returns
        -------
        self
        """
        if transform is not None:
            check_value(f"{type(self).__name__}: set_output: transform", transform, _OUTPUTS)
            self._output = transform
        return self

    def _kind(self):
        """Return the library of the frames to return, or None if the fit was one of an array."""
        chosen = self.__dict__.get("_output", get_config().get("transform_output", "default"))
        if chosen in _OUTPUTS[1:]:
            return chosen
        if getattr(self.family_, "roles", None):
            return self.__dict__.get("_backend", "pandas")
        return "pandas" if hasattr(self, "feature_names_in_") else None

    def _table_roles(self):
        found = getattr(self.family_, "roles", None)
        return Roles(found) if found else None

    def _column_names(self):
        names = getattr(self, "feature_names_in_", None)
        roles = self._table_roles()
        if roles is not None:
            return list(roles.names)
        return [str(j) for j in range(self.n_features_in_)] if names is None else list(map(str, names))  # type: ignore[attr-defined]

    # ---- clusters ----------------------------------------------------------------------------------------------------

    @property
    def clusters_(self) -> Any:
        """Return a frame with one row a cluster, in the units of the data.

        Its columns are the number of the cluster, its size and weight, and of each column of the data mean and
        standard deviation, "31.2 (4.1)", or the most probable level and its probability, "red (0.83)". Counts of words
        have the words that are most typical of the cluster instead.
        """
        self._check_fitted()  # type: ignore[attr-defined]
        sizes = getattr(self, "cluster_sizes_", self.n_)
        found: dict[str, Any] = {"cluster": np.arange(len(self.n_)), "size": np.asarray(sizes)}
        found["weight"] = np.round(self.weights_, 4)
        kind = self._kind() or "pandas"
        names = self._column_names()
        if self.family_.name == "multinomial":
            return new_frame(found | {"words": self._words(names)}, backend=kind)
        roles, laws = self._table_roles(), cell_laws(as_columns(self.family_), self.n_, self.S_)
        for j, name in enumerate(names):
            key = f"{name} (column)" if name in found else name
            found[key] = _texts(laws[j], None if roles is None else roles.kept[j])
        return new_frame(found, backend=kind)

    def _words(self, names):
        p = self.family_.to_params(*self.family_.map_natural(self.n_, _dense(self.S_)))["probability"]
        average = (self.n_ / self.n_.sum()) @ p
        best = np.argsort(-p * np.log(p / average), axis=1, kind="stable")[:, :_N_WORDS]
        return [", ".join(names[j] for j in row) for row in best]

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
        if k is not None:
            check_value(f"{type(self).__name__}: explain: k", k, (Integer(0),))
            if k >= len(self.n_):
                raise ValueError(f"{type(self).__name__}: explain: there are {len(self.n_)} clusters; got k={k}")
        table = self._log_bayes_factors()
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
        n, S = np.asarray(self.n_, dtype=np.float64), _dense(self.S_)
        rest = by_column(_others(n), _others(S))
        return by_column(n, S) + rest - by_column(n.sum(keepdims=True), S.sum(axis=0, keepdims=True))

    # ---- rows --------------------------------------------------------------------------------------------------------

    def _each_block_open(self, X, family, reduce):
        """Apply `reduce` to blocks of scores of rows that may lack any cells.

        Return the blocks and the log-base of the rows.
        """
        data, S = opened_rows(X, family, self.n_, self.S_)
        clusters = LoadedClusters(data.family, self.n_, S, n_empty=1)
        with np.errstate(divide="ignore"):
            log_weights = np.append(np.log(self.weights_), self.log_weight_new_)
        return clusters.each_block(data, log_weights, reduce, n_threads=self.n_threads), data.log_base

    def _open_scores(self, X, family):
        blocks, log_base = self._each_block_open(X, family, lambda scores, start, stop: log_sum_exp(scores))
        return np.concatenate(blocks) + log_base

    def _conditional_scores(self, X, given):
        """Return the log density of each row given some of its columns: (N,) nats."""
        family = as_columns(self.family_)
        X = np.array(self._validate(X, reset=False, family=family), dtype=np.float64)  # type: ignore[attr-defined]
        known = np.isin(np.arange(X.shape[1]), self._places(given))
        only = np.where(known, X, np.nan)
        return self._open_scores(X, family) - self._open_scores(only, family)

    def _places(self, given):
        """Return the numbers of columns that are given by number or name."""
        names = self._column_names()
        given = [given] if isinstance(given, (str, int, np.integer)) else list(given)
        found = []
        for column in given:
            if isinstance(column, str) and column in names:
                found.append(names.index(column))
            elif isinstance(column, (int, np.integer)) and 0 <= column < len(names):
                found.append(int(column))
            else:
                raise ValueError(
                    f"{type(self).__name__}: given: there is no column {column!r} (the fit has {listed(names, 20)})"
                )
        return found

    def impute(self, X: Any, draws: int | None = None) -> Any:
        """Return rows with their missing cells filled, given their other cells and the clusters.

        Parameters
        ----------
        X : frame or (N, V) array_like
            Cells that are there stay as they are, and so do columns that the fit left out.
        draws : int, optional
            Return this many draws of the missing cells: of a cluster, of its parameter and then of the cells, exact
            given the fitted clusters. Between draws the cells differ as much as they are uncertain.

        Returns
        -------
        frame or ndarray, or a list of `draws` of them
            Without `draws`, a number is the posterior mean, and a category the most probable level; of a log-normal
            column it is the exponential of the mean logarithm, since the mean does not exist. Integer columns get whole
            numbers.

        Raises
        ------
        DataError, DataTypeError, SupportError
            As `predict` raises them.
        CapabilityError
            A row lacks cells of columns that depend on each other.
        """
        self._check_fitted()  # type: ignore[attr-defined]
        if draws is not None:
            check_value(f"{type(self).__name__}: impute: draws", draws, (Integer(1),))
        family = as_columns(self.family_)
        matrix = np.array(self._validate(X, reset=False, family=family), dtype=np.float64)  # type: ignore[attr-defined]
        holes = np.isnan(matrix)
        rows = np.flatnonzero(holes.any(axis=1))
        laws = cell_laws(family, np.append(self.n_, 0.0), np.vstack([_dense(self.S_), np.zeros(self.S_.shape[1])]))
        laws = {j: _known_levels(law, role) for (j, law), role in zip(sorted(laws.items()), self._roles_or_none())}
        if not rows.size:
            filled = [matrix] * (draws or 1)
        elif draws is None:
            filled = [self._with_means(matrix, holes, rows, family, laws)]
        else:
            filled = self._with_draws(matrix, holes, rows, family, laws, draws)
        results = [self._as_given(X, found, holes) for found in filled]
        return results[0] if draws is None else results

    def _roles_or_none(self):
        roles = self._table_roles()
        return [None] * self.n_features_in_ if roles is None else roles.kept  # type: ignore[attr-defined]

    def _with_means(self, matrix, holes, rows, family, laws):
        filled = matrix.copy()

        def reduce(scores, start, stop):
            p = np.exp(scores - log_sum_exp(scores)[:, None])
            at = rows[start:stop]
            for j in np.flatnonzero(holes[at].any(axis=0)):
                lacking = holes[at, j]
                filled[at[lacking], j] = _center(laws[j], p[lacking])

        self._each_block_open(matrix[rows], family, reduce)
        return filled

    def _with_draws(self, matrix, holes, rows, family, laws, draws):
        rng = generator(self._seed(), "predict")  # type: ignore[attr-defined]

        def reduce(scores, start, stop):
            return np.exp(scores - log_sum_exp(scores)[:, None])

        p = np.cumsum(np.concatenate(self._each_block_open(matrix[rows], family, reduce)[0]), axis=1)
        filled = []
        for _ in range(draws):
            clusters = (rng.random((len(rows), 1)) * p[:, -1:] >= p).sum(axis=1)
            found = matrix.copy()
            cells = self._drawn_rows(family, clusters, laws, rng)
            found[rows] = np.where(holes[rows], cells, matrix[rows])
            filled.append(found)
        return filled

    def _drawn_rows(self, family, clusters, laws, rng):
        """Return a row of each given cluster, each under its own parameter; K is a new cluster."""
        n, S = np.append(self.n_, 0.0), np.vstack([_dense(self.S_), np.zeros(self.S_.shape[1])])
        cells = np.empty((len(clusters), family.n_features_in_))
        for k in np.unique(clusters):
            own = np.flatnonzero(clusters == k)
            cells[own] = family.posterior_predictive_sample(n[k], S[k], len(own), rng)
            for j, law in laws.items():
                if law.probability is not None:  # one cell a row: the predictive, without the level of unseen values
                    cells[own, j] = rng.choice(law.probability.shape[1], size=len(own), p=law.probability[k])
        return cells

    def _as_given(self, X, filled, holes):
        """Return filled cells in the form of the data."""
        if not is_frame(X):
            kind = self.__dict__.get("_output", "default")
            names = self._column_names()
            return filled if kind == "default" else new_frame(dict(zip(names, filled.T)), backend=kind)
        roles, names = self._table_roles(), self._column_names()
        values = dict(zip(names, filled.T)) if roles is None else roles.decode(filled)
        cells = {}
        for j, name in enumerate(names):
            at = np.flatnonzero(holes[:, j])
            if at.size:
                cells[name] = (at, [_plain(values[name][row]) for row in at])
        found = with_cells(X, cells)
        chosen = self.__dict__.get("_output", "default")
        return found if chosen == "default" else in_backend(found, chosen)

    def _sampled(self, X, clusters, rng):
        """Return drawn rows as the fit's kind of data, without the level of unseen values."""
        roles = self._table_roles()
        if roles is None:
            return X if self._kind() is None else new_frame(dict(zip(self._column_names(), X.T)), backend=self._kind())
        laws = cell_laws(self.family_, self.n_, self.S_)
        for j, role in enumerate(roles.kept):
            if not (role.is_category and role.other):
                continue
            law = _known_levels(laws[j], role)
            for row in np.flatnonzero(X[:, j] >= len(role.levels)):
                X[row, j] = rng.choice(len(role.levels), p=law.probability[clusters[row]])
        columns = roles.decode(X)
        for role in roles.kept:
            if role.role == "count":
                values = columns[role.column]
                columns[role.column] = np.rint(np.maximum(np.asarray(values, dtype=np.float64), 0)).astype(np.int64)
        return new_frame(columns, backend=self._kind())


def _dense(S):
    return S.toarray() if sparse.issparse(S) else np.asarray(S, dtype=np.float64)


def _others(sums):
    """Return the sum of all rows but each one, without subtraction: counts never fall below 0."""
    before, after = np.zeros_like(sums), np.zeros_like(sums)
    np.cumsum(sums[:-1], axis=0, out=before[1:])
    after[:-1] = np.cumsum(sums[:0:-1], axis=0)[::-1]
    return before + after


def _known_levels(law, role):
    """Return the law of a column without the level that stands for unseen values."""
    if law.probability is None or role is None or not role.other:
        return law
    known = law.probability[:, : len(role.levels)]
    return law._replace(probability=known / known.sum(axis=1, keepdims=True))


def _center(law, p):
    """Return what stands for missing cells, by the probabilities p (m, K + 1) of clusters."""
    if law.probability is not None:
        return (p @ law.probability).argmax(axis=1)
    found = p @ law.center
    return np.exp(found) if law.of_logs else found


def _texts(law, role):
    """Return mean and spread, or mode and probability, of a column in each cluster."""
    if law.probability is None:
        offset = 0.0 if role is None else role.offset
        spreads = [f" ({_short(sd, 3)})" if np.isfinite(sd) else "" for sd in law.sd]
        return [f"{_short(mean - offset, 4)}{spread}" for mean, spread in zip(law.mean, spreads)]
    law = _known_levels(law, role)
    best = law.probability.argmax(axis=1)
    levels = best if role is None else [role.levels[code] for code in best]
    return [f"{level} ({p:.2f})" for level, p in zip(levels, law.probability.max(axis=1))]


def _short(value, digits):
    """Return a number with some digits, and whole below ten millions."""
    return f"{value:.0f}" if 10.0**digits <= abs(value) < 1e7 else f"{value:.{digits}g}"


def _plain(value):
    return value.item() if isinstance(value, np.generic) else value
