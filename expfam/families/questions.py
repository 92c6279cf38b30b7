"""What a family tells samplers and estimators about its data.

So these need not know kinds of data. Each question has a default that follows from the `support` of the family. A
family overrides those whose answer is another, for example because its columns are of several kinds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy import sparse

from expfam.families.coordinates import ScaledColumns, StandardisedColumns, square_roots, with_float64
from expfam.families.weighing import counted_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from expfam.families.base import Family
    from expfam.protocols import Floats

_DISCRETE = ("counts", "categories", "binary")


class DataQuestions:
    """Base of `Family`: the questions about data, with answers that follow from `support`.

    Attributes
    ----------
    allows_missing : bool
        Whether data may hold NaN, which stands for a value that is missing.
    is_metric : bool
        Whether likelihoods depend on distances between the rows as they are, without scales of columns.
    """

    allows_missing: ClassVar[bool] = False
    of_logs: ClassVar[bool] = False  # whether the rows of the model are the logarithms of those of the data
    support: ClassVar[str]
    bounds: ClassVar[tuple]
    accepts_sparse: ClassVar[bool]
    n_statistics_: int
    sufficient_statistics: Any

    @property
    def is_metric(self) -> bool:
        """Return whether likelihoods depend on distances between the rows as they are."""
        return self.support == "unit"

    @property
    def has_counts(self) -> bool:
        """Return whether rows are counts of things, so that their sums are amounts of data."""
        return self.support == "counts"

    @property
    def is_discrete(self) -> bool:
        """Return whether no value is a real number; clusters of such data start in other ways."""
        return self.support in _DISCRETE

    @property
    def has_exact_sums(self) -> bool:
        """Return whether sums of statistics are exact in float64, because they are sums of integers."""
        return self.support in _DISCRETE

    @property
    def nonnegative_statistics(self) -> npt.NDArray[np.bool_]:
        """Return which statistics of a bound family are never negative: (F,) bool ndarray."""
        return np.full(self.n_statistics_, self.support in (*_DISCRETE, "nonnegative"))

    def raise_squares(self, n: npt.NDArray[np.float64], S: npt.NDArray[np.float64]) -> None:
        """Raise sums of squares, in place, to those of equal rows with the same sums.

        Sums of single precision may be below: clusters of equal rows would have a negative variance. This default does
        nothing; families whose statistics hold squares override it.

        Parameters
        ----------
        n : (K,) float64 ndarray
            Number of data of each cluster.
        S : (K, F) float64 ndarray
            Sums of their statistics.
        """

    def tags(self) -> dict[str, bool]:
        """Return which kinds of data the family accepts, under the names of scikit-learn.

        Returns
        -------
        dict
            - ``"sparse"``: CSR matrices;
            - ``"allow_nan"``: NaN, which stands for a missing value;
            - ``"positive_only"``: no negative values;
            - ``"categorical"``: codes of categories;
            - ``"string"``: text;
            - ``"real"``: real numbers of either sign, within `bounds`. scikit-learn has no such tag.
        """
        return {
            "sparse": bool(self.accepts_sparse),
            "allow_nan": bool(self.allows_missing),
            "positive_only": self.bounds[0] >= 0 or self.support in ("counts", "nonnegative", "binary"),
            "categorical": self.support == "categories",
            "string": False,
            "real": self.support == "real",
        }

    def of_one_width(self) -> Family | None:
        """Return the unbound family of the same rows whose clusters have one width, or None.

        It has settings of its own: a start is looked for under it where clusters overlap. A cluster of a width of its
        own takes in more and more of its neighbours once it is wide.
        """
        return None

    # ---- coordinates -------------------------------------------------------------------------------------------------

    @property
    def has_own_coordinates(self) -> bool:
        """Return whether the class defines `coordinates` or `coordinate_map`."""
        own, default = type(self), DataQuestions
        return own.coordinates is not default.coordinates or own.coordinate_map is not default.coordinate_map

    def coordinates(self, X: Any) -> Any:
        """Return rows in coordinates in which squared distances are meaningful.

        Starts, trees, hash tables and graphs compare rows by them. A family whose columns are not of one kind overrides
        this method, or `coordinate_map` if the coordinates depend on all data.

        Parameters
        ----------
        X : (m, V) ndarray or CSR, validated
            The default standardises the columns of real data by these rows alone; a method that overrides it must
            depend on each row and on the bound family alone, since it is called with blocks of rows.

        Returns
        -------
        (m, C) ndarray of float32 or float64, or CSR
            Finite. The coordinate of a missing value is one that tells nothing, such as that of the mean.
        """
        return self.coordinate_map(X)(X)

    def coordinate_map(self, X: Any, weight: Floats | None = None) -> Callable[[Any], Any]:
        """Return the function that maps rows to coordinates, given all data.

        Parameters
        ----------
        X : (N, V) ndarray or CSR, validated
        weight : (N,) float64, optional
            Multiplicity of each row, above 0. A method without this parameter gets the rows of weight above 0, each
            once.

        Returns
        -------
        callable
            It maps rows of X, (m, V), to what `coordinates` returns. By default it returns square roots of counts, the
            statistics of other discrete data, and standardised columns of other data, 0 where a value is missing.
        """
        if type(self).coordinates is not DataQuestions.coordinates:
            return self.coordinates
        if self.has_counts:
            return lambda rows: np.sqrt(with_float64(self.sufficient_statistics(rows)))
        if self.is_discrete:
            return lambda rows: with_float64(self.sufficient_statistics(rows))
        return StandardisedColumns(X, may_miss=self.allows_missing, weight=weight, of_logs=self.of_logs)

    def neighbour_map(self, X: Any, weight: Floats | None = None) -> Callable[[Any], Any]:
        """Return the function that maps rows to coordinates for proposals.

        Near rows have similar likelihoods. Proposals and anchors group and hash rows by them; no result rests on a
        distance. A family with coordinates of its own uses these.

        Parameters
        ----------
        X : (N, V) ndarray or CSR, validated
        weight : (N,) float64, optional
            As in `coordinate_map`.

        Returns
        -------
        callable
            It maps rows of X, (m, V), to a dense array or CSR. By default it returns square roots of counts, the rows
            themselves where `is_metric`, or where they are binary or sparse, else columns of unit variance.
        """
        if self.has_own_coordinates or self.allows_missing:
            rows, given = counted_rows(self.coordinate_map, X, weight)
            return self.coordinate_map(rows, **given)
        if self.has_counts:
            return square_roots
        if self.is_metric or self.support == "binary" or sparse.issparse(X):
            return lambda rows: rows
        return ScaledColumns(X, weight)

    def example_rows(self, n_columns: int) -> npt.NDArray[np.float64]:
        """Return two rows that the family takes, with columns that are not constant: (2, n_columns)."""
        if self.support == "unit":
            return np.eye(n_columns)[[0, min(1, n_columns - 1)]]
        first = 1.0 if self.support == "nonnegative" else 0.0
        return np.repeat([[first], [first + 1.0]], n_columns, axis=1)
