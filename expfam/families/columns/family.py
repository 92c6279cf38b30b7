"""Columns of several kinds with holes: one family for each group of columns.

The groups are independent within a cluster. phi of a row is the phi of its parts side by side. A part that some rows
lack has one more statistic, the indicator o of being observed, and counts the rows that have it. (n, S) stays a pair,
so the model is an exponential family like any other, and missing cells are integrated out exactly if they are missing
at random.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from expfam.families import support as _support
from expfam.families.columns._components import ColumnsComponents
from expfam.families.columns.hyper import PartHyper
from expfam.families.columns.inference import table_of
from expfam.families.columns.parameters import ColumnParameters, PartParameters
from expfam.families.columns.rows import CellsOfRows, patterns_of_rows
from expfam.families.columns.statistics import table_coordinates
from expfam.families.columns.table import (
    OBSERVED,
    PRESENCE,
    CellsHere,
    Part,
    bound_parts,
    cells_of,
    patterns,
    renamed_places,
)
from expfam.families.counts.categorical import Categorical
from expfam.params import check_value

if TYPE_CHECKING:
    import numpy.typing as npt
    from typing_extensions import Self

    from expfam.families.all_rows import AllRows
    from expfam.protocols import Floats


class Columns(ColumnParameters, PartParameters, PartHyper):
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
        Columns of one part that are missing in the same rows share this probability; independent Gaussian columns and
        categories have one each.
    holes : {"seen", "any"}
        Which cells later data may lack: those that the data of `bind` lack, or any, for which scores cost more. Data in
        chunks are always learned with the second.
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
    reads_uncounted_rows: ClassVar[bool] = True  # parts check the cells of all rows

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
        roles: Sequence[Mapping[str, Any]] | Mapping[str, Any] | None = None,
        missing: Literal["ignorable", "informative"] = "ignorable",
        max_levels: int = 1000,
        missing_values: Any = None,
        **by_column: Any,
    ) -> Self:
        """Return the family of a data frame by the roles of its columns.

        A column is a category, a count, a positive number, or a number, by its type and values; constant columns and
        such that look like an id are dropped with a warning.

        Parameters
        ----------
        X : pandas.DataFrame, polars.DataFrame or pyarrow.Table
        roles : sequence of dict, or dict by the names of columns, optional
            A dict holds what `by_column` takes, as ``{"wind": "degrees"}``. Else `roles` of another family of this
            class, or as they were read from JSON.
        missing : {"ignorable", "informative"}
        max_levels : int
            Columns of text with more distinct values are dropped unless they are named.
        missing_values : str, number, list of them, or dict, optional
            Values that stand for missing cells, such as ``["?", -999]``, of all columns, or of some as
            ``{"age": [-999]}``. They are kept with the roles, so later frames are read the same way. A column of text
            in which one of them occurs, and whose other cells are plain numbers, is one of numbers.
        **by_column
            By the name of a column: a family such as ``LogNormal()``, the name of one, ``"drop"``, or a role:
            ``"binary"``, ``"category"``, ``"count"``, ``"positive"``, ``"real"``, ``"degrees"`` and ``"radians"`` for
            angles, and ``"numeric"`` for dates. It comes before `roles`. Columns of equal families are one part.

        Returns
        -------
        Columns
            With the roles; estimators encode frames by them.

        Raises
        ------
        DataError, DataTypeError, SupportError
            The message names the column and what to do.

        Warns
        -----
        DataWarning
            Names each column that is left out, such as ids, free text and dates, and each column of text that may be
            meant otherwise, such as numbers as people write them. It has the line to type.

        Examples
        --------
        >>> import pandas as pd
        >>> from expfam import Columns
        >>> df = pd.DataFrame({"colour": ["red", None, "blue", "green"], "size": [1.0, 2.5, -3.0, None]})
        >>> [role["family"] for role in Columns.from_frame(df).roles]
        ['categorical', 'gaussian_diag']
        >>> asked = pd.DataFrame({"age": ["31.5", "?", "47", "52"], "size": [1.0, 2.5, -3.0, -999.0]})
        >>> [role["missing"] for role in Columns.from_frame(asked, missing_values=["?", -999]).roles]
        [1, 1]
        """
        found = table_of(X, roles=roles, max_levels=max_levels, missing_values=missing_values, by_column=by_column)
        return cls(**found, missing=missing)

    # ---- binding -----------------------------------------------------------------------------------------------------

    def bind(self, X: Any, weight: npt.ArrayLike | None = None) -> Self:
        """Return a frozen copy whose parts are bound, each to the rows that have it.

        A bound family is checked, and opened for holes that it does not know; see `opened_for`.

        Parameters
        ----------
        X : (N, V) array_like
            Missing cells are NaN.
        weight : (N,) array_like of non-negative float, optional
            Multiplicity of each row: hyper-parameters are those of the rows repeated.

        Raises
        ------
        DataError, SupportError
            The message names row and column of the table.
        CapabilityError
            Holes in columns that depend on each other.
        """
        if self.is_bound:
            return self.opened_for(self.validate(X))
        return super().bind(X, weight)

    def resolve(self, X: Any, weight: Floats | None = None) -> dict[str, Any]:
        """Return the bound parts and the layout of the statistics."""
        parts: list[Part] = [Part(*part) for part in self.parts if len(part) == 4]
        for family, columns, name in [] if parts else self._given():
            keys = patterns(X, columns, holes=self.holes)
            parts += bound_parts(family, columns, name, CellsHere(X, weight), keys, self)
        return self._layout(parts)

    def resolve_rows(self, rows: AllRows) -> dict[str, Any]:
        """Return what `resolve` returns, of rows that may lie in several places."""
        if any(len(part) == 4 for part in self.parts):
            return self._layout([Part(*part) for part in self.parts])
        parts: list[Part] = []
        for family, columns, name in self._given():
            keys = patterns_of_rows(rows, columns, holes=self.holes)
            parts += bound_parts(family, columns, name, CellsOfRows(rows), keys, self)
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

    @property
    def capabilities(self) -> frozenset[str]:
        """Return the abilities that all parts have."""
        return frozenset.intersection(*(part[0].capabilities for part in self.parts)) | {"compiled"}

    @property
    def has_full_covariance(self) -> bool:  # type: ignore[override]
        """Return whether the parameters of a part grow with the square of its columns."""
        return any(part[0].has_full_covariance for part in self.parts)

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

    def raise_squares(self, n: Floats, S: Floats) -> None:
        """Raise sums of squares of all parts, in place, to those of equal rows with the same sums."""
        for start, stop, part in zip(self.offsets_[:-1], self.offsets_[1:], self._parts):
            count = np.maximum(S[:, start], 0.0) if part.reading == OBSERVED else n
            part.family.raise_squares(count, S[:, start + int(part.has_indicator) : stop])

    def coordinate_map(self, X: Any, weight: Floats | None = None) -> Callable[[Any], Floats]:
        """Return the function that maps rows to coordinates, given all data.

        They are the coordinates of the parts side by side, 0 where cells are missing.
        """
        return table_coordinates(self._parts, X, weight)

    def tags(self) -> dict[str, bool]:
        """Return which kinds of data the family accepts, under the names of scikit-learn."""
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
