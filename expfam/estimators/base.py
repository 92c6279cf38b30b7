"""Base of the estimators: checked settings, the run of a fit, and files."""

from __future__ import annotations

import inspect
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from expfam.amounts import counted
from expfam.estimators.arguments import names_unknown_keywords, with_whole_lines
from expfam.estimators.documents import vectorizer
from expfam.estimators.foreign_names import lacks_after_chunks, missing_attribute, unknown_keyword
from expfam.estimators.lines import settings_of
from expfam.estimators.loaded import drop_loaded, names_of_fit, rows_of_fit
from expfam.estimators.plotted import chosen_display
from expfam.estimators.row_results import asked_labels, asked_output, assignments
from expfam.families.columns.roles import Roles
from expfam.fitted.cluster_table import cluster_table
from expfam.fitted.clusters import FittedClusters
from expfam.fitted.form import ResultForm
from expfam.fitted.row_certainty import certainty_of_state
from expfam.fitted.summary import Summary, alike_lines, family_lines, summary_text
from expfam.fitting.candidates import name_of
from expfam.fitting.kept_run import taken_seed
from expfam.fitting.phases import distinct_kernels
from expfam.fitting.steps import run_phases, with_progress
from expfam.forecast.memory import Forecast, check_memory
from expfam.forecast.time import check_time, forecast_duration
from expfam.io.models import load_estimator, save_estimator
from expfam.lazy import made_on_use
from expfam.params import Integer, check_value, is_auto, refuse_unused
from expfam.stages import TIMED_ROWS, tell
from expfam.structures.ground.rng import resolve_seed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from typing import Self

    from sklearn.feature_extraction.text import CountVectorizer

    from expfam.fitting.phases import Phase
    from expfam.model.data import Dataset
    from expfam.samplers.chain.trace import Trace

_METHODS = (
    "fit",
    "predict",
    "predict_proba",
    "predict_log_proba",
    "predict_class",
    "transform",
    "score",
    "score_samples",
    "bic",
    "impute",
)
_MOST_WARMUP = 100  # steps of n_warmup="auto"
_COSTLY = ("coarsening_curve_",)  # results that need fits of halves
_OUTPUTS = ("default", "pandas", "polars")


class Estimator(BaseEstimator):
    """Base of the four estimators: settings, the run of a fit, shared results, and files.

    Subclasses say in `default_steps` what ``n_steps="auto"`` stands for, in `saved_kind` which format of
    `expfam.io.models` they have, and in `no_components` what ``n_components=None`` stands for, if anything. They have
    `cluster_sizes_`, `weights_`, `n_components_` and `labels_`, and in `_clusters` make the clusters of the fit.
    """

    default_steps: ClassVar[int] = 100
    ends_by_rule: ClassVar[bool] = False  # whether a run with all settings left to the package does
    saved_kind: ClassVar[str]
    no_components: ClassVar[str | None] = None
    of_clusters: ClassVar[str] = "cluster"  # what clusters are called in a summary, and what their sizes count
    of_sizes: ClassVar[str] = "row"

    _not_kept: Mapping[str, str]  # attributes that the file of a loaded model lacks, and the remedy
    n_components: Any
    n_threads: Any
    callbacks: Any
    random_state: Any
    memory_limit: Any
    _n_copied: int = 0  # bytes of the dense copy of sparse rows of a fit
    time_limit: Any

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Let the constructor and the methods tell what to type, with all that the user has set."""
        super().__init_subclass__(**kwargs)
        if "__init__" in vars(cls):
            cls.__init__ = names_unknown_keywords(cls.__init__)  # type: ignore[method-assign]
        for name in _METHODS:
            if inspect.isfunction(method := inspect.getattr_static(cls, name, None)):
                setattr(cls, name, with_whole_lines(method))

    def __getattr__(self, name: str) -> Any:
        """Say how to have an attribute of a file, after chunks, or of another library."""
        if name in self.__dict__.get("_not_kept", ()):
            raise AttributeError(
                f"this {type(self).__name__} was read from a file, which does not hold {name}: {self._not_kept[name]}"
            )
        if name == "row_names_" and "_row_index" in self.__dict__:
            return self._row_index.texts()
        known = hasattr(type(self), name)
        message = lacks_after_chunks(self, name) or (None if known else missing_attribute(self, name))
        if message is not None:
            raise AttributeError(message)
        try:
            return object.__getattribute__(self, name)  # raises its own error
        except AttributeError as error:
            if isinstance(error.__cause__, AttributeError):  # of a method that scikit-learn hides: why it is hidden
                raise AttributeError(f"{error}: {error.__cause__}") from None
            raise

    def __dir__(self) -> list[str]:
        """Return the names of what there is; no result that needs further fits is made for it."""
        is_fitted = self.__sklearn_is_fitted__()  # type: ignore[attr-defined]
        return [name for name in object.__dir__(self) if (is_fitted if name in _COSTLY else hasattr(self, name))]

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
        for name in params:
            if "__" not in name and name not in known:
                raise ValueError(unknown_keyword(type(self), name, params, known, settings_of(self)))
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
        n_steps: tuple[int, int] | None = None,
        has_labels: bool = True,
    ) -> int:
        """Check kernels, memory and time before any work; return the steps of all chains.

        Chains that share a thread are counted one after the other.

        `begin` makes the state of a start that is searched. `n_steps` are the least and the largest number of steps of
        a chain, where they are not those of `phases`. With `has_labels` the certainty of each label is made after the
        steps.
        """
        drop_loaded(self)
        for part in distinct_kernels(phases):
            part.check(model, data)
        needed = forecast().with_copy(self._n_copied)
        check_memory(needed, self.memory_limit)
        tell(lambda: f"{counted(data.n_rows, 'row', spec=',')}; memory: about {needed}")
        total = sum(phase.n_steps for phase in phases)
        least, most = (n * n_rounds for n in n_steps or (total, total))
        if self.time_limit is not None:
            finish = partial(certainty_of_state, model, n_threads=self.n_threads) if has_labels else None
            options: dict[str, Any] = {"least_steps": least, "begin": begin, "finish": finish}
            check_time(self.time_limit, kernel, model, data, most, seed=seed, start=start, **options)
        elif data.n_rows >= TIMED_ROWS:
            options = {"least_steps": least, "begin": begin, "seed": seed, "start": start}
            tell(lambda: f"time: about {forecast_duration(kernel, model, data, most, **options)}")
        return most

    def _check_fitted(self) -> None:
        """Raise `NotFittedError` unless the estimator is fitted.

        `check_is_fitted` asks for the tags first, which loads the family by its name.
        """
        if not self.__sklearn_is_fitted__():  # type: ignore[attr-defined]
            check_is_fitted(self)

    def _seed(self) -> int:
        kept = taken_seed() if self.random_state is None else None
        return resolve_seed(self.random_state) if kept is None else kept

    # ---- results that all four have ----------------------------------------------------------------------------------

    def _clusters(self) -> FittedClusters:
        """Return the clusters that `labels_` are numbers of."""
        raise NotImplementedError

    def _form(self) -> ResultForm:
        """Return the form of results: arrays or frames, with names and types of the data."""
        roles, names = getattr(getattr(self, "family_", None), "roles", None), names_of_fit(self)
        columns = range(self.n_features_in_) if names is None else names  # type: ignore[attr-defined]
        return ResultForm(
            owner=type(self).__name__,
            columns=list(Roles(roles).names) if roles else list(map(str, columns)),
            has_names=names is not None,
            roles=Roles(roles) if roles else None,
            asked=asked_output(self),
            backend=self.__dict__.get("_backend", "pandas"),
        )

    def set_output(self, *, transform: Literal["default", "pandas", "polars"] | None = None) -> Self:
        """Choose the kind of frames that results come as.

        Parameters
        ----------
        transform : {"default", "pandas", "polars"} or None
            "default" is the kind of the data: arrays for arrays, frames of the same library for frames. None changes
            nothing. ``sklearn.set_config(transform_output=...)`` says it for all estimators. Probabilities are arrays
            unless frames are asked for; then their rows have the names of those of the data.

        Returns
        -------
        self
        """
        if transform is not None:
            check_value(f"{type(self).__name__}: set_output: transform", transform, _OUTPUTS)
            self._sklearn_output_config = {"transform": transform}  # scikit-learn's name: its clones keep it
        return self

    @property
    @made_on_use
    def labels_(self) -> Any:
        """Return the cluster of each row of the fit: (N,) int32 ndarray.

        Where `set_output` or scikit-learn's ``transform_output`` asks for frames, it is a series of this library with
        the name "cluster"; one of pandas has the index of the rows. `predict` and `fit_predict` return arrays.

        Examples
        --------
        >>> import pandas as pd
        >>> from expfam import Mixture
        >>> visits = pd.DataFrame({"home": [1, 0, 40], "work": [0, 2, 50]}, index=["ann", "bob", "eve"])
        >>> mixture = Mixture("poisson", 2, random_state=0).fit(visits)
        >>> mixture.labels_.tolist(), mixture.set_output(transform="pandas").labels_.to_dict()
        ([0, 0, 1], {'ann': 0, 'bob': 0, 'eve': 1})
        """
        self._check_fitted()
        if "labels_" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute 'labels_'")
        return asked_labels(self)

    @labels_.setter
    def labels_(self, labels: npt.NDArray[np.int32]) -> None:
        self.__dict__["labels_"] = labels

    @property
    def _labels(self) -> npt.NDArray[np.int32]:
        """Return `labels_` as an array, whatever `set_output` asks for."""
        kept = self.__dict__.get("labels_")
        return self.labels_ if kept is None else kept  # the first one raises

    @property
    @made_on_use
    def n_clusters_(self) -> int:
        """Return the number of clusters that hold data; `n_components_` is the same number."""
        self._check_fitted()
        return self.n_components_

    @property
    @made_on_use
    def assignments_(self) -> Any:
        """Return the cluster and the probability of each row of the fit, as a frame.

        Its columns "cluster" and "probability" are `labels_` and `probabilities_`. The rows have the names that they
        had in a frame of pandas, as the index; in other libraries as a first column.

        Examples
        --------
        >>> import pandas as pd
        >>> from expfam import Mixture
        >>> visits = pd.DataFrame({"home": [1, 0, 40], "work": [0, 2, 50]}, index=["ann", "bob", "eve"])
        >>> print(Mixture("poisson", 2, random_state=0).fit(visits).assignments_["cluster"].to_dict())
        {'ann': 0, 'bob': 0, 'eve': 1}
        """
        self._check_fitted()
        return assignments(self)

    @property
    @made_on_use
    def clusters_(self) -> Any:
        """Return a frame of numbers with one row a cluster, in the units of the data.

        Its columns are the number of the cluster, its size and weight, and of each column of numbers the mean, under
        its own name, and the standard deviation, such as "age" and "age_sd". A column of categories has the most
        probable level and its probability, such as "colour" and "colour_probability". Counts of words have the words
        that are most typical of the cluster instead, "words".
        """
        self._check_fitted()
        return cluster_table(self._clusters(), self._form())

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
        self._check_fitted()
        return self._clusters().params()

    def summary(self) -> Summary:
        """Return what was found: a few lines of text, with facts and a frame of the clusters.

        The first line has the number of clusters, the second one their sizes. After a `Mixture` with an open number of
        clusters the first one also names the method that merges them, and after `coarsen()` or `coarsening_curve_` how
        many groups halves of the data agree on. Where the data chose the family of real columns, a line says by how
        much, and where columns are alike in all clusters, another one says which are not. A last one counts the known
        rows, and those that the data contradict, after a fit with classes of rows. A run that Ctrl-C has ended is said
        to be so.

        Returns
        -------
        Summary
            A text, also in comparisons; notebooks show it with tables. Its `facts` are a dict of the number of
            clusters, the rows or tokens, the family, the log joint, the interval of the number of clusters where draws
            were kept, and whether the run has converged or was interrupted. ``summary().to_frame()`` is `clusters_`.

        Examples
        --------
        >>> import numpy as np
        >>> from expfam import Mixture
        >>> X = np.random.default_rng(0).normal(size=(90, 2)) + 20 * np.repeat(np.eye(3, 2), 30, axis=0)
        >>> print(Mixture(random_state=0).fit(X).summary())
        3 clusters; coarsen() merges them
        90 rows: 30 in the largest cluster, 30 in the smallest
        family gaussian_diag: held-out rows do not clearly have less than under gaussian
        """
        self._check_fitted()
        more, lines = self._summary_parts()
        given, family = self.__dict__, getattr(getattr(self, "family_", None), "name", "")
        scores, agreement = given.get("family_scores_"), given.get("family_agreement_")
        if scores or agreement:
            family = name_of(self.family_)  # type: ignore[attr-defined]
        lines = [*family_lines(family, scores, agreement), *_alike_lines(self), *lines]
        sizes = np.asarray(self.cluster_sizes_)
        if given.get("interrupted_"):
            lines.append("Ctrl-C ended the run early")
        text = summary_text(sizes, noun=self.of_clusters, unit=self.of_sizes, more=more, lines=lines)
        return Summary(text, _facts(self, family), lambda: self.clusters_)

    def plot(self, X: Any = None, ax: Any = None) -> Any:
        """Draw the picture that fits the model, and return its display.

        Parameters
        ----------
        X : array_like, sparse matrix or frame, optional
            Rows for the pictures that draw rows; by default those that were kept of the fit.
        ax : matplotlib Axes, optional

        Returns
        -------
        display
            A `ColumnEvidenceDisplay` of tables, `ClusterMeansDisplay` of words, topics and up to 64 columns of numbers
            or pixels, `ScatterDisplay` of embeddings and other wide rows, `DendrogramDisplay` of a hierarchy, and
            `SizesDisplay` where nothing else is known. Its class says which one it is, and its `figure_` is the figure.

        Examples
        --------
        >>> from expfam import Mixture
        >>> mixture = Mixture("poisson", 2, random_state=0).fit([[1, 0, 3], [0, 2, 4], [40, 50, 1], [44, 47, 2]])
        >>> type(mixture.plot()).__name__
        'ClusterMeansDisplay'
        """
        self._check_fitted()
        return chosen_display(self, X).plot(ax)

    def _kept_rows(self) -> tuple[Any, npt.NDArray[np.integer]] | None:
        """Return rows that were kept of the fit, and their clusters; or None."""
        kept = rows_of_fit(self) if "n_" in self.__dict__ else None
        return None if kept is None else (kept.data.X, kept.labels)

    def _summary_parts(self) -> tuple[str, list[str]]:
        """Return the end of the first line of a summary, and lines after the first two."""
        return "", known_line(self)

    def explain(self, k: int | None = None) -> Any:
        """Return how much each column tells a cluster apart from the others.

        It is the log Bayes factor of "the cells of cluster k have a parameter of their own" against "they have that of
        all other cells": A_j(k) + A_j(all but k) - A_j(all), nats. Below 0 the column is evidence against the cluster.

        Parameters
        ----------
        k : int, optional
            A cluster, whose columns are then sorted, the one that tells most first.

        Returns
        -------
        frame or ndarray
            Clusters by columns, (K, V); of one cluster a frame of column and log Bayes factor, or (V,). After a fit of
            an array it is an array. NaN stands for columns that are one block with an earlier one, which has the sum.
            Of `Gaussian` it is that of each column by itself, without the others.

        Raises
        ------
        CapabilityError
            The family does not know the evidence of its columns.
        """
        self._check_fitted()
        table, form = self._clusters().log_bayes_factors(), self._form()
        if k is not None:
            check_value(f"{type(self).__name__}: explain: k", k, (Integer(0),))
            if k >= len(table):
                raise ValueError(
                    f"{type(self).__name__}: explain: there are {counted(len(table), 'cluster')}; got k={k}"
                )
        if form.kind is None:
            return table if k is None else table[k]
        if k is None:
            names = [f"{name} (column)" if name == "cluster" else name for name in form.columns]
            return form.frame({"cluster": np.arange(len(table)), **dict(zip(names, table.T))})
        order = np.argsort(-np.nan_to_num(table[k], nan=-np.inf), kind="stable")
        return form.frame({"column": [form.columns[j] for j in order], "log_bayes_factor": table[k][order]})

    def column_evidence(self) -> tuple[list[str], Any]:
        """Return the names of the columns, and `explain` of all clusters as an array (K, V)."""
        self._check_fitted()
        return self._form().columns, self._clusters().log_bayes_factors()

    def fit_predict(self, X: Any, y: Any = None, **fit_params: Any) -> npt.NDArray[np.int32]:
        """Fit, and return the cluster of each row.

        Parameters
        ----------
        X, y, **fit_params
            As in `fit`.

        Returns
        -------
        (N,) int32 ndarray
        """
        fitted: Any = self.fit(X, y, **fit_params)  # type: ignore[attr-defined]
        return fitted._labels  # type: ignore[no-any-return]

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

    def save(self, path: Path | str, *, labels: bool = False) -> None:
        """Write the fitted estimator to a directory of JSON and npz, without pickle.

        Parameters
        ----------
        path : path_like
            An earlier model that stands there is replaced; anything else there is refused.
        labels : bool
            Also keep `labels_`, 4 bytes a row, names of rows as text, and draws of a `Mixture`. Without them the size
            of the file does not depend on N. A `BayesianHierarchy` always keeps its labels.

        Raises
        ------
        ArchiveError
            A part of the model cannot be kept without pickling it, or `path` is taken.
        """
        check_is_fitted(self)
        save_estimator(self, path, labels=labels)
        self.__dict__.pop("_kept_chunks", None)  # no file holds rows, and learning goes on with the same bits

    def __getstate__(self) -> Any:
        """Return what copies and pickles hold: no rows of chunks, as a file does.

        So what copies of one model learn can be merged.
        """
        self.__dict__.pop("_kept_chunks", None)
        return super().__getstate__()

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


def check_learn_hyper(estimator: Any) -> None:
    """Refuse what is no value of `learn_hyper`."""
    learn_hyper = estimator.learn_hyper
    if not (is_auto(learn_hyper) or isinstance(learn_hyper, (bool, np.bool_))):
        raise ValueError(f"{type(estimator).__name__}: learn_hyper must be 'auto', True or False; got {learn_hyper!r}")


def alpha_or(estimator: Any, first: Any) -> Any:
    """Return `alpha`, or the value from which it is learned where it is "auto"."""
    alpha = estimator.alpha
    if not isinstance(alpha, str):
        return alpha
    if alpha != "auto":
        raise ValueError(
            f"{type(estimator).__name__}: alpha must be 'auto', a positive number, or one for each component; got"
            f" {alpha!r}. To have it learned, write {type(estimator).__name__}(alpha='auto', learn_hyper=True)"
        )
    return first


def _alike_lines(estimator):
    """Return the line about columns that are alike in all clusters, where some are."""
    alike = getattr(getattr(estimator, "family_", None), "alike_columns", None)
    if alike is None or len(estimator.cluster_sizes_) < 2:
        return []
    found, names = alike(), estimator.__dict__.get("feature_names_in_", ())
    return alike_lines(found, names if len(names) == len(found) else [f"column {j}" for j in range(len(found))])


def _facts(estimator: Any, family: str) -> dict[str, Any]:
    """Return facts about the fit by name, None where one is not known."""
    given, log_joint = estimator.__dict__, getattr(estimator, "log_joint_", None)
    interval = None
    if "_draws" in given:
        interval = tuple(int(end) for end in estimator.posterior_.n_clusters_interval())
    return {
        f"n_{estimator.of_clusters}s": int(estimator.n_components_),
        f"n_{estimator.of_sizes}s": float(np.asarray(estimator.cluster_sizes_).sum()),
        "family": family or None,
        "log_joint": None if log_joint is None or log_joint != log_joint else float(log_joint),
        "n_clusters_interval": interval,
        "converged": given.get("converged_"),
        "interrupted": given.get("interrupted_"),
    }


def set_trace(estimator: Any, trace: Trace) -> None:
    """Set the results that the steps of a run give."""
    estimator.trace_, estimator.n_iter_, estimator.interrupted_ = trace, len(trace), trace.interrupted


def run_steps(estimator: Any, state: Any, phases: list[Phase], **options: Any) -> Trace:
    """Make the steps of all phases in place; options are those of `run_phases`."""
    callbacks = partial(with_progress, estimator.callbacks)
    return run_phases(state, phases, callbacks=callbacks, **options)


def step_numbers(estimator: Any) -> tuple[int, int]:
    """Return `n_steps` and `n_warmup` of an estimator as numbers.

    ``n_steps="auto"`` is the estimator's `default_steps`; ``n_warmup="auto"`` is as many as `n_steps`, at most 100.
    Anything but these and non-negative integers raises ValueError.
    """
    for name in ("n_steps", "n_warmup"):
        check_value(f"{type(estimator).__name__}: {name}", getattr(estimator, name), ("auto", Integer(0)))
    n_steps = int(estimator.default_steps if is_auto(estimator.n_steps) else estimator.n_steps)
    return n_steps, min(n_steps, _MOST_WARMUP) if is_auto(estimator.n_warmup) else int(estimator.n_warmup)


def refuse_warmup(estimator: Any, remedy: str) -> None:
    """Refuse a warm-up of variational inference, which has none.

    Parameters
    ----------
    estimator, remedy
        The estimator, and the words that say what else to write.
    """
    if not is_auto(estimator.n_warmup) and estimator.n_warmup:
        refuse_unused(estimator, ["n_warmup"], why="variational inference", remedy=remedy)


def total_steps(estimator: Any) -> int | None:
    """Return the number of steps of a fit with its warm-up; None where a rule decides it."""
    return None if follows_rule(estimator) else sum(step_numbers(estimator))


def follows_rule(estimator: Any) -> bool:
    """Return whether a rule ends the run, so that its number of steps is not known before."""
    return estimator.ends_by_rule and is_auto(estimator.sampler) and is_auto(estimator.n_steps)


def known_line(estimator: Any) -> list[str]:
    """Return a line on the rows whose class was known, if there are such rows."""
    given = estimator.__dict__
    parts = [f"{given['n_known_']:,} of known class"] if given.get("n_known_") else []
    if "doubtful_known_" in given and (parts or given["doubtful_known_"].size):
        n = given["doubtful_known_"].size
        parts.append(f"the data contradict {n:,} of them, see doubtful_known_" if n else "the data contradict none")
    return ["; ".join(parts)] if parts else []
