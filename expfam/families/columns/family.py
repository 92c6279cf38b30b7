"""Columns of several kinds with holes: one family for each group of columns.

The groups are independent within a cluster. phi of a row is the phi of its parts side by side. A part that some rows
lack has one more statistic, the indicator o of being observed, and counts the rows that have it. (n, S) stays a pair,
so the model is an exponential family like any other, and missing cells are integrated out exactly if they are missing
at random.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from scipy import sparse

from expfam.errors import DataError
from expfam.families import support as _support
from expfam.families.base import Family
from expfam.families.columns._components import ColumnsComponents
from expfam.families.columns.parts import (
    LEVEL,
    OBSERVED,
    PRESENCE,
    Part,
    bound_parts,
    cells_of,
    groups,
    is_missing,
    opened_family,
    patterns,
    reads_holes,
    renamed_places,
    split_groups,
)
from expfam.families.columns.roles import table_of
from expfam.families.components import Components
from expfam.families.counts.categorical import Categorical
from expfam.params import check_value

if TYPE_CHECKING:
    import numpy.typing as npt
    from typing_extensions import Self

    from expfam.protocols import Floats

_MOST_DENSE = 4  # statistics are CSR if there are more than this many for each one that a row stores


class Columns(Family):
    """Groups of columns, each with a family of its own; cells may be missing.

    Groups are independent within a cluster. Missing cells are NaN. They are left out of the likelihood, which
    integrates them out. This is exact if the reason why a cell is missing does not depend on its value, given the other
    cells.

    Parameters
    ----------
    parts : sequence of (Family, columns)
        A family, and the numbers of the columns that it describes. Each column belongs to one part. Categories are
        level numbers 0, 1, ....
    missing : {"ignorable", "informative"}
        Whether a missing cell says nothing, or is itself a fact about the row that tells clusters apart. The second
        adds a probability of being missing to each part with holes, and a level for missing codes to categories.
    holes : {"seen", "any"}
        Which cells later data may lack: those that the data of `bind` lack, or any. The second is for data in chunks;
        scores cost more.
    rows : {"any", "complete"}
        What becomes of a part whose columns depend on each other, such as a covariance, in rows that lack some of its
        cells: "any" refuses such rows, "complete" uses the part only in rows that have it whole.
    names : sequence of str, optional
        Names of the columns, for messages.
    roles : object, optional
        What the columns are, as found in a data frame; kept and not used.

    Attributes
    ----------
    offsets_ : (P + 1,) int64 ndarray
        First column of phi of each bound part. `parts` of a bound family are these parts: a given part is split where
        its columns are missing in different rows.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import Columns, DiagonalGaussian, Mixture, Poisson
    >>> X = np.array([[1.0, np.nan], [1.1, 3.0], [9.0, 40.0], [np.nan, 44.0], [9.2, np.nan], [0.9, 2.0]])
    >>> family = Columns([(DiagonalGaussian(), (0,)), (Poisson(), (1,))])
    >>> Mixture(family, 2, random_state=0).fit(X).cluster_sizes_
    array([3, 3])

    Notes
    -----
    With parts p, indicators o_p and S_ind(p) the sum of o_p, A(n, S) = sum_p A_p(S_ind(p), S_p); a part that every row
    has takes n. theta = (-g_p, theta_p) for a part with an indicator, whose g is 0. Rubin 1976, "Inference and missing
    data", says when holes may be ignored.
    """

    name = "columns"
    support = "mixed"
    allows_missing: ClassVar[bool] = True
    parts: Any
    missing: str
    holes: str
    rows: str
    names: Any
    roles: Any
    offsets_: npt.NDArray[np.int64]

    def __init__(
        self,
        parts: Sequence[Any] = (),
        *,
        missing: Literal["ignorable", "informative"] = "ignorable",
        holes: Literal["seen", "any"] = "seen",
        rows: Literal["any", "complete"] = "any",
        names: Sequence[str] | None = None,
        roles: Any = None,
    ) -> None:
        check_value("Columns: missing", missing, ("ignorable", "informative"))
        check_value("Columns: holes", holes, ("seen", "any"))
        check_value("Columns: rows", rows, ("any", "complete"))
        self.parts, self.missing, self.holes, self.rows = parts, missing, holes, rows
        self.names, self.roles = names, roles

    @classmethod
    def from_frame(
        cls,
        X: Any,
        /,
        *,
        roles: Sequence[Mapping[str, Any]] | None = None,
        missing: Literal["ignorable", "informative"] = "ignorable",
        max_levels: int = 1000,
        **by_column: Any,
    ) -> Self:
        """Return the family of a data frame by the roles of its columns.

        A column is a category, a count, a positive number, or a number, by its type and values; constant columns and
        such that look like an id are dropped with a warning.

        Parameters
        ----------
        X : pandas.DataFrame, polars.DataFrame or pyarrow.Table
        roles : sequence of dict, optional
            `roles` of another family of this class, or as they were read from JSON.
        missing : {"ignorable", "informative"}
        max_levels : int
            Columns of text with more distinct values are dropped unless they are named.
        **by_column
            By the name of a column: a family such as ``LogNormal()``, the name of one, ``"drop"``, or a role:
            ``"binary"``, ``"category"``, ``"count"``, ``"positive"``, ``"real"``, and ``"numeric"`` for dates. It comes
            before `roles`. Columns of equal families are one part.

        Returns
        -------
        Columns
            With the roles; estimators encode frames by them.

        Raises
        ------
        DataError, DataTypeError, SupportError
            The message names the column and what to do.

        Examples
        --------
        >>> import pandas as pd
        >>> from expfam import Columns
        >>> df = pd.DataFrame({"colour": ["red", None, "blue", "green"], "size": [1.0, 2.5, -3.0, None]})
        >>> [role["family"] for role in Columns.from_frame(df).roles]
        ['categorical', 'gaussian_diag']
        """
        found = table_of(X, roles=roles, max_levels=max_levels, by_column=by_column)
        return cls(**found, missing=missing)

    # ---- parts -------------------------------------------------------------------------------------------------------

    @property
    def _parts(self) -> list[Part]:
        """Return the parts of a bound family."""
        self.require_bound()
        return [Part(*part) for part in self.parts]

    def _given(self):
        """Return family, columns and name of each given part.

        Bound parts, which `get_params` of a bound family returns, are given parts too.
        """
        if not len(self.parts):
            raise ValueError("Columns: parts must hold at least one pair (family, columns)")
        names: list[str] = []
        found = []
        for place, part in enumerate(self.parts):
            if not isinstance(part, (tuple, list)) or len(part) not in (2, 4) or not isinstance(part[0], Family):
                raise TypeError(
                    f"Columns: parts[{place}] must be a pair (family, columns) like (Poisson(), (0, 2)); got {part!r}"
                )
            columns = tuple(int(j) for j in np.atleast_1d(np.asarray(part[1])))
            if len(part) == 4:
                if part[2] != PRESENCE:
                    found.append((part[0], columns, part[3]))
                continue
            names.append(part[0].name)
            count = names.count(part[0].name)
            found.append((part[0], columns, part[0].name if count == 1 else f"{part[0].name}_{count}"))
        return found

    def _check_columns(self, n_columns):
        """Raise DataError unless each column belongs to exactly one part."""
        taken: dict[int, int] = {}
        for place, (_, columns, _) in enumerate(self._given()):
            for j in columns:
                if not 0 <= j < n_columns:
                    raise DataError(f"columns: parts[{place}] names column {j}; X has {n_columns} columns")
                if j in taken:
                    raise DataError(
                        f"columns: column {self.name_of(j)} belongs to parts[{taken[j]}] and parts[{place}]"
                    )
                taken[j] = place
        left = sorted(set(range(n_columns)) - set(taken))
        if left:
            raise DataError(f"columns: {self.names_of(left)} belongs to no part: give it to one, or leave it out of X")
        if self.names is not None and len(self.names) != n_columns:
            raise DataError(f"columns: there are {len(self.names)} names for {n_columns} columns")

    def name_of(self, column: int) -> str:
        """Return the number of a column as text, with its name if it has one."""
        return f"{column}" if self.names is None else f"{column} ({self.names[column]!r})"

    def names_of(self, columns: Iterable[int]) -> str:
        """Return text that names some columns."""
        columns = list(columns)
        listed = ", ".join(self.name_of(j) for j in columns[:5]) + ", ..." * (len(columns) > 5)
        return f"column{'s' * (len(columns) > 1)} {listed}"

    def _with_parts(self, parts):
        """Return a bound copy with other bound parts."""
        other = self._copy()
        other.__dict__.update(self._layout(parts))
        return other

    @staticmethod
    def _layout(parts):
        parts = tuple(sorted(parts, key=lambda part: (min(part.columns), part.reading == PRESENCE)))
        offsets = np.array([0, *accumulate(part.width for part in parts)], dtype=np.int64)
        return {"parts": parts, "offsets_": offsets, "n_statistics_": int(offsets[-1])}

    # ---- binding and opening -----------------------------------------------------------------------------------------

    def bind(self, X: Any) -> Self:
        """Return a frozen copy whose parts are bound, each to the rows that have it.

        A bound family is checked, and opened for holes that it does not know; see `opened_for`.

        Parameters
        ----------
        X : (N, V) array_like
            Missing cells are NaN.

        Returns
        -------
        Columns

        Raises
        ------
        DataError, SupportError
            The message names row and column of the table.
        CapabilityError
            Holes in columns that depend on each other.
        """
        if self.is_bound:
            return self.opened_for(self.validate(X))
        return super().bind(X)

    def resolve(self, X: Any) -> dict[str, Any]:
        """Return the bound parts and the layout of the statistics."""
        parts: list[Part] = [Part(*part) for part in self.parts if len(part) == 4]
        for family, columns, name in [] if parts else self._given():
            keys = patterns(X, columns, holes=self.holes)
            parts += bound_parts(family, columns, name, X, keys, self)
        return self._layout(parts)

    def validate(self, X: Any) -> Any:
        """Check shape, type and the cells of each part; return a C-contiguous array, read-only.

        Any cell may be missing; infinity is refused.
        """
        X = _support.as_matrix(
            X, family=self.name, accepts_sparse=False, n_features=self.__dict__.get("n_features_in_"), allow_nan=True
        )
        if not self.is_bound:
            self._check_columns(X.shape[1])
            return X
        for part in self._parts:
            rows, cells = cells_of(part, X)
            if cells.shape[0] and part.reading != PRESENCE:
                with renamed_places(rows, part.columns, self):
                    part.family.validate(cells)
        return X

    def opened_for(self, X: Any) -> Self:
        """Return the family with a layout that fits the holes of other data.

        The model and its hyper-parameters are the same: parts are split and get indicators where rows of `X` lack
        cells. The family itself is returned if it fits already.

        Parameters
        ----------
        X : (N, V) ndarray, validated

        Returns
        -------
        Columns

        Raises
        ------
        CapabilityError
            Holes in columns that depend on each other.
        """
        parts = []
        for part in self._parts:
            keys = {} if self._reads_any(part) else patterns(X, part.columns, holes="seen")
            parts += self._opened(part, keys, X)
        return self if len(parts) == len(self.parts) and parts == self._parts else self._with_parts(parts)

    def opened(self, columns: Iterable[int] | None = None) -> Self:
        """Return the same family with an indicator for each of some columns, or of all.

        Parameters
        ----------
        columns : iterable of int, optional

        Returns
        -------
        Columns

        Examples
        --------
        >>> from expfam import Columns, DiagonalGaussian
        >>> family = Columns([(DiagonalGaussian(), (0, 1))]).bind([[0.0, 1.0], [2.0, 5.0]])
        >>> family.n_statistics_, family.opened().n_statistics_
        (4, 6)
        """
        chosen = set(range(self.n_features_in_) if columns is None else columns)
        parts = []
        for part in self._parts:
            keys = {j: (j in chosen, j if j in chosen else None) for j in part.columns}
            parts += self._opened(part, {} if self._reads_any(part) else keys, None)
        return self._with_parts(parts)

    @staticmethod
    def _reads_any(part):
        return part.reading in (PRESENCE, LEVEL) or reads_holes(part.family)

    def _opened(self, part, keys, X):
        """Return the parts that one bound part is split into by keys; none leaves it as it is."""
        if not any(is_open for is_open, _ in keys.values()) and len(set(keys.values())) < 2:
            return [part]
        opened = opened_family(part.family)
        if opened is not None and not part.has_indicator:
            return [part._replace(family=opened)] if any(is_open for is_open, _ in keys.values()) else [part]
        found = groups(part.columns, keys, is_observed=part.has_indicator)
        found = split_groups(part.family, part.columns, found, X, self)
        if len(found) == 1:
            return [part._replace(reading=found[0][1])]
        return [
            Part(part.family.of_columns(at)[0], tuple(part.columns[i] for i in at), reading, part.name)
            for at, reading in found
        ]

    def opened_like(self, other: Columns) -> Self:
        """Return the family with its parts split and opened where those of another family are."""
        keys: dict[int, tuple[bool, Any]] = {}
        for place, part in enumerate(other._parts):
            if part.reading != PRESENCE:
                is_open = part.has_indicator or reads_holes(part.family)
                keys |= dict.fromkeys(part.columns, (is_open, place))
        parts = []
        for part in self._parts:
            parts += self._opened(part, {} if self._reads_any(part) else {j: keys[j] for j in part.columns}, None)
        return self._with_parts(parts)

    def open_statistics(self, other: Columns, n: Floats, S: Any) -> Any:
        """Return sums of statistics in the layout of another family, which was opened from this one.

        Parameters
        ----------
        other : Columns
            Result of `opened`, `opened_for` or `opened_like`.
        n : (K,) float64
        S : (K, F) float64 or CSR
            In the layout of this family.

        Returns
        -------
        (K, F') float64 ndarray or CSR
            For the same clusters: the count of a part that every row had is n.
        """
        columns = np.concatenate([self._source_columns(part) for part in other._parts])
        n = np.asarray(n, dtype=np.float64)[:, None]
        if sparse.issparse(S):
            wide = sparse.csr_array(sparse.hstack([S, n])).tocsc()[:, columns].tocsr()
            return sparse.csr_array(wide) if other._is_sparse else wide.toarray()
        wide = np.ascontiguousarray(np.concatenate([S, n], axis=1)[:, columns])
        return sparse.csr_array(wide) if other._is_sparse else wide

    def _source_columns(self, part):
        """Return the columns of phi that hold a part of another family; F stands for n."""
        for start, own in zip(self.offsets_, self._parts):
            is_presence = own.reading == PRESENCE
            if set(part.columns) <= set(own.columns) and is_presence == (part.reading == PRESENCE):
                places = [own.columns.index(j) for j in part.columns]
                whole = places == list(range(len(own.columns)))
                found = np.arange(own.family.n_statistics_) if whole else own.family.of_columns(places)[1]
                found = found + start + own.has_indicator
                count = start if own.has_indicator else self.n_statistics_
                if part.family.n_statistics_ > found.size:  # the same family with a count of each column
                    return np.concatenate([[count] * len(part.columns), found])
                return np.concatenate([[count], found]) if part.has_indicator else found
        raise DataError(f"columns: no part of {self!r} holds {self.names_of(part.columns)} together")

    # ---- statistics --------------------------------------------------------------------------------------------------

    @property
    def _is_sparse(self):
        """Return whether phi is CSR, because categories have many levels that a row does not hold."""
        stored = sum(
            len(part.columns) if hasattr(part.family, "levels_") else part.width for part in map(Part._make, self.parts)
        )
        return stored * _MOST_DENSE < self.offsets_[-1]

    def sufficient_statistics(self, X: Any) -> Any:
        """Return phi of each row: (N, F), part by part; a part with holes begins with its indicator.

        It is CSR if categories have so many levels that most statistics of a row are zero.
        """
        blocks = [self._phi(part, X) for part in self._parts]
        if self._is_sparse:
            return sparse.csr_array(sparse.hstack([sparse.csr_array(block) for block in blocks]))
        return np.concatenate([_support.dense_rows(block) for block in blocks], axis=1)

    def _phi(self, part, X):
        """Return indicator and phi of one part: (N, width), zeros in rows that lack the part."""
        rows, cells = cells_of(part, X)
        self._check_layout(part, X, rows)
        if rows is None and not part.has_indicator:
            return part.family.sufficient_statistics(cells)
        out = np.zeros((X.shape[0], part.width))
        at = slice(None) if rows is None else rows
        if cells.shape[0]:
            out[at, 1:] = _support.dense_rows(part.family.sufficient_statistics(cells))
            out[at, 0] = 1.0
        return out

    def _check_layout(self, part, X, rows):
        """Raise DataError if a row lacks cells that the layout of the statistics needs."""
        if rows is None or (part.has_indicator and (self.rows == "complete" or len(part.columns) == 1)):
            return
        missing = is_missing(X[:, part.columns])
        bad = missing.any(axis=1) & ~(missing.all(axis=1) & part.has_indicator)
        if bad.any():
            row = int(np.argmax(bad))
            column = part.columns[int(np.argmax(missing[row]))]
            raise DataError(
                f"columns: row {row} lacks column {self.name_of(column)}, which the data of `bind` never lacked alone:"
                " bind the family to data with such holes, or with holes='any'"
            )

    def log_base(self, X: Any) -> Floats:
        """Return the log base measure of the observed cells of each row: (N,) nats."""
        total = np.zeros(X.shape[0])
        for part in self.opened_for(X)._parts:
            rows, cells = cells_of(part, X)
            if cells.shape[0]:
                total[slice(None) if rows is None else rows] += part.family.log_base(cells)
        return total

    def _each(self, n, S):
        """Yield each part with its place in the statistics, its counts (K,) and sums (K, F_p).

        Sums of clusters that no observed row is in are exactly 0, whatever rounding has left.
        """
        n, S = np.asarray(n, dtype=np.float64), _support.dense_rows(S)
        for start, stop, part in zip(self.offsets_[:-1], self.offsets_[1:], self._parts):
            first = start + part.has_indicator
            count, sums = n, S[:, first:stop]
            if part.has_indicator:
                count = np.maximum(S[:, start], 0.0)
                if not count.all():
                    sums = np.where(count[:, None] > 0.0, sums, 0.0)
            yield part, slice(first, stop), count, np.ascontiguousarray(sums)

    def log_marginal(self, n: Floats, S: Any) -> Floats:
        """Return the log evidence of each cluster: (K,) nats, the sum over parts."""
        total = np.zeros(np.shape(n))
        for part, _, count, sums in self._each(n, S):
            total += part.family.log_marginal(count, sums)
        return total

    def log_marginal_by_column(self, n: Floats, S: Any) -> Floats:
        """Return the log evidence of each cluster and column: (K, V) nats.

        A part that does not know the evidence of its columns answers in its first column for all, with NaN in the
        others. The evidence of `missing="informative"` is added to the column that is missing.
        """
        out = np.zeros((len(np.asarray(n)), self.n_features_in_))
        for part, _, count, sums in self._each(n, S):
            by_column = getattr(part.family, "log_marginal_by_column", None)
            if by_column is not None and part.reading != PRESENCE:
                out[:, part.columns] += by_column(count, sums)
            else:
                out[:, part.columns[0]] += part.family.log_marginal(count, sums)
                if part.reading != PRESENCE:
                    out[:, part.columns[1:]] = np.nan
        return out

    def log_predictive(self, X: Any, n: Floats, S: Any) -> Floats:
        """Return the log probability of observed cells of each row given each cluster: (N, K) nats."""
        X, n = self.validate(X), np.asarray(n, dtype=np.float64)
        family = self.opened_for(X)
        if family is not self:
            S = self.open_statistics(family, n, S)
        if n.shape[0] == 0:
            return np.empty((X.shape[0], 0))
        components = Components(family, Rows(X, family), n.shape[0])
        components.load(n, S)
        return components.log_predictive_block(0, X.shape[0], n.shape[0])

    # ---- parameters --------------------------------------------------------------------------------------------------

    def _natural(self, n, S, method):
        """Return (Theta, G) whose parts are those of the families' `method`.

        -g of a part with an indicator is the parameter of the indicator.
        """
        theta, total = np.empty(np.shape(S)), np.zeros(np.shape(n))
        for part, place, count, sums in self._each(n, S):
            theta[:, place], g = method(part.family)(count, sums)
            if part.has_indicator:
                theta[:, place.start - 1] = -g
            else:
                total += g
        return theta, total

    def expected_natural(self, n: Floats, S: Floats) -> tuple[Floats, Floats]:
        """Return the posterior means (E theta, E g) of each cluster: (K, F) and (K,)."""
        return self._natural(n, S, lambda family: family.expected_natural)

    def draw_natural(self, n: Floats, S: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Draw parameters (Theta, G) from the posterior of each cluster: (K, F) and (K,)."""
        return self._natural(n, S, lambda family: lambda count, sums: family.draw_natural(count, sums, rng))

    def map_natural(self, n: Floats, S: Floats) -> tuple[Floats, Floats]:
        """Return the mode (Theta, G) of each posterior in natural coordinates: (K, F) and (K,)."""
        return self._natural(n, S, lambda family: family.map_natural)

    def _each_theta(self, theta):
        """Yield each part with its natural parameters (K, F_p) and g (K,)."""
        theta = np.asarray(theta, dtype=np.float64)
        for start, stop, part in zip(self.offsets_[:-1], self.offsets_[1:], self._parts):
            own = np.ascontiguousarray(theta[:, start + part.has_indicator : stop])
            yield part, own, -theta[:, start] if part.has_indicator else part.family.log_partition(own)

    def log_prior(self, theta: Floats, g: Floats) -> Floats:
        """Return the log prior density in natural coordinates, up to a constant: (K,) nats."""
        total = np.zeros(len(theta))
        for part, own, own_g in self._each_theta(theta):
            total += part.family.log_prior(own, own_g)
        return total

    def log_partition(self, theta: Floats) -> Floats:
        """Return the sum of g of the parts that every row has: (K,) nats."""
        total = np.zeros(len(theta))
        for part, _, g in self._each_theta(theta):
            if not part.has_indicator:
                total += g
        return total

    def to_params(self, theta: Floats, g: Floats) -> dict[str, Floats]:
        """Return the usual parameters of each part, as in ``{"gaussian_diag.mean": (K, V_p)}``.

        A name that several parts share is followed by the columns of the part.
        """
        out: dict[str, Floats] = {}
        names = [part.name for part in self._parts]
        for part, own, own_g in self._each_theta(theta):
            shared = names.count(part.name) > 1
            prefix = f"{part.name}[{','.join(map(str, part.columns))}]" if shared else part.name
            if hasattr(part.family, "to_params"):
                out |= {f"{prefix}.{key}": value for key, value in part.family.to_params(own, own_g).items()}
        return out

    def sample(self, theta: Floats, size: int, rng: np.random.Generator) -> Floats:
        """Draw `size` rows under each parameter: (K * size, V), grouped by parameter.

        Cells are missing only with ``missing="informative"``, as often as the parameters say.
        """
        X = np.full((len(theta) * size, self.n_features_in_), np.nan)
        drawn = [(part, part.family.sample(own, size, rng)) for part, own, _ in self._each_theta(theta)]
        for part, cells in sorted(drawn, key=lambda pair: pair[0].reading == PRESENCE):
            if part.reading == PRESENCE:
                X[np.ix_(cells[:, 0] == 0, part.columns)] = np.nan
            else:
                X[:, part.columns] = cells if part.reading != LEVEL else _without_level(cells, part.family.levels_)
        return X

    @property
    def capabilities(self) -> frozenset[str]:
        """Return the abilities that all parts have."""
        return frozenset.intersection(*(part[0].capabilities for part in self.parts)) | {"compiled"}

    @property
    def has_full_covariance(self) -> bool:  # type: ignore[override]
        """Return whether a part has as many parameters as the square of its columns."""
        return any(part[0].has_full_covariance for part in self.parts)

    # ---- hyper-parameters --------------------------------------------------------------------------------------------

    def _families_named(self, name):
        if self.is_bound:
            return [part.family for part in self._parts if part.name == name]
        return [family for family, _, own in self._given() if own == name]

    def _hyper_names(self, attribute):
        """Return "part.name" of the hyper-parameters that an attribute of the parts' families lists."""
        if self.is_bound:
            given = [(part.name, part.family) for part in self._parts if part.reading != PRESENCE]
        else:
            given = [(name, family) for family, _, name in self._given()] if len(self.parts) else []
        return dict.fromkeys(f"{name}.{hyper}" for name, family in given for hyper in getattr(family, attribute))

    @property
    def hyper(self) -> dict[str, str]:  # type: ignore[override]
        """Return the hyper-parameters of all parts, ``"part.name"``, that may be learned."""
        return dict.fromkeys(self._hyper_names("hyper"), "positive")

    @property
    def learned_by_default(self) -> tuple[str, ...]:  # type: ignore[override]
        """Return the hyper-parameters of all parts that estimators learn unless they were given."""
        return tuple(self._hyper_names("learned_by_default"))

    def __getattr__(self, name: str) -> Any:
        owner, dot, hyper = name.rpartition(".")
        families = self._families_named(owner) if dot else []
        if not families:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        values = [getattr(family, hyper) for family in families]
        return values[0] if len(values) == 1 or np.ndim(values[0]) == 0 else np.concatenate(values)

    def with_hyper(self, **values: Any) -> Self:
        """Return a copy with other hyper-parameters.

        ``"part.name"`` is a hyper-parameter of a part: a number, or one array for all columns of the part in the order
        of `getattr`. Call it as ``with_hyper(**{"poisson.rate": 2.0})``.

        Examples
        --------
        >>> from expfam import Columns, Poisson
        >>> family = Columns([(Poisson(rate=1.0), (0,))]).bind([[1.0], [4.0]])
        >>> getattr(family.with_hyper(**{"poisson.rate": 3.0}), "poisson.rate")
        3.0
        """
        own = {name: value for name, value in values.items() if "." not in name}
        other = super().with_hyper(**own)
        for name, value in values.items():
            if name not in own:
                other = other._with_part_hyper(name, value)
        return other

    def _with_part_hyper(self, name, value):
        owner, _, hyper = name.rpartition(".")
        families = self._families_named(owner)
        if not families:
            raise TypeError(f"columns has no part {owner!r}; its hyper-parameters are {list(self.hyper)}")
        sizes = [np.size(getattr(family, hyper, 0.0)) for family in families]
        value = np.asarray(value, dtype=np.float64) if np.ndim(value) and self.is_bound else value
        pieces = [value] * len(families)
        if len(families) > 1 and np.ndim(value):
            if np.size(value) != sum(sizes):
                raise ValueError(f"columns: {name} has {sum(sizes)} values in all; got {np.size(value)}")
            pieces = np.split(np.asarray(value, dtype=np.float64), np.cumsum(sizes)[:-1])
        new = iter([family.with_hyper(**{hyper: piece}) for family, piece in zip(families, pieces)])
        return self._replaced(owner, lambda family: next(new))

    def _replaced(self, owner, change):
        """Return a copy in which `change` was applied to the families of the parts of a name."""
        other = self._copy()
        if self.is_bound:
            parts = [part._replace(family=change(part.family)) if part.name == owner else part for part in self._parts]
        else:
            parts = [(change(family) if name == owner else family, columns) for family, columns, name in self._given()]
        other.__dict__["parts"] = tuple(parts)
        return other

    def with_factors(self, factors: Mapping[str, float]) -> Self:
        """Return a copy with `hyper_factors_`: each hyper-parameter over its value at binding."""
        other = super().with_factors(factors)
        for owner in dict.fromkeys(name.rpartition(".")[0] for name in factors):
            own = {key.rpartition(".")[2]: factor for key, factor in factors.items() if key.rpartition(".")[0] == owner}
            other = other._replaced(owner, lambda family, own=own: family.with_factors(own))
        return other

    def hyper_bounds(self, name: str) -> tuple[float, float]:
        """Return the bounds of a learned hyper-parameter, as factors of its value at binding."""
        owner, _, hyper = name.rpartition(".")
        low, high = zip(*(family.hyper_bounds(hyper) for family in self._families_named(owner)))
        return max(low), min(high)

    def prior_from_clusters(self, n: Floats, S: Floats) -> Self:
        """Return the family with the priors that its parts choose for given clusters."""
        parts = []
        for part, _, count, sums in self._each(n, S):
            used = count > 0.0
            family = part.family.prior_from_clusters(count[used], sums[used]) if used.any() else part.family
            parts.append(part._replace(family=family))
        return self._with_parts(parts)

    # ---- questions of samplers ---------------------------------------------------------------------------------------

    @property
    def is_discrete(self) -> bool:
        """Return whether no part is real."""
        return all(part[0].is_discrete for part in self.parts)

    @property
    def has_exact_sums(self) -> bool:
        """Return whether the sums of all parts are exact, because they are counts."""
        return all(part[0].has_exact_sums for part in self.parts)

    @property
    def nonnegative_statistics(self) -> npt.NDArray[np.bool_]:
        """Return which statistics are never negative: (F,) bool."""
        return np.concatenate(
            [[True] * part.has_indicator + [*part.family.nonnegative_statistics] for part in self._parts]
        ).astype(bool)

    def coordinate_map(self, X: Any) -> Callable[[Any], Floats]:
        """Return the function that maps rows to coordinates, given all data.

        They are the coordinates of the parts side by side, 0 where cells are missing.
        """
        maps = []
        for part in self._parts:
            cells = cells_of(part, X)[1] if part.reading != PRESENCE else X[:0]
            if cells.shape[0]:
                maps.append((part, _centred(part, cells)))
        return lambda rows: np.concatenate([_scattered(part, rows, transform) for part, transform in maps], axis=1)

    def tags(self) -> dict[str, bool]:
        """Return what data the family takes, by names that scikit-learn uses."""
        return {
            "sparse": False,
            "allow_nan": True,
            "positive_only": False,
            "categorical": any(isinstance(part[0], Categorical) for part in self.parts),
            "string": False,
            "real": False,
        }

    def example_rows(self, n_columns: int) -> Floats:
        """Return two rows that the family takes, with columns that are not constant: (2, n_columns)."""
        rows = np.zeros((2, n_columns))
        for family, columns, _ in self._given():
            rows[:, columns] = family.example_rows(len(columns))
        return rows

    def bytes_of_parts(self, X: npt.NDArray[Any]) -> int:
        """Return the size of what components copy of the rows: cells, and which rows have a part."""
        total = 0
        for part in self._parts:
            is_count = hasattr(part.family, "count_model")  # kept as CSR
            row = 12 * len(part.columns) + 16 if is_count else X.dtype.itemsize * len(part.columns)
            total += X.shape[0] * (row + 4 * (part.reading == OBSERVED))
        return total

    # ---- compiled components -----------------------------------------------------------------------------------------

    def components(
        self, data: Any, capacity: int, *, layout: Literal["features", "clusters"] = "features"
    ) -> ColumnsComponents:
        """Return the compiled owner of the components of all parts."""
        return ColumnsComponents(self, data, capacity, layout)


class Rows:
    """Rows of a bound family, with the attributes of a data set that components read."""

    def __init__(self, X: npt.NDArray[Any], family: Any) -> None:
        self.X, self.family = X, family
        self.n_rows, self.n_features = (int(size) for size in X.shape)
        self.n_statistics = int(family.n_statistics_)
        self.is_sparse = False

    def phi(self, start: int, stop: int) -> Floats:
        """Return the statistics of the rows start..stop-1: (stop - start, F) float64."""
        return np.ascontiguousarray(_support.dense_rows(self.family.sufficient_statistics(self.X[start:stop])))


def _without_level(codes, levels):
    """Return codes in which the last level of each column is a missing value."""
    return np.where(codes == levels - 1.0, np.nan, codes)


def _centred(part, cells):
    """Return a map of cells to coordinates whose means are 0, which missing cells then have."""
    transform = part.family.coordinate_map(cells)
    points = _support.dense_rows(transform(cells))
    centre = points.mean(axis=0)
    has_codes = isinstance(part.family, Categorical)  # the statistics of a missing code are zeros
    scale = np.ones_like(centre) if not has_codes else np.full_like(centre, np.sqrt(0.5))
    if part.family.has_counts:
        spread = points.std(axis=0)
        scale = 1.0 / np.where(spread > 0.0, spread, 1.0)
    return lambda own: (_support.dense_rows(transform(own)) - (0.0 if has_codes else centre)) * scale


def _scattered(part, X, transform):
    """Return coordinates of all rows, 0 in those that lack the part."""
    rows, cells = cells_of(part, X)
    points = transform(cells) if cells.shape[0] else transform(np.ones((1, len(part.columns))))[:0]
    if rows is None:
        return np.nan_to_num(points)
    out = np.zeros((X.shape[0], points.shape[1]))
    out[rows] = points
    return out
