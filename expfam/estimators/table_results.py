"""Filled cells, conditional scores and drawn rows after the fit of a table.

It stands on the bound family, the statistics (n, S) of the clusters and their weights, as all prediction does. A
further cluster without data has a part in every answer about rows, as in `score_samples`.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from expfam.estimators.cluster_results import ClusterResults, known_levels
from expfam.estimators.loaded import loaded_clusters, names_of_fit
from expfam.families.columns.cells import as_columns, cell_laws
from expfam.families.columns.family import Columns
from expfam.families.columns.holes import about_columns, drawn_holes, whole_rows
from expfam.families.columns.names import named_columns
from expfam.families.gaussian.holes import with_holes
from expfam.families.support import dense_rows
from expfam.fitted.scoring import log_sum_exp, opened_rows
from expfam.frames.filled_cells import with_cells
from expfam.frames.frame import as_frame, is_frame, listed
from expfam.frames.new_frames import in_backend, new_frame
from expfam.params import Integer, check_value
from expfam.structures.ground.rng import generator

if TYPE_CHECKING:
    import numpy.typing as npt

_ROWS = 4096  # whose parameters are drawn together


class TableResults(ClusterResults):
    """Base of estimators whose rows are those of a table.

    Subclasses have, beside what `ClusterResults` asks for, `log_weight_new_` or a `_row_clusters` of their own,
    `n_threads`, `_validate` and `_seed`.
    """

    log_weight_new_: float
    n_threads: Any

    def _row_clusters(self):
        """Return counts (K,), sums (K, F) and log weights under which rows are scored.

        There are K weights, or K + 1 if the last is that of a new cluster.
        """
        with np.errstate(divide="ignore"):
            return self.n_, self.S_, np.append(np.log(self.weights_), self.log_weight_new_)

    def _blocks_of_rows(self, X, family, reduce, *, mass=None, columns=None):
        """Apply `reduce` to blocks of scores of rows that may lack any cells.

        `mass` has log weights of each row, in place of the common ones. `columns` are the columns of phi that the
        family has of those of the fit, all by default. Return the blocks, and the log-base of rows.
        """
        n, S, log_weights = self._row_clusters()
        S = S if columns is None else S[:, columns]
        data, S = opened_rows(X, family, n, S, names=names_of_fit(self))
        n_empty = len(log_weights) - len(n)
        clusters = loaded_clusters(self, data.family, n, S, n_empty=n_empty)
        if mass is None:
            return clusters.each_block(data, log_weights, reduce, n_threads=self.n_threads), data.log_base

        def with_mass(scores, start, stop):
            scores += mass[start:stop]
            return reduce(scores, start, stop)

        zeros = np.zeros(len(log_weights))
        return clusters.each_block(data, zeros, with_mass, n_threads=self.n_threads), data.log_base

    def _scores_of_rows(self, X, family, *, mass=None, columns=None):
        """Return the log density of each row: (N,) nats."""
        blocks, log_base = self._blocks_of_rows(
            X, family, lambda scores, start, stop: log_sum_exp(scores), mass=mass, columns=columns
        )
        return np.concatenate(blocks) + log_base

    def _conditional_scores(self, X, given, mass_of=None):
        """Return the log density of each row given some of its columns: (N,) nats.

        `mass_of` makes log weights (N, K) of the given cells, of their family and of its columns of phi.
        """
        opened = with_holes(self.family_)
        family = as_columns(self.family_) if opened is None else opened
        X = np.array(self._validate(X, reset=False, family=family), dtype=np.float64)  # type: ignore[attr-defined]
        known = np.isin(np.arange(X.shape[1]), self._places(given))
        only = np.where(known, X, np.nan)
        about, columns = about_columns(family, known) if opened is None else (family, None)
        columns = None if about is family else columns
        mass = None if mass_of is None else mass_of(only, about, columns)
        scores = self._scores_of_rows(X, family, mass=mass)
        return scores - self._scores_of_rows(only, about, mass=mass, columns=columns)

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

    # ---- filled cells ------------------------------------------------------------------------------------------------

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
        return self._imputed(X, draws)

    def _imputed(self, X, draws, mass_of=None):
        """Return filled rows; `mass_of` makes log weights (N, K) of the encoded rows."""
        if draws is not None:
            check_value(f"{type(self).__name__}: impute: draws", draws, (Integer(1),))
        family = as_columns(self.family_)
        matrix = np.array(self._validate(X, reset=False, family=family), dtype=np.float64)  # type: ignore[attr-defined]
        with named_columns(names_of_fit(self)):
            family.validate(matrix)  # all rows: only those with holes are scored, by other numbers
        holes = np.isnan(matrix)
        rows = np.flatnonzero(holes.any(axis=1))
        mass = None if mass_of is None else mass_of(matrix)[rows]
        clusters = _Clusters(family, self._row_clusters(), self._roles_or_none())
        laws = clusters.laws  # refuses families whose columns are no cells
        if not rows.size:
            filled = [matrix] * (draws or 1)
        elif draws is None:
            filled = [self._with_means(matrix, holes, rows, clusters.table, laws, mass)]
        else:
            filled = self._with_draws(matrix, holes, rows, clusters, mass, draws)
        results = [self._as_given(X, found, holes) for found in filled]
        return results[0] if draws is None else results

    def _roles_or_none(self):
        roles = self._table_roles()
        return [None] * self.n_features_in_ if roles is None else roles.kept  # type: ignore[attr-defined]

    def _with_means(self, matrix, holes, rows, family, laws, mass):
        filled = matrix.copy()

        def reduce(scores, start, stop):
            p = np.exp(scores - log_sum_exp(scores)[:, None])
            at = rows[start:stop]
            for j in np.flatnonzero(holes[at].any(axis=0)):
                lacking = holes[at, j]
                filled[at[lacking], j] = laws[j].average(p[lacking])

        self._blocks_of_rows(matrix[rows], family, reduce, mass=mass)
        return filled

    def _with_draws(self, matrix, holes, rows, clusters, mass, draws):
        rng = generator(self._seed(), "predict")  # type: ignore[attr-defined]

        def reduce(scores, start, stop):
            return np.exp(scores - log_sum_exp(scores)[:, None])

        blocks, _ = self._blocks_of_rows(matrix[rows], clusters.table, reduce, mass=mass)
        p = np.cumsum(np.concatenate(blocks), axis=1)
        filled = []
        for _ in range(draws):
            chosen = (rng.random((len(rows), 1)) * p[:, -1:] >= p).sum(axis=1)
            found = matrix.copy()
            found[rows] = np.where(holes[rows], clusters.drawn_rows(chosen, rng), matrix[rows])
            filled.append(found)
        return filled

    def _as_given(self, X, filled, holes):
        """Return filled cells in the form of the data."""
        names = self._column_names()
        if not is_frame(X):
            kind = self._asked_kind
            return filled if kind == "default" else new_frame(dict(zip(names, filled.T)), backend=kind)
        roles = self._table_roles()
        if roles is None and not hasattr(self, "feature_names_in_"):
            names = as_frame(X).names  # columns were read by position
        values = dict(zip(names, filled.T)) if roles is None else roles.decode(filled)
        cells = {}
        for j, name in enumerate(names):
            at = np.flatnonzero(holes[:, j])
            if at.size:
                cells[name] = (at, [_plain(values[name][row]) for row in at])
        found = with_cells(X, cells, None if roles is None else roles.types)
        return found if self._asked_kind == "default" else in_backend(found, self._asked_kind)

    # ---- drawn rows --------------------------------------------------------------------------------------------------

    def sample(self, n_samples: int = 1, *, complete: bool = True) -> tuple[Any, npt.NDArray[np.int32]]:
        """Draw rows from the posterior predictive of the existing clusters.

        Parameters
        ----------
        n_samples : int
        complete : bool
            Draw every cell. Otherwise cells of a table are missing as often as in the data of each cluster, those of
            columns that were missing together also together where the family keeps count of it.

        Returns
        -------
        X : (n_samples, V) ndarray, or frame
            After the fit of a frame a frame of the same library, with its types and levels.
        y : (n_samples,) int32 ndarray
            Cluster of each row, in ascending order.
        """
        self._check_fitted()  # type: ignore[attr-defined]
        owner = f"{type(self).__name__}: sample"
        check_value(f"{owner}: n_samples", n_samples, (Integer(1),))
        check_value(f"{owner}: complete", complete, bool)
        _, weights, n, S = self._clusters()
        return self._sampled(n_samples, weights / np.sum(weights), n, dense_rows(S), complete)

    def _sampled(self, n_samples, weights, n, S, complete):
        """Return drawn rows in the form of the fit's data, and their clusters."""
        rng = generator(self._seed(), "predict")  # type: ignore[attr-defined]
        sizes = rng.multinomial(n_samples, weights)
        clusters = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
        if isinstance(self.family_, Columns):
            table = _Clusters(self.family_, (n, S, None), self._roles_or_none())
            X = table.drawn_rows(clusters, rng)
            if not complete:
                X[drawn_holes(self.family_, n, S, clusters, rng)] = np.nan
        else:
            used = np.flatnonzero(sizes)
            draw = self.family_.posterior_predictive_sample
            X = np.concatenate([draw(n[k], S[k], int(sizes[k]), rng) for k in used])
        return self._as_fitted(X), clusters

    def _as_fitted(self, X):
        """Return encoded rows as the fit's kind of data."""
        roles, kind = self._table_roles(), self._kind()
        if roles is None:
            return X if kind is None else new_frame(dict(zip(self._column_names(), X.T)), backend=kind)
        return new_frame(roles.decode(X, whole=True), backend=kind, types=roles.types)


class _Clusters:
    """Clusters of a table from which cells are drawn, with an empty one if it has a weight."""

    def __init__(self, table, clusters, roles):
        n, S, log_weights = clusters
        if log_weights is not None and len(log_weights) > len(n):
            n, S = np.append(n, 0.0), np.vstack([dense_rows(S), np.zeros(S.shape[1])])
        self.table, self.n, self.S, self.roles = table, np.asarray(n, dtype=np.float64), dense_rows(S), roles

    @cached_property
    def laws(self):
        """Return what the cells of each column are, without the level of unseen values."""
        laws = cell_laws(self.table, self.n, self.S)
        return {j: known_levels(law, role) for (j, law), role in zip(sorted(laws.items()), self.roles)}

    def drawn_rows(self, clusters, rng):
        """Return a row of each given cluster, each under its own parameter, with all its cells."""
        family, columns = whole_rows(self.table)
        cells = np.empty((len(clusters), self.table.n_features_in_))
        for start in range(0, len(clusters), _ROWS):
            part = slice(start, start + _ROWS)
            theta, _ = family.draw_natural(self.n[clusters[part]], self.S[clusters[part]][:, columns], rng)
            cells[part] = family.sample(theta, 1, rng)
        gone = np.isnan(cells).any(axis=0)  # a level stands for missing codes
        for j, role in enumerate(self.roles):
            if gone[j] or (role is not None and role.is_category and role.other):
                p = np.cumsum(self.laws[j].probability, axis=1)[clusters]  # one cell a row: the predictive
                cells[:, j] = (rng.random((len(clusters), 1)) * p[:, -1:] >= p).sum(axis=1)
        return cells


def _plain(value):
    return value.item() if isinstance(value, np.generic) else value
