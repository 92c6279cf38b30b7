"""Base of the estimators: checked settings, the run of a fit, and files."""

from __future__ import annotations

import functools
import inspect
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from expfam.errors import PluginError, UnknownNameError
from expfam.estimators.documents import validated_documents, vectorizer
from expfam.estimators.foreign_names import missing_attribute, unknown_argument, unknown_keyword
from expfam.estimators.loaded import drop_loaded
from expfam.estimators.matrices import checked_input
from expfam.estimators.tables import family_of_array, family_of_frame, require_rows
from expfam.families.base import Family
from expfam.families.columns.cells import may_lack_cells
from expfam.families.columns.roles import Roles
from expfam.families.support import check_given
from expfam.fitted.row_certainty import certainty_of_state
from expfam.fitting.steps import run_phases, with_progress
from expfam.forecast.memory import Forecast, check_memory
from expfam.forecast.time import check_time
from expfam.frames.frame import as_frame, is_frame
from expfam.io.models import load_estimator, save_estimator
from expfam.lazy import made_on_use
from expfam.params import Integer, check_value, is_auto
from expfam.plugins.registry import load_family
from expfam.structures.ground.rng import resolve_seed

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Self

    from sklearn.feature_extraction.text import CountVectorizer

    from expfam.fitting.phases import Phase
    from expfam.model.data import Dataset
    from expfam.samplers.chain.trace import Trace

_OF_NUMBERS = "gaussian_diag"  # the family of family="auto" for numbers without holes
_METHODS = ("fit", "predict", "predict_proba", "predict_class", "transform", "score", "score_samples")
_MOST_WARMUP = 100  # steps of n_warmup="auto"
_WORDS = {2: "two", 3: "three", 4: "four", 5: "five", 6: "six", 7: "seven", 8: "eight", 9: "nine", 10: "ten"}


class Estimator(BaseEstimator):
    """Base of the four estimators.

    Subclasses say in `default_steps` what ``n_steps="auto"`` stands for, in `saved_kind` which format of
    `expfam.io.models` they have, and in `no_components` what ``n_components=None`` stands for, if anything.
    """

    default_steps: ClassVar[int] = 100
    saved_kind: ClassVar[str]
    no_components: ClassVar[str | None] = None

    n_components: Any
    callbacks: Any
    verbose: Any
    random_state: Any
    memory_limit: Any
    time_limit: Any

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Let the constructor name the remedy for a keyword that it does not have."""
        super().__init_subclass__(**kwargs)
        if "__init__" in vars(cls):
            cls.__init__ = _with_remedy(cls.__init__)  # type: ignore[method-assign]
        for name in _METHODS:
            if inspect.isfunction(method := inspect.getattr_static(cls, name, None)):
                setattr(cls, name, names_unknown_arguments(method))

    def __getattr__(self, name: str) -> Any:
        """Name the line that takes the place of an attribute of another library."""
        message = None if hasattr(type(self), name) else missing_attribute(self, name)
        if message is not None:
            raise AttributeError(message)
        try:
            return object.__getattribute__(self, name)  # raises its own error
        except AttributeError as error:
            if isinstance(error.__cause__, AttributeError):  # of a method that scikit-learn hides: why it is hidden
                raise AttributeError(f"{error}: {error.__cause__}") from None
            raise

    # ---- settings ----------------------------------------------------------------------------------------------------

    def set_params(self, **params: Any) -> Self:
        """Change settings and return the estimator, as in scikit-learn.

        Parameters
        ----------
        **params
            Settings by name; `family__a` is the setting `a` of the family.

        Returns
        -------
        Estimator

        Raises
        ------
        ValueError
            The estimator has no such setting; the message has the line that takes its place.
        """
        known = self._get_param_names()
        for name, value in params.items():
            if "__" not in name and name not in known:
                raise ValueError(unknown_keyword(type(self), name, value, known))
        return super().set_params(**params)

    def _check_components(self) -> int | None:
        """Return `n_components`, or refuse a value that is no number of components."""
        K = self.n_components
        if K is None and self.no_components is not None:
            return None
        if K not in Integer(1):
            none = "" if self.no_components is None else f", or None for {self.no_components}"
            hint = f": write n_components={int(K)}" if isinstance(K, str) and K.strip().isdecimal() else ""
            raise ValueError(
                f"{type(self).__name__}: n_components must be an integer of at least 1{none}; got {K!r}{hint}"
            )
        return int(K)

    def _check_learn_hyper(self, learn_hyper: Any) -> None:
        if not (is_auto(learn_hyper) or isinstance(learn_hyper, (bool, np.bool_))):
            raise ValueError(f"{type(self).__name__}: learn_hyper must be 'auto', True or False; got {learn_hyper!r}")

    def _alpha_or(self, first: Any) -> Any:
        """Return `alpha`, or the value from which it is learned where it is "auto"."""
        alpha = self.alpha  # type: ignore[attr-defined]
        if not isinstance(alpha, str):
            return alpha
        if alpha != "auto":
            raise ValueError(
                f"{type(self).__name__}: alpha must be 'auto', a positive number, or one for each component; got"
                f" {alpha!r}. To have it learned, write {type(self).__name__}(alpha='auto', learn_hyper=True)"
            )
        return first

    # ---- the run of a fit --------------------------------------------------------------------------------------------

    def _check_run(
        self,
        model: Any,
        data: Dataset,
        phases: list[Phase],
        *,
        kernel: Any,
        forecast: Callable[[], Forecast],
        start: Any,
        seed: int,
        begin: Callable[[Dataset], Any] | None = None,
        n_rounds: int = 1,
    ) -> int:
        """Check kernels, memory and time before any work; return the steps of all chains.

        Chains that share a thread are counted one after the other.

        `begin` makes the state of a start that is searched.
        """
        drop_loaded(self)
        for phase in phases:
            phase.kernel.check(model, data)
        check_memory(forecast(), self.memory_limit)
        n_steps = sum(phase.n_steps for phase in phases) * n_rounds
        once = {"begin": begin, "finish": self._measured_end(model)}
        check_time(self.time_limit, kernel, model, data, n_steps, seed=seed, start=start, **once)
        return n_steps

    def _measured_end(self, model: Any) -> Callable[[Any], Any] | None:
        """Return what is timed after the steps: the certainty of each label."""
        n_threads = getattr(self, "n_threads", None)
        return lambda state: certainty_of_state(model, state, n_threads=n_threads)

    def _run(self, state: Any, phases: list[Phase], **options: Any) -> Trace:
        """Make the steps of all phases in place; options are those of `run_phases`."""
        return run_phases(state, phases, callbacks=partial(with_progress, self.callbacks, self.verbose), **options)

    def _follows_rule(self) -> bool:
        """Tell whether a rule ends the run, so that nobody knows its number of steps before."""
        return False

    def _set_trace(self, trace: Trace) -> None:
        self.trace_, self.n_iter_, self.interrupted_ = trace, len(trace), trace.interrupted

    def _check_fitted(self) -> None:
        """Raise `NotFittedError` unless the estimator is fitted.

        `check_is_fitted` asks for the tags first, which loads the family by its name.
        """
        if not self.__sklearn_is_fitted__():  # type: ignore[attr-defined]
            check_is_fitted(self)

    def _seed(self) -> int:
        return resolve_seed(self.random_state)

    @property
    @made_on_use
    def vectorizer_(self) -> CountVectorizer:
        """Return the `CountVectorizer` with the words of the fit.

        Raises
        ------
        AttributeError
            The model was not fitted to documents.
        """
        return vectorizer(self)

    # ---- files -------------------------------------------------------------------------------------------------------

    def save(self, path: Path | str) -> None:
        """Write the fitted estimator to a directory of JSON and npz, without pickle.

        Parameters
        ----------
        path : path_like
            An earlier model that stands there is replaced; anything else there is refused.

        Raises
        ------
        ArchiveError
            A part of the model cannot be kept without pickling it, or `path` is taken.
        """
        check_is_fitted(self)
        save_estimator(self, path)
        self._after_save()

    def _after_save(self) -> None:
        """Let go of what no file holds; some estimators do."""

    @classmethod
    def load(cls, path: Path | str, *, trust: bool = False) -> Self:
        """Read an estimator back from `save`; it predicts without the training data.

        Parameters
        ----------
        path : path_like
        trust : bool
            Also import modules that are neither part of expfam nor of an installed distribution that offers plugins,
            where the file names them; that runs their code. Use it for files that you trust.

        Returns
        -------
        Estimator
            Of the class that `load` was called on. It has what the file holds: labels where they were saved, columns of
            the trace of a `Mixture` and no other trace. Settings that cannot be written as JSON, such as callbacks and
            starting labels, are at their defaults.

        Raises
        ------
        ArchiveError
            There is no such model at `path`, or it is damaged or was altered.
        PluginError
            A class that the file names is not installed, or comes from elsewhere and `trust` is False.
        """
        return load_estimator(cls, path, trust=trust)


class LabelledEstimator(Estimator):
    """Base of the estimators whose labels are saved on request."""

    def save(self, path: Path | str, *, labels: bool = False) -> None:
        """Write the fitted estimator to a directory of JSON and npz, without pickle.

        Parameters
        ----------
        path : path_like
            An earlier model that stands there is replaced; anything else there is refused.
        labels : bool
            Also keep `labels_`, 4 bytes a row, and the draws of a `Mixture` that has kept some. Without them the size
            of the file does not depend on N.

        Raises
        ------
        ArchiveError
            A part of the model cannot be kept without pickling it, or `path` is taken.
        """
        check_is_fitted(self)
        save_estimator(self, path, labels=labels)
        self._after_save()


class FamilyEstimator(Estimator):
    """Base of the estimators that have a `family`: they load it and validate rows for it.

    With ``family="auto"`` the data of a fit choose the family, when they are validated.
    """

    family: Any

    def _family(self) -> Family:
        """Return the family that `family` is or names; other values get an error with the remedy."""
        family = self.family
        if isinstance(family, str) and family == "auto":
            found = self.__dict__.get("_family_of_data", self.__dict__.get("family_"))
            return load_family(_OF_NUMBERS) if found is None else found
        if isinstance(family, str):
            return self._named_family(family)
        if isinstance(family, Family):
            return family
        owner, hint = type(self).__name__, ""
        if isinstance(family, (int, np.integer)) and not isinstance(family, bool):
            count = f"{_WORDS.get(int(family), str(family))} {'cluster' if int(family) == 1 else 'clusters'}"
            hint = f". To ask for {count}, write {owner}(n_components={int(family)})"
        elif isinstance(family, type) and issubclass(family, Family):
            hint = f". Write {owner}({family.__name__}())"
        raise TypeError(f"family must be a name or a Family; got {family!r}{hint}")

    def _named_family(self, name: str) -> Family:
        """Return the family of a name; the error about an unknown one has the lines to type."""
        try:
            return load_family(name)
        except UnknownNameError as error:
            if not error.near:
                raise
            lines = " or ".join(f"{type(self).__name__}({near!r})" for near in error.near)
            raise PluginError(f"{error}. Write {lines}") from None

    def _validate(self, X: Any, *, reset: bool, family: Family | None = None, learns: bool = False) -> Any:
        validate = partial(self._validate_matrix, reset=reset, family=family, learns=learns)
        takes_counts = not reset or is_auto(self.family) or self._family().accepts_sparse
        return validated_documents(self, X, validate, reset=reset, is_chunk=learns, takes_counts=takes_counts)

    def _validate_matrix(self, X, *, reset, family, learns):
        owner = type(self).__name__
        frame = as_frame(X, owner=owner) if is_frame(X) else None  # one, which keeps the columns that it has read
        if reset and is_auto(self.family):
            self._family_of_data = self._chosen_family(X, frame, owner)
        if family is None:
            family = self._family() if reset else self.family_  # type: ignore[attr-defined]
        roles = getattr(family, "roles", None)
        if roles and frame is not None:
            return self._encoded(frame, Roles(roles), reset=reset)
        return checked_input(
            self,
            X,
            frame=frame,
            reset=reset,
            accepts_sparse=family.accepts_sparse,
            may_lack=family.allows_missing if reset else may_lack_cells(family, scored=not learns),
            family_checks=family.allows_missing,
        )

    @staticmethod
    def _chosen_family(X, frame, owner):
        """Return the family of ``family="auto"`` for data as they were given."""
        if frame is not None:
            return family_of_frame(frame) or load_family(_OF_NUMBERS)
        check_given(X, owner=owner)
        return family_of_array(X, owner=owner)

    def _encoded(self, frame, roles, *, reset):
        """Return a frame as the matrix that its roles make of it."""
        owner = type(self).__name__
        require_rows(frame, owner=owner)
        matrix = roles.encode(frame, owner=owner)
        if reset:
            self.n_features_in_, self._backend = matrix.shape[1], frame.backend
            self.feature_names_in_ = np.array(roles.names, dtype=object)
        return matrix

    @property
    @made_on_use
    def roles_(self) -> Any:
        """Return the role, family, levels and holes of each column of the frame, as a frame.

        Only after a fit of a frame by roles; the frame is of the library of the one that was fitted.
        """
        self._check_fitted()
        family = self.family_  # type: ignore[attr-defined]
        if not getattr(family, "roles", None):
            raise AttributeError(
                f"{type(self).__name__}: there are no roles: the model was fitted to numbers alone, with {family.name}"
            )
        return Roles(family.roles).frame(family.parts, backend=self.__dict__.get("_backend", "pandas"))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if isinstance(self.family, str) and self.family == "auto":
            tags.input_tags.allow_nan = tags.input_tags.categorical = tags.input_tags.string = True
            return tags
        family = load_family(self.family) if isinstance(self.family, str) else self.family
        if isinstance(family, Family):
            for name in ("sparse", "allow_nan", "positive_only", "categorical", "string"):
                setattr(tags.input_tags, name, family.tags()[name])
            # the common checks bring real numbers of either sign, whatever the tags above say
            tags._skip_test = not family.tags()["real"] or tuple(family.bounds) != tuple(Family.bounds)
        return tags


def _with_remedy(init: Any) -> Any:
    """Return the constructor with a TypeError that names the remedy for an unknown keyword."""

    parameters = inspect.signature(init).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return init

    @functools.wraps(init)
    def checked(self: Any, *args: Any, **kwargs: Any) -> None:
        for name, value in kwargs.items():
            if name not in parameters:
                raise TypeError(unknown_keyword(type(self), name, value, list(parameters)[1:]))
        init(self, *args, **kwargs)

    return checked


def names_unknown_arguments(method: Any) -> Any:
    """Return a method whose TypeError of an unknown argument names the remedy."""
    parameters = inspect.signature(method).parameters
    is_checked = getattr(method, "names_unknown_arguments", False)
    if is_checked or any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return method

    @functools.wraps(method)
    def checked(self: Any, *args: Any, **kwargs: Any) -> Any:
        for name in kwargs:
            if name not in parameters:
                raise TypeError(unknown_argument(type(self), method.__name__, name, list(parameters)[1:]))
        return method(self, *args, **kwargs)

    checked.names_unknown_arguments = True  # type: ignore[attr-defined]
    return checked


def step_numbers(estimator: Any) -> tuple[int, int]:
    """Return `n_steps` and `n_warmup` of an estimator as numbers.

    ``n_steps="auto"`` is the estimator's `default_steps`; ``n_warmup="auto"`` is as many as `n_steps`, at most 100.
    Anything but these and non-negative integers raises ValueError.
    """
    for name in ("n_steps", "n_warmup"):
        check_value(f"{type(estimator).__name__}: {name}", getattr(estimator, name), ("auto", Integer(0)))
    n_steps = int(estimator.default_steps if is_auto(estimator.n_steps) else estimator.n_steps)
    return n_steps, min(n_steps, _MOST_WARMUP) if is_auto(estimator.n_warmup) else int(estimator.n_warmup)


def total_steps(estimator: Any) -> int | None:
    """Return the number of steps of a fit with its warm-up; None where a rule decides it."""
    return None if estimator._follows_rule() else sum(step_numbers(estimator))
