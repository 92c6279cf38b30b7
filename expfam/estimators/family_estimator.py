"""Base of the estimators that have a `family`: they load it and validate rows for it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassNamePrefixFeaturesOutMixin
from sklearn.utils import TransformerTags

from expfam.errors import PluginError, UnknownNameError
from expfam.estimators.base import Estimator
from expfam.estimators.documents import validated_documents
from expfam.estimators.loaded import names_of_fit
from expfam.estimators.matrices import checked_input
from expfam.estimators.odd_data import refuse_odd_data
from expfam.estimators.row_results import in_asked_form
from expfam.estimators.tables import family_of_array, family_of_frame, require_rows
from expfam.evaluation.mean_error import error_of_mean
from expfam.families.base import Family
from expfam.families.columns.cells import may_lack_cells
from expfam.families.columns.family import Columns
from expfam.families.columns.kinds.registry import DROPPED
from expfam.families.columns.roles import Roles
from expfam.families.gaussian.diagonal import DiagonalGaussian
from expfam.families.support import check_given
from expfam.fitted.cells import drawn_rows, filled_rows
from expfam.fitted.dependent_cells import filled_dependent_rows
from expfam.fitting.candidates import name_of
from expfam.fitting.chosen_family import chosen_family
from expfam.fitting.whole_numbers import columns_of_array, varies, whole_numbers
from expfam.frames.array_frame import holds_whole_numbers
from expfam.frames.dense_copies import copied_bytes, dense_copy
from expfam.frames.frame import as_frame, is_frame
from expfam.frames.names import named_columns
from expfam.frames.numbers import numbers_of_frame
from expfam.lazy import made_on_use
from expfam.params import Integer, check_value, is_auto
from expfam.plugins.registry import load_family
from expfam.structures.ground.rng import generator

if TYPE_CHECKING:
    from collections.abc import Callable

    from expfam.fitted.clusters import FittedClusters
    from expfam.fitted.drawn_clusters import DrawnClusters

_OF_NUMBERS = "gaussian_diag"  # the family of family="auto" for numbers without holes
_OF_LEVELS, _OF_FLOATS = ("category", "binary"), ("real", "positive")  # roles
_WORDS = {2: "two", 3: "three", 4: "four", 5: "five", 6: "six", 7: "seven", 8: "eight", 9: "nine", 10: "ten"}


class FamilyEstimator(ClassNamePrefixFeaturesOutMixin, Estimator):
    """Base of the estimators that have a `family`: they load it, and answer about rows.

    With ``family="auto"`` the data of a fit choose the family, when they are validated.
    """

    family: Any
    family_: Any

    def _family(self) -> Family:
        """Return the family that `family` is or names; other values get an error with the remedy."""
        family = self.family
        if isinstance(family, str) and family == "auto":
            found = self.__dict__.get("_family_of_data", self.__dict__.get("family_"))
            return load_family(_OF_NUMBERS) if found is None else found
        if isinstance(family, str):
            return _named_family(family, type(self).__name__)
        if isinstance(family, Family):
            return family
        owner, hint = type(self).__name__, ""
        if isinstance(family, (int, np.integer)) and not isinstance(family, bool):
            count = f"{_WORDS.get(int(family), str(family))} {'cluster' if int(family) == 1 else 'clusters'}"
            hint = f". To ask for {count}, write {owner}(n_components={int(family)})"
        elif isinstance(family, type) and issubclass(family, Family):
            hint = f". Write {owner}({family.__name__}())"
        raise TypeError(f"family must be a name or a Family; got {family!r}{hint}")

    def _validate(self, X: Any, *, reset: bool, family: Family | None = None, learns: bool = False) -> Any:
        own = None
        if reset and not is_auto(self.family):
            own = self._family() if family is None else family
        validate = partial(_validated, self, reset=reset, family=own if family is None else family, learns=learns)
        takes_counts = own is None or own.accepts_sparse
        return validated_documents(self, X, validate, reset=reset, is_chunk=learns, takes_counts=takes_counts)

    @property
    @made_on_use
    def roles_(self) -> Any:
        """Return the role, family, levels and holes of each column of the frame, as a frame.

        Only after a fit of a frame by roles; the frame is of the library of the one that was fitted.
        """
        self._check_fitted()
        family = self.family_
        if not getattr(family, "roles", None):
            raise AttributeError(
                f"{type(self).__name__}: there are no roles: the model was fitted to numbers alone, with {family.name}"
            )
        return Roles(family.roles).frame(family.parts, backend=self.__dict__.get("_backend", "pandas"))

    # ---- rows --------------------------------------------------------------------------------------------------------

    def _scored(self) -> FittedClusters:
        """Return the clusters under which rows are scored and filled: those of the labels."""
        return self._clusters()

    def predict(self, X: Any) -> npt.NDArray[np.int32]:
        """Return the most probable cluster of each row, given the clusters' data.

        Parameters
        ----------
        X : array_like, sparse matrix or frame, shape (N, V)

        Returns
        -------
        (N,) int32 ndarray
        """
        self._check_fitted()
        return self._clusters().most_probable(self._validate(X, reset=False))

    def predict_proba(self, X: Any, n_top: int | None = None) -> Any:
        """Return the probability of each existing cluster for each row.

        Parameters
        ----------
        X : array_like, sparse matrix or frame, shape (N, V)
        n_top : int, optional
            Keep only this number of the largest probabilities of a row, in a CSR matrix whose rows then sum to less
            than 1; memory N n_top in place of N K.

        Returns
        -------
        (N, K) float64 ndarray, or CSR array; a frame where `set_output` asks for one
        """
        self._check_fitted()
        return probabilities_under(self._clusters(), self, X, n_top)

    def predict_log_proba(self, X: Any) -> Any:
        """Return the log of the probability of each existing cluster for each row.

        It is finite also where a probability is too small for a float and `predict_proba` gives 0.

        Parameters
        ----------
        X : array_like, sparse matrix or frame, shape (N, V)

        Returns
        -------
        (N, K) float64 ndarray, nats; a frame where `set_output` asks for one
        """
        self._check_fitted()
        return log_probabilities_under(self._clusters(), self, X)

    def score_samples(self, X: Any, given: Any = None) -> npt.NDArray[np.float64]:
        """Return the log predictive density of each row: (N,) nats, with log-base.

        A row may also open a new cluster. All cuts of a `BayesianHierarchy` are averaged.

        Parameters
        ----------
        X : array_like, sparse matrix or frame, shape (N, V)
        given : str, int or sequence of them, optional
            Names or numbers of columns: the density is then that of the other columns given these.
        """
        self._check_fitted()
        return densities_under(self._scored(), self, X, given)

    def score(self, X: Any, y: Any = None) -> float:
        """Return the mean log predictive density of the rows, nats.

        Parameters
        ----------
        X : array_like, sparse matrix or frame, shape (N, V)
        y : ignored
        """
        return float(self.score_samples(X).mean())

    def score_error(self, X: Any, y: Any = None) -> float:
        """Return the standard error of `score` of the same rows, nats.

        Parameters
        ----------
        X : array_like, sparse matrix or frame, shape (N, V)
            At least two rows, which were not in the fit.
        y : ignored

        Examples
        --------
        >>> import numpy as np
        >>> from expfam import Mixture
        >>> X = np.random.default_rng(0).normal(size=(300, 2))
        >>> mixture = Mixture("gaussian", 1, random_state=0).fit(X[:200])
        >>> print(f"{mixture.score(X[200:]):.2f} +- {mixture.score_error(X[200:]):.2f}")
        -2.84 +- 0.11
        """
        return error_of_mean(self.score_samples(X))

    # ---- cells -------------------------------------------------------------------------------------------------------

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
        self._check_fitted()
        return self._imputed(X, draws)

    def _imputed(
        self,
        X: Any,
        draws: int | None,
        mass_of: Any = None,
        clusters: FittedClusters | DrawnClusters | None = None,
    ) -> Any:
        """Return filled rows; `mass_of` makes log weights (N, K) of the encoded rows."""
        if draws is not None:
            check_value(f"{type(self).__name__}: impute: draws", draws, (Integer(1),))
        clusters, form = self._scored() if clusters is None else clusters, self._form()
        family = clusters.conditional_family()
        matrix = np.array(self._validate(X, reset=False, family=family), dtype=np.float64)
        with named_columns(names_of_fit(self)):
            family.validate(matrix)  # all rows: only those with holes are scored, by other numbers
        mass = None if mass_of is None else mass_of(matrix)
        rng = None if draws is None else generator(self._seed(), "predict")
        if isinstance(family, Columns):
            found = filled_rows(clusters, matrix, form.kept_roles, draws=draws, rng=rng, mass=mass)
        else:
            found = filled_dependent_rows(clusters, matrix, draws=draws, rng=rng, mass=mass)
        results = [form.like(X, filled, np.isnan(matrix)) for filled in found]
        return results[0] if draws is None else results

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
        self._check_fitted()
        owner = f"{type(self).__name__}: sample"
        check_value(f"{owner}: n_samples", n_samples, (Integer(1),))
        check_value(f"{owner}: complete", complete, bool)
        form, rng = self._form(), generator(self._seed(), "predict")
        X, chosen = drawn_rows(self._clusters(), n_samples, form.kept_roles, rng, complete=complete)
        return form.rows(X), chosen

    # ---- scikit-learn ------------------------------------------------------------------------------------------------

    def transform(self, X: Any) -> Any:
        """Return the probability of each cluster for each row, as `predict_proba` does.

        Parameters
        ----------
        X : array_like, sparse matrix or frame, shape (N, V)

        Returns
        -------
        (N, K) float64 ndarray, or frame where `set_output` asks for one

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from sklearn.linear_model import LogisticRegression
        >>> from sklearn.pipeline import make_pipeline
        >>> from expfam import Mixture
        >>> X, y = load_iris(return_X_y=True)
        >>> pipeline = make_pipeline(Mixture("gaussian", 3, random_state=0), LogisticRegression())
        >>> pipeline.fit(X, y).score(X, y) > 0.95
        True
        """
        return self.predict_proba(X)

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Any:
        """Fit, and return `transform` of the same rows.

        Parameters
        ----------
        X, y
            As in `fit`. In a pipeline `y` is what the last step learns: without `labels` it is ignored here.
        **fit_params
            Further arguments of `fit`.

        Returns
        -------
        (N, K) float64 ndarray, or frame where `set_output` asks for one
        """
        y = None if getattr(self, "labels", None) is None else y
        return self.fit(X, y, **fit_params).transform(X)

    def get_feature_names_out(self, input_features: npt.ArrayLike | None = None) -> npt.NDArray[np.object_]:
        """Return the names of the columns of `transform`: (K,) ndarray of str objects.

        Parameters
        ----------
        input_features : (V,) array_like of str, optional
            Only checked, as in scikit-learn.

        Examples
        --------
        >>> from expfam import Mixture
        >>> mixture = Mixture("poisson", 2, random_state=0).fit([[1, 0], [0, 2], [40, 50], [44, 47]])
        >>> mixture.get_feature_names_out().tolist()
        ['mixture0', 'mixture1']
        """
        self._check_fitted()
        return super().get_feature_names_out(input_features)

    @property
    def _n_features_out(self) -> int:
        return self.n_components_  # type: ignore[attr-defined, no-any-return]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags = TransformerTags()
        if isinstance(self.family, str) and self.family == "auto":
            for name in ("sparse", "allow_nan", "categorical", "string"):
                setattr(tags.input_tags, name, True)
            return tags
        family = load_family(self.family) if isinstance(self.family, str) else self.family
        if isinstance(family, Family):
            of_family = family.tags()
            for name in ("allow_nan", "positive_only", "categorical", "string"):
                setattr(tags.input_tags, name, of_family[name])
            tags.input_tags.sparse = True  # a family that reads dense rows gets a dense copy
            # the common checks bring real numbers of either sign, whatever the tags above say
            tags._skip_test = not of_family["real"] or tuple(family.bounds) != tuple(Family.bounds)
        return tags


def compared_rows(estimator: Any, given: Any, X: Any, weights: Callable[[], Any], sample_weight: Any = None) -> Any:
    """Let the rows choose the family of columns of numbers, where it was left to the estimator.

    Parameters
    ----------
    estimator : FamilyEstimator
    given : array_like or frame
        What the user gave.
    X : (N, V) array or CSR
        The same, validated.
    weights : callable
        Returns the prior of the mixture weights.
    sample_weight : (N,) array_like, optional

    Returns
    -------
    (N, V) array or CSR
        The rows as the chosen family reads them.
    """
    for name in ("family_scores_", "family_agreement_"):
        estimator.__dict__.pop(name, None)
    if not is_auto(estimator.family):
        return X
    own = estimator._family_of_data
    whole = _whole_numbers(estimator, given, X, own)
    if whole is None and type(own) is not DiagonalGaussian:
        return X
    estimator._family_of_data = DiagonalGaussian()  # `weights` are those of numbers, whatever the columns may be
    choice = chosen_family(
        X if whole is None else whole.cells,
        weights(),
        sample_weight,
        seed=estimator._seed(),
        n_threads=getattr(estimator, "n_threads", None),
        whole=whole,
    )
    if choice is None and whole is None:
        return X
    family = DiagonalGaussian() if choice is None else choice.family
    if choice is not None and choice.agreement:
        estimator.family_agreement_ = choice.agreement
    elif choice is not None:
        estimator.family_scores_ = choice.scores
    has_holes = whole is not None and whole.has_holes
    if has_holes and not isinstance(family, Columns):  # cells that a row lacks are left out
        family = Columns([(family, tuple(range(X.shape[1])))])
    estimator._family_of_data = family
    if _roles_of(family) == _roles_of(own):
        return X
    return _as_read_by(estimator, family, given, may_lack=has_holes)


def _roles_of(family):
    return getattr(family, "roles", None) or ()


def _whole_numbers(estimator, given, X, family):
    """Return the whole numbers whose family held-out rows choose; None if the data hold others."""
    roles = _roles_of(family)
    if roles and is_frame(given):
        X = _numbers_by_roles(estimator, given, roles, X)
        if X is None:
            return None
        if any(role["role"] in _OF_FLOATS for role in roles):  # floats with holes
            family = columns_of_array(X, [role["column"] for role in roles])
        return whole_numbers(X, family, seed=estimator._seed())
    if roles or name_of(family) != _OF_NUMBERS:
        return None
    return whole_numbers(X, columns_of_array(X, names_of_fit(estimator)), seed=estimator._seed())


def _numbers_by_roles(estimator, given, roles, encoded):
    """Return a frame's whole numbers; None if it holds others, or columns left out."""
    kept = [role for role in roles if not _is_left_out(role)]  # columns of `encoded`
    if not all(_may_be_whole(role, encoded[:, j]) for j, role in enumerate(kept)):
        return None  # known without reading again
    frame = as_frame(given, owner=type(estimator).__name__)
    columns = [frame.column(name) for name in frame.names]
    if any(column.kind not in ("integer", "float") for column in columns):
        return None
    X = numbers_of_frame(frame, of_fit=True)
    return None if any(varies(X[:, j]) for j, role in enumerate(roles) if _is_left_out(role)) else X


def _may_be_whole(role, encoded):
    """Return whether a column of a role may hold whole numbers alone."""
    if role["role"] in _OF_LEVELS:
        return all(type(level) is int for level in role["levels"])
    if role["role"] in _OF_FLOATS:
        return holds_whole_numbers(encoded[~np.isnan(encoded)] - role.get("offset", 0.0))
    return role.get("type") == "integer"


def _is_left_out(role):
    return role["role"] == DROPPED


def _as_read_by(estimator, family, given, *, may_lack):
    """Return numbers as another family than that of their kind reads them."""
    owner = type(estimator).__name__
    frame = as_frame(given, owner=owner) if is_frame(given) else None
    roles = Roles(_roles_of(family))
    if roles.roles and frame is not None and not roles.by_place:
        return _encoded(estimator, frame, roles, reset=True)
    cells = checked_input(estimator, given, frame=frame, reset=True, accepts_sparse=False, may_lack=may_lack)
    return roles.encode_array(cells, owner=owner) if roles.roles else cells


def _named_family(name: str, owner: str) -> Family:
    """Return the family of a name; the error about an unknown one has the lines to type."""
    try:
        return load_family(name)
    except UnknownNameError as error:
        if not error.near:
            raise
        lines = " or ".join(f"{owner}({near!r})" for near in error.near)
        raise PluginError(f"{error}. Write {lines}") from None


def _validated(estimator, X, *, reset, family, learns):
    owner = type(estimator).__name__
    frame = as_frame(X, owner=owner) if is_frame(X) else None  # one, which keeps the columns that it has read
    if reset and is_auto(estimator.family):
        estimator._family_of_data = _chosen_family(X, frame, owner)
    if family is None:
        family = estimator._family() if reset else estimator.family_
    if reset:
        estimator._n_copied = 0 if family.accepts_sparse else copied_bytes(X)
    if not family.accepts_sparse:
        X = dense_copy(X, owner=owner, family=family.name, memory_limit=estimator.memory_limit, may_choose=reset)
    roles = getattr(family, "roles", None)
    if roles and Roles(roles).by_place:
        cells = checked_input(estimator, X, frame=frame, reset=reset, accepts_sparse=False, may_lack=True)
        return Roles(roles).encode_array(cells, owner=owner)
    if roles and frame is not None:
        return _encoded(estimator, frame, Roles(roles), reset=reset)
    return checked_input(
        estimator,
        X,
        frame=frame,
        reset=reset,
        accepts_sparse=family.accepts_sparse,
        may_lack=family.allows_missing if reset else may_lack_cells(family, scored=not learns),
        family_checks=family.allows_missing,
    )


def _chosen_family(X, frame, owner):
    """Return the family of ``family="auto"`` for data as they were given."""
    if frame is not None:
        return family_of_frame(frame) or load_family(_OF_NUMBERS)
    check_given(X, owner=owner)
    refuse_odd_data(X, owner=owner)
    return family_of_array(X, owner=owner)


def _encoded(estimator, frame, roles, *, reset):
    """Return a frame as the matrix that its roles make of it."""
    owner = type(estimator).__name__
    require_rows(frame, owner=owner)
    matrix = roles.encode(frame, owner=owner)
    if reset:
        estimator.n_features_in_, estimator._backend = matrix.shape[1], frame.backend
        estimator.feature_names_in_ = np.array(roles.names, dtype=object)
    return matrix


def probabilities_under(clusters: FittedClusters | DrawnClusters, estimator: Any, X: Any, n_top: int | None) -> Any:
    """Return the probability of each cluster for each row, see `FamilyEstimator.predict_proba`."""
    return in_asked_form(estimator, X, clusters.probabilities(estimator._validate(X, reset=False), n_top))


def log_probabilities_under(clusters: FittedClusters | DrawnClusters, estimator: Any, X: Any) -> Any:
    """Return the log of these probabilities, see `FamilyEstimator.predict_log_proba`."""
    return in_asked_form(estimator, X, clusters.log_probabilities(estimator._validate(X, reset=False)))


def densities_under(
    clusters: FittedClusters | DrawnClusters, estimator: Any, X: Any, given: Any
) -> npt.NDArray[np.float64]:
    """Return the log predictive density of each row, see `FamilyEstimator.score_samples`."""
    if given is not None:
        return conditional_scores(clusters, estimator, X, given)
    return clusters.log_densities(estimator._validate(X, reset=False))


def conditional_scores(
    clusters: FittedClusters | DrawnClusters, estimator: Any, X: Any, given: Any, mass_of: Any = None
) -> npt.NDArray[np.float64]:
    """Return the log density of each row given some of its columns: (N,) nats.

    Parameters
    ----------
    clusters : FittedClusters or DrawnClusters
        Under which rows are scored.
    estimator : FamilyEstimator
    X : array_like or frame, shape (N, V)
    given : str, int or sequence of them
        Names or numbers of the columns that are given.
    mass_of : callable, optional
        As in `FittedClusters.conditional_log_densities`.
    """
    family = clusters.conditional_family()
    matrix = np.array(estimator._validate(X, reset=False, family=family), dtype=np.float64)
    known = np.isin(np.arange(matrix.shape[1]), estimator._form().places(given))
    return clusters.conditional_log_densities(matrix, known, mass_of)
