"""`GroupedMixture`: a mixture of rows in groups, in the conventions of scikit-learn.

A fitted model is a bound family, statistics of the clusters and pseudo-counts of clusters in groups, whichever sampler
found them; weights of new groups, labels, scores and saved files need no more than these.
"""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.base import ClusterMixin
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.metaestimators import available_if

from expfam.errors import CapabilityError, DataError, SupportError
from expfam.estimators.arguments import with_whole_lines
from expfam.estimators.base import (
    Estimator,
    alpha_or,
    check_learn_hyper,
    run_steps,
    set_trace,
    step_numbers,
)
from expfam.estimators.chunks import learn, learn_all
from expfam.estimators.coarsen import coarser, curve_of_fit, groups_text, merges_of
from expfam.estimators.family_estimator import FamilyEstimator, compared_rows, conditional_scores
from expfam.estimators.group_names import grouped_rows
from expfam.estimators.grouped_chunks import GROUPS, learns_groups, soft_sums
from expfam.estimators.known_doubts import drop_known, set_doubts
from expfam.estimators.lines import line_of
from expfam.estimators.loaded import clusters_of_fit, keep_rows, loaded_clusters, names_of_fit
from expfam.estimators.resumed import kept_fit, seeded_fit
from expfam.estimators.row_results import asked_output, in_asked_form
from expfam.estimators.unknown_groups import (
    GIVEN_CLUSTERS,
    GUESSED_CLUSTERS,
    UNKNOWN_RESULTS,
    ClusterMeans,
    VariationalClusters,
    adopt_unknown,
    drop_empty,
    unknown_kernel,
    unknown_model,
    unknown_start,
)
from expfam.estimators.unknown_numbers import refuse_rest, refuse_unknown, rest_pseudocount
from expfam.evaluation.mean_error import error_of_mean
from expfam.families.components import Components
from expfam.fitted.row_certainty import certainty_of_labels
from expfam.fitted.scoring import opened_data, opened_rows
from expfam.fitting.few_rows import other_families, warn_of_others
from expfam.fitting.free_columns import free_columns
from expfam.fitting.grouped_endings import grouped_ending, slots_joined
from expfam.fitting.grouped_starts import forecast_with_start, grouped_start, kept_state
from expfam.fitting.known_rows import known_rows
from expfam.fitting.phases import Phase
from expfam.fitting.plan import Asked
from expfam.fitting.spread_statistics import added_squares
from expfam.fitting.steps import was_level
from expfam.fitting.weighted_rows import check_weights, label_sizes, labels_of_all, start_of_counted
from expfam.forecast.memory import forecast_memory
from expfam.frames.new_frames import new_frame
from expfam.lazy import made_on_use
from expfam.model.admixture import AdmixtureModel
from expfam.model.data import Dataset
from expfam.model.groups import Groups, as_groups
from expfam.model.weights import DirichletProcess, SymmetricDirichlet
from expfam.params import check_value, is_auto, refuse_unused
from expfam.samplers.chain.kernel import check_known
from expfam.samplers.grouped.ascent import counts_of_groups
from expfam.samplers.grouped.gibbs import GroupedGibbs
from expfam.samplers.grouped.group_rows import group_step
from expfam.samplers.grouped.stream import GroupedStream
from expfam.samplers.grouped.variational import GroupedVariational
from expfam.samplers.named import find_sampler
from expfam.samplers.nonparametric.group_variational import GroupedProcessVariational
from expfam.samplers.variational.sparse_rows import work_size
from expfam.samplers.warm_starts.ties import spread_memory, spread_ties, tied_columns
from expfam.stages import stage
from expfam.structures.ground.rng import generator
from expfam.structures.ground.threads import run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Self

    from expfam.coarsening.curve import CoarseningCurve
    from expfam.families.base import Family

_ALPHA = 1.0  # of all clusters together, where learning begins
_KEEP_EVERY = 4  # sweeps from one that counts to the next
_ITERATIONS, _TOLERANCE = 100, 1e-2  # of a new group's weights, in rows
_SCORES = 1 << 17  # of a block
_HELD_SHARE = 0.2
_MOST_RUNS = 3  # from better and better partitions


class GroupedMixture(ClusterMixin, FamilyEstimator):
    """Mixture of rows in groups: all groups share the clusters, each has its own weights.

    The cluster of a row depends on the other rows of its group too. docs/settings.md says more of all settings.

    Parameters
    ----------
    family : str or Family
        Name of a family, one with settings, or "auto": by the data, of a table by the role of each column.
    n_components : int or None
        Number of clusters; None: it is unknown, and found under a hierarchical Dirichlet process.
    alpha : "auto", float or (K,) array_like
        Pseudo-count of each cluster in a group, learned if "auto"; of ``n_components=None`` the groups' concentration.
    sampler : str, GroupedGibbs or GroupedVariational
        "auto" and "gibbs" (repeated values as they are) sample; "variational" takes chunks and weights; or a kernel.
    n_steps, n_warmup : int or "auto"
        Steps that count, 100 by default, and steps before them.
    learn_hyper : bool or "auto"
        Learn hyper-parameters of the family, at the start: all, none, or those left at "auto".
    start, labels : str or (N,) array_like of int; {None, "clusters"}
        First clusters or the name of a start. Classes `y` of rows are ignored, or class j is cluster j.
    n_threads, random_state, callbacks, memory_limit, time_limit
        Threads (-1: all cores), seed, functions ``callback(info, state)`` called after each step or "progress" for a
        progress bar, and bytes and seconds that a fit may need, also as text such as "4GB" and "10min".

    Attributes
    ----------
    labels_, probabilities_ : (N,) int32 and float32 ndarrays
        Cluster of each row, 0..K-1, and its probability by the weights of its group.
    n_components_, n_clusters_ : int
        Clusters that hold rows; others are listed with a size of 0.
    cluster_sizes_, weights_ : (K,) ndarrays
        Rows of each cluster; share of all rows. `group_weights_` has those of each group.
    params_, clusters_ : dict of (K, ...) ndarrays, frame
        Parameters by name; a table of sizes, means and modes in the units of the data.
    log_joint_, converged_, n_iter_, interrupted_ : float, bool, int, bool
        Log joint of `labels_` and data; whether it was level at the end; steps; whether Ctrl-C ended them.
    group_weights_, group_counts_, group_names_ : (G, K) ndarray, (G, K) CSR array, (G,) ndarray
        Weights, and rows of each group in each cluster; names of the groups where they have some.
    alpha_, family_, n_, S_, trace_, roles_
        Pseudo-counts, bound family, statistics, numbers of each step; roles of the columns of a table. Further results
        are `beta_`, `rest_`, `concentration_`, `gamma_`, `classes_`, `doubtful_known_`, `likelier_classes_`.

    See Also
    --------
    Mixture, TopicModel, BayesianHierarchy : rows without groups; words of documents; a tree of clusters.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import GroupedMixture
    >>> X = np.repeat([[0.0], [9.0]], 30, axis=0) + np.linspace(0, 1, 60)[:, None]
    >>> patient = np.where(np.arange(60) < 20, 0, 1 + np.arange(60) % 2)
    >>> mixture = GroupedMixture("gaussian_diag", 2, random_state=0).fit(X, groups=patient)
    >>> mixture.group_weights_.max(axis=1).round(1)
    array([1. , 0.7, 0.7])

    Notes
    -----
    The model of latent Dirichlet allocation with rows of any family in place of words: Blei, Ng and Jordan 2003,
    "Latent Dirichlet allocation". Numbers and names of groups belong to a call: groups of new data are new groups.
    """

    saved_kind = "grouped_mixture"
    fit_predict = Estimator.fit_predict  # that of scikit-learn drops y
    no_components = "an unknown number of clusters"

    __metadata_request__fit = {"resume": UNUSED}  # noqa: RUF012 - of this call alone

    def __init__(
        self,
        family: str | Family = "auto",
        n_components: int | None = 10,
        *,
        alpha: float | npt.ArrayLike | Literal["auto"] = "auto",
        sampler: str | GroupedGibbs | GroupedVariational = "auto",
        n_steps: int | Literal["auto"] = "auto",
        n_warmup: int | Literal["auto"] = "auto",
        learn_hyper: bool | Literal["auto"] = "auto",
        start: Any = "auto",
        labels: Literal["clusters"] | None = None,
        n_threads: int | None = None,
        random_state: Any = None,
        callbacks: Sequence[Callable] | Literal["progress"] | None = None,
        memory_limit: float | str | None = None,
        time_limit: float | str | None = None,
    ) -> None:
        self.family, self.n_components, self.alpha, self.sampler = family, n_components, alpha, sampler
        self.n_steps, self.n_warmup = n_steps, n_warmup
        self.learn_hyper, self.start, self.labels = learn_hyper, start, labels
        self.n_threads, self.random_state, self.callbacks = n_threads, random_state, callbacks
        self.memory_limit, self.time_limit = memory_limit, time_limit

    # ---- fitting -----------------------------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        groups: Any = None,
        sample_weight: npt.ArrayLike | None = None,
        links: npt.ArrayLike | None = None,
        resume: Any = None,
    ) -> Self:
        """Find clusters that the groups of rows share.

        Parameters
        ----------
        X : array_like, sparse matrix or sequence of documents, shape (N, V)
            Words of documents, texts or lists of tokens, are counted; `vectorizer_` counts those of new ones.
            A memory map of float32 or float64 is read where it lies by variational inference.
        y : (N,) array_like, optional
            Class of each row: integers, -1 where it is not known, or names, None or NaN where it is not known. Without
            `labels` and `groups` these are the groups: ``fit(X, groups)``.
        groups : (N,) array_like, Groups, or str
            Group of each row, in any order: its number from 0 on, where a group may have no rows, or its name, anything
            that can be the key of a dict. A text is the name of the column of a frame that has the groups; it is no
            data then. Required.
        sample_weight : (N,) array_like of non-negative float, optional
            Multiplicity of each row, for variational inference. Clusters, hyper-parameters and starts are those of the
            rows repeated. Rows of weight 0 have no influence, and get their most probable cluster at the end.
        links : (N,) array_like of int, optional
            Rows with an equal number of at least 0 are in one cluster, whatever their groups; -1 for rows without a
            link. `link_groups` makes them from pairs of rows. For Gibbs sampling.
        resume : path_like or Checkpoint, optional
            Folder in which the run is kept, every minute; where it holds the run of an earlier call with the same data
            and settings, the fit goes on from there, and ends as if it had never been stopped, bit for bit.
            ``Checkpoint(path, every_seconds=5)`` says how often.

        Returns
        -------
        self

        Raises
        ------
        DataError, SupportError, CapabilityError, ResourceError
            Before any work begins.
        """
        n_steps, n_warmup = step_numbers(self)
        kernel = self._kernel()
        is_sampled = kernel.is_sampler
        X, y, groups = grouped_rows(X, groups, y, labels=self.labels)
        rows, K = self._validate(X, reset=True), self._check_components()
        of_rows = DirichletProcess() if K is None else SymmetricDirichlet(K, 1.0)  # without their groups
        X = compared_rows(self, X, rows, lambda: of_rows, sample_weight)
        groups = as_groups(groups, X.shape[0])
        check_value("GroupedMixture: labels", self.labels, (None, "clusters"))
        if links is not None and K is None:
            sampler = {} if is_auto(self.sampler) else {"sampler": "gibbs"}  # which takes links
            line = line_of(self, n_components=GIVEN_CLUSTERS, **sampler)
            refuse_unknown("GroupedMixture", "links", f"{line}.fit(X, groups=groups, links=links)")
        known, classes = known_rows("GroupedMixture", self.labels, y, links, X.shape[0])
        held = known if known is not None and (known.n_classes or known.groups) else None
        every = Dataset(X, self._family(), weight=sample_weight, groups=groups, known=held, names=names_of_fit(self))
        free = free_columns(self._family(), every.counted()) if is_auto(self.sampler) else None
        whole = every if free is None else free.part(every)
        with seeded_fit(self, resume):
            model, seed = self._model(whole.family, held), self._seed()
        check_weights(
            kernel,
            model,
            whole,
            sampler=self.sampler,
            owner="GroupedMixture",
            line=partial(line_of, self),
            others=lambda: {"variational": GroupedVariational() if K else GroupedProcessVariational()},
            fit="fit(X, groups=groups",
        )
        data = whole.counted()  # rows of weight 0 have no part in the fit
        seen = spread_ties(data, K, seed=seed) if is_auto(self.sampler) else data
        start = start_of_counted(whole, self.start)
        if not is_sampled:
            if n_warmup and not is_auto(self.n_warmup):
                refuse_unused(self, ["n_warmup"], why="variational inference", remedy="take sampler='gibbs'")
            n_warmup = 0
        is_unknown = self.n_components is None
        phases = [Phase(kernel, n_warmup), Phase(kernel, n_steps)]
        average = (ClusterMeans() if is_sampled else VariationalClusters()) if is_unknown else _Average()
        if known is not None:
            check_known(kernel, model, known)
        forecast = partial(self._forecast, data, kernel=kernel, model=model, start=start)
        begin = partial(unknown_start if is_unknown else grouped_start, kernel, model, start=start)
        learned = {"family": self._family(), "learn_hyper": self.learn_hyper}
        begin = partial(begin, **learned, seed=seed, n_threads=self.n_threads)
        is_searched = is_auto(start)
        timed = {"start": start, "begin": begin if is_searched else None}
        self._check_run(model, data, phases, kernel=kernel, forecast=forecast, seed=seed, **timed)
        with kept_fit(self, resume, data, seed):
            with stage("searching a start"):
                state = kept_state(lambda: begin(seen), lambda: kernel.init(model, seen, seed=seed, start="random"))
            trace = run_steps(self, state, phases, counted=[average] if is_sampled else [])
            self._adopt(state, average, groups)
            if is_sampled and held is None:
                self._end(state, phases, trace, groups)
            if seen is not data:
                self._take_back(data)
        set_trace(self, trace)
        self.converged_ = was_level(trace, kernel, state, data.n_rows)
        counted_labels = self._labels
        self._label_all(whole)
        self._set_known(known, classes)
        self.cluster_sizes_ = label_sizes(self._labels, len(self.n_), whole.weight)
        self._set_group_names(groups)
        self._set_certainty(whole, groups)
        self._set_doubts(whole, groups, kernel)
        self._warn_of_covariances(data, counted_labels, seed)
        if free is not None:
            self._take_all_columns(free, every.counted(), counted_labels)
        keep_rows(self, every, self._labels, seed=seed)
        self.__dict__.pop("stream_", None)
        return self

    def _forecast(self, data, *, kernel, model, start):
        """Forecast the memory of a fit, with that of the search for a start."""
        K = GUESSED_CLUSTERS if self.n_components is None else model.n_components
        forecast = forecast_memory(data, n_components=K, kernel=kernel, model=model)
        if is_auto(self.sampler):
            forecast = replace(forecast, scratch=forecast.scratch + spread_memory(data, self.n_components))
        return forecast_with_start(forecast, data, start, K)

    def _set_group_names(self, groups):
        self.__dict__.pop("group_names_", None)
        if groups.names is not None and groups.n_groups == self.group_counts_.shape[0]:
            self.group_names_ = groups.names

    def _end(self, state, phases, trace, groups):
        """Take the labels to a mode; run again from a simple partition where that is better."""
        is_default = is_auto(self.n_steps) and is_auto(self.n_warmup) and self.n_components is not None
        try:
            for left in reversed(range(_MOST_RUNS if is_default else 1)):
                if trace.interrupted:
                    return
                model, options = self._fitted_model(), {"seed": state.seed, "n_threads": self.n_threads}
                ending = grouped_ending(model, state.data, self._labels, **options)
                if ending.name == "chain" or not left:
                    self._adopt_ending(ending, model, state)
                    if self.n_components is None:
                        drop_empty(self)
                    return
                kernel, average = phases[0].kernel, _Average()
                state = kernel.init(model, state.data, seed=state.seed, start=ending.labels)
                run_steps(self, state, phases, counted=[average], trace=trace)
                self._adopt(state, average, groups)
        except KeyboardInterrupt:
            trace.interrupted = True

    def _adopt_ending(self, ending, model, state):
        """Store the labels of an ending; means over sweeps stay where they are of the same clusters."""
        self.labels_, self.log_joint_ = ending.labels, model.log_joint(state.data, ending.labels)
        if ending.name == "chain":
            self.n_, self.S_, counts = slots_joined(ending.slots, self.n_, self.S_, self.group_counts_.T.tocsr())
            self.group_counts_ = counts.T.tocsr()
            return
        K = model.n_components
        self.n_, self.S_ = state.data.statistics(ending.labels, K)
        self.group_counts_ = sparse.csr_array(counts_of_groups(state.data, ending.labels, K))

    def _take_back(self, data):
        """Set sums and the log joint of the rows as they are, after a run on spread ones."""
        n, S = data.statistics(self._labels, len(self.n_))
        has_rows = n > 0
        share = np.divide(self.n_, n, out=np.zeros_like(self.n_), where=has_rows)  # means over sweeps count rows
        self.S_ = np.where(has_rows[:, None], S * share[:, None], self.S_)
        added = added_squares(data, tied_columns(data, self.n_components))
        if added is not None:
            self.S_ += added.of_labels(data, self._labels, len(n)) * share[:, None]
        self.log_joint_ = self._fitted_model().log_joint(data, self._labels)

    def _take_all_columns(self, free, data, labels):
        """Give the result of a fit of the free columns all columns, of which `data` has the rows."""
        self.S_ = free.all_sums(self.family_, self.n_, self.S_)
        self.family_ = free.all_columns(self.family_)
        self.log_joint_ = self._fitted_model().log_joint(data, labels)

    def _set_certainty(self, data, groups):
        """Set `probabilities_`, by the weights of the group of each row; Ctrl-C leaves it out."""
        self.__dict__.pop("probabilities_", None)
        mass, n_threads = np.log(self.group_weights_), self.n_threads
        clusters = (self.family_, data, self.n_, self.S_)
        try:
            self.probabilities_ = certainty_of_labels(
                *clusters, self._labels, mass, kind_of_row=groups.of_row, n_threads=n_threads
            )
        except KeyboardInterrupt:
            self.interrupted_ = self.trace_.interrupted = True

    def _warn_of_covariances(self, data, labels, seed):
        """Warn where another family describes held-out rows better; Ctrl-C leaves it out."""
        is_left = all(is_auto(value) for value in (self.sampler, self.n_steps, self.n_warmup))
        if not is_left or self.interrupted_ or not is_auto(self.start):
            return
        try:
            found = other_families(self._asked(), data, labels, seed=seed)
        except KeyboardInterrupt:
            self.interrupted_ = self.trace_.interrupted = True
            return
        warn_of_others(self._asked(), data, int(labels.max()) + 1, found)

    def _asked(self):
        """Return what is asked of a mixture of the rows without their groups."""
        K = self.n_components
        weights = DirichletProcess() if K is None else SymmetricDirichlet(K, 1.0)
        line = partial(line_of, self)
        return Asked(self._family(), weights, K, "auto", self.n_threads, line, type(self).__name__)

    def _set_doubts(self, data, groups, kernel):
        """Set which known rows the data contradict; Ctrl-C leaves it out."""
        if data.known is None or data.known.classes is None or self.interrupted_:
            return
        places, labels = np.arange(len(self.n_)), self._labels

        def log_mass(rows):
            counts = self.group_counts_[groups.of_row[rows]].toarray() + self.alpha_
            counts[np.arange(len(rows)), labels[rows]] -= 1.0  # a known row counts as one
            return np.log(np.maximum(counts, self.alpha_))

        try:
            set_doubts(
                self,
                self._fitted_model(),
                data,
                np.where(places < data.known.n_classes, places, -1),
                log_mass,
                schedule=getattr(kernel, "schedule", None),
                remedy="Give the parts of these classes names of their own in y, or leave their rows unknown",
            )
        except KeyboardInterrupt:
            self.interrupted_ = self.trace_.interrupted = True

    def _set_known(self, known, classes):
        drop_known(self)
        self.__dict__.pop("classes_", None)
        if known is not None and known.classes is not None:
            is_known = known.classes >= 0
            self._labels[is_known] = known.classes[is_known]
            self.classes_, self.n_known_ = classes, int(is_known.sum())
        elif known is not None and known.groups:
            self.n_known_ = 0

    def _kernel(self):
        if self.n_components is None:
            return unknown_kernel(self)
        found = find_sampler(self.sampler, model="GroupedMixture")
        check_learn_hyper(self)
        if isinstance(found, (GroupedGibbs, GroupedVariational)):
            return found
        if found is GroupedVariational:
            return GroupedVariational(learn_alpha=is_auto(self.alpha), n_threads=self.n_threads)
        return GroupedGibbs(learn_alpha=is_auto(self.alpha))

    def _adopt(self, state, average, groups):
        self.n_, self.S_, self.group_counts_, self.alpha_ = average.means(state)
        for name in UNKNOWN_RESULTS:
            self.__dict__.pop(name, None)
        if self.n_components is None:
            adopt_unknown(self, average)
        self.family_, self.log_joint_ = state.model.family, float(state.log_joint)
        if average.n_kept == 0:
            self.labels_ = state.labels.copy()
            return
        self.labels_ = self._most_probable(state.data, groups.of_row)

    def _most_probable(self, data, groups_of_rows):
        """Return the most probable cluster of rows of groups of the fit."""
        log_weights = np.log(self.group_weights_)

        def reduce(scores, start, stop):
            return (scores[:, :-1] + log_weights[groups_of_rows[start:stop]]).argmax(axis=1).astype(np.int32)

        labels = np.concatenate(self._log_densities(data, reduce))
        if data.known is not None and data.known.groups:
            labels[data.known.grouped_rows] = self._of_linked(data, log_weights[groups_of_rows])
        return labels

    def _of_linked(self, data, log_weights):
        """Return the most probable cluster of each link group, for each of its rows."""
        rows, starts = data.known.grouped_rows, data.known.group_starts
        scores = np.concatenate(self._log_densities(data.take(rows), lambda scores, start, stop: scores[:, :-1].copy()))
        best = np.add.reduceat(scores + log_weights[rows], starts[:-1], axis=0).argmax(axis=1)
        return np.repeat(best, np.diff(starts))

    def _label_all(self, data):
        self.labels_ = labels_of_all(
            data, self._labels, lambda rows: self._most_probable(data.take(rows), data.groups.of_row[rows])
        )

    @property
    @made_on_use
    def group_weights_(self) -> npt.NDArray[np.float64]:
        """Return the posterior mean weights of the groups of the fit: (G, K), rows sum to 1."""
        self._check_fitted()
        if not hasattr(self, "group_counts_"):
            raise AttributeError("after fit_chunks no groups are kept: use transform on each chunk")
        return _weights(self.group_counts_.toarray(), self.alpha_)

    # ---- chunks ------------------------------------------------------------------------------------------------------

    @available_if(learns_groups)
    @with_whole_lines
    def partial_fit(
        self,
        X: Any,
        y: Any = None,
        *,
        groups: Any = None,
        sample_weight: npt.ArrayLike | None = None,
        batch: int | str | None = None,
        links: npt.ArrayLike | None = None,
    ) -> Self:
        """Learn one more chunk of whole groups.

        The chunk gets one local step, and all clusters one update.

        The first chunks resolve hyper-parameters left at ``"auto"`` and give the start, so they should look like the
        rest. They are kept until they have the rows that the search for a start looks at, at most some thousands. Until
        then learning begins again from all kept rows when these have grown by half: `predict` always works, but
        clusters may get other numbers. `save` ends this, and with a start of your own nothing is kept.

        After `fit` or `load` learning goes on from the statistics of the fit.

        Parameters
        ----------
        X : array_like or sparse matrix, shape (m, V)
        y : (m,) array_like, optional
            Where `groups` is not given, these are the groups.
        groups : (m,) array_like, Groups, or str
            Group of each row, as in `fit`, numbered anew in each chunk: the rows of a group must all be in one.
            Required.
        sample_weight : (m,) array_like of non-negative float, optional
            Multiplicity of each row.
        batch : int or str, optional
            Name of the chunk under a memoized schedule (the default). A chunk that comes again under its name replaces
            its earlier contribution; that of a chunk without a name is never replaced. A stochastic schedule takes no
            names.
        links : None
            Links are refused, with the line of `fit` that takes them.

        Returns
        -------
        self
            `labels_`, `group_counts_` and `group_weights_` are those of this chunk.

        Raises
        ------
        AttributeError
            Under sampling, which needs all groups at once.
        CapabilityError
            For settings of the sampler that changed since the first chunk, for links, and for `y` beside `labels`.

        Examples
        --------
        >>> import numpy as np
        >>> from expfam import GroupedMixture
        >>> rng, groups = np.random.default_rng(0), np.arange(40) % 4
        >>> mixture = GroupedMixture("poisson", 2, sampler="variational", random_state=0)
        >>> for _ in range(5):
        ...     mixture = mixture.partial_fit(rng.poisson([[1.0], [50.0]] * 20), groups=groups)
        >>> mixture.n_.round()
        array([100., 100.])
        """
        _refuse_links(self, links)
        _refuse_classes(self, y)
        X, _, groups = grouped_rows(X, groups, y)
        groups = as_groups(groups, X.shape[0] if hasattr(X, "shape") else len(X))
        options = {"groups": groups, "weight": sample_weight}
        learn(self, GROUPS, X, options, batch, is_first=not hasattr(self, "family_"))
        self._set_group_names(groups)
        return self

    @available_if(learns_groups)
    @with_whole_lines
    def fit_chunks(self, chunks: Iterable, y: Any = None) -> Self:
        """Fit to groups that come in chunks and are never held together.

        Parameters
        ----------
        chunks : iterable
            Tuples of rows and their groups, (X, groups) or (X, groups, sample_weight), each of whole groups. From an
            iterator, which gives each chunk once, one pass is made. From anything that can be gone through again, such
            as a list of memory maps with their groups, up to `n_steps` passes, until the bound has settled; the same
            chunks must then come in the same order.
        y : ignored

        Returns
        -------
        self
            Without `labels_`, `group_counts_` and `group_weights_`: use `predict` and `transform` on each chunk.

        Raises
        ------
        AttributeError
            Under sampling, which needs all groups at once.
        DataError
            When there is no chunk, or one has no groups.

        Notes
        -----
        Each chunk is a batch of the schedule, whatever its number of batches. Where a chunk comes again its groups
        begin with the weights that they had, so the bound never falls under `Full` and `Memoized`; for that what the
        rows of each group give each cluster is remembered, at most `n_active` numbers a row.

        Examples
        --------
        >>> import numpy as np
        >>> from expfam import GroupedMixture
        >>> rng, groups = np.random.default_rng(0), np.arange(40) % 4
        >>> chunks = [(rng.poisson([[1.0], [50.0]] * 20), groups) for _ in range(5)]
        >>> mixture = GroupedMixture("poisson", 2, sampler="variational", random_state=0).fit_chunks(chunks)
        >>> mixture.n_.round()
        array([100., 100.])
        """
        step_numbers(self)
        learn_all(self, GROUPS, chunks)
        return self

    def _model(self, family, known=None):
        K = self._check_components()
        if K is None:
            return unknown_model(self, family, known)
        return AdmixtureModel(family, K, alpha_or(self, _ALPHA / K))

    def _fitted_model(self):
        return AdmixtureModel(self.family_, len(self.alpha_), self.alpha_)

    def restore_stream(self, arrays: dict[str, Any]) -> GroupedStream:
        """Return the stream of chunks that `to_arrays` stored, for this mixture's clusters."""
        return GroupedStream.from_arrays(self._fitted_model(), self._kernel(), arrays)

    # ---- use ---------------------------------------------------------------------------------------------------------

    def transform(  # type: ignore[override]
        self, X: Any, groups: Any = None, *, rest: bool = False
    ) -> Any:
        """Return the weights of new groups of rows.

        Parameters
        ----------
        X : array_like or sparse matrix, shape (N, V)
        groups : (N,) array_like, Groups, or str
            Group of each row, as in `fit`; required. Groups are numbered by their sorted names in these data alone.
        rest : bool
            Where the number of clusters was unknown: add a last column with the weight of all clusters that are not
            listed. Otherwise it is spread over the clusters in proportion to their weights.

        Returns
        -------
        (G, K) float64 ndarray, or frame where `set_output` asks for one
            Rows sum to 1; of a group without rows they are the prior's. (G, K + 1) with `rest`.

        Notes
        -----
        The weights of a group and the clusters of its rows are updated in turn (coordinate ascent), under the posterior
        predictive densities of the clusters.
        """
        self._check_fitted()
        refuse_rest(self, rest, "transform(X, groups=groups)")
        X, groups = self._checked(X, groups)
        weights = self._weights_of_groups(X, groups, rest)
        asked = asked_output(self)
        if asked == "default":
            return weights
        names = [*self.get_feature_names_out(), *(["rest"] if rest else [])]
        frame = new_frame(dict(zip(names, weights.T)), backend=asked)
        if groups.names is not None and type(frame).__module__.startswith("pandas"):
            frame.index = list(groups.names)
        return frame

    def _weights_of_groups(self, X, groups, rest):
        """Return the weights of the clusters in new groups, on request with those not listed."""
        alpha = self._pseudocounts()
        weights = _weights(self._place(X, groups, alpha)[0], alpha)
        if rest or len(alpha) == len(self.alpha_):
            return weights
        return weights[:, :-1] / weights[:, :-1].sum(axis=1, keepdims=True)

    def fit_transform(self, X: Any, y: Any = None, *, groups: Any = None, **fit_params: Any) -> Any:
        """Fit, and return `transform` of the same rows: the weights of their groups.

        Parameters
        ----------
        X, y, groups
            As in `fit`: without `groups` and `labels`, `y` are the groups.
        **fit_params
            Further arguments of `fit`.

        Returns
        -------
        (G, K) float64 ndarray, or frame where `set_output` asks for one
        """
        y, groups = (None, y if groups is None else groups) if self.labels is None else (y, groups)
        return self.fit(X, y, groups=groups, **fit_params).transform(X, groups)

    def predict(self, X: Any, groups: Any = None) -> npt.NDArray[np.int32]:
        """Return the most probable cluster of each row of new groups, given all rows of its group.

        It is always a listed one, also of a row that a new cluster would explain better: ``transform(rest=True)`` tells
        what weight others have in the group.

        Parameters
        ----------
        X, groups
            As in `transform`.

        Returns
        -------
        (N,) int32 ndarray
        """
        X, groups = self._checked(X, groups)
        alpha = self._pseudocounts()
        counts, labels = self._place(X, groups, alpha)
        new = np.flatnonzero(labels == len(self.alpha_))  # rows of clusters that are not listed
        if new.size:
            mass = np.log(_weights(counts, alpha))[groups.of_row[new]]
            labels[new] = self._clusters().most_probable(X[new], mass=mass)
        return labels

    def predict_proba(self, X: Any, n_top: int | None = None, *, groups: Any = None) -> Any:
        """Return the probability of each cluster for each row of new groups.

        All rows of its group are given. Clusters that are not listed have a part in the weights of the group, and none
        in these probabilities, whose rows sum to 1.

        Parameters
        ----------
        X : array_like or sparse matrix, shape (N, V)
        n_top : int, optional
            Keep only this number of the largest probabilities of a row, in a CSR matrix whose rows then sum to less
            than 1.
        groups
            As in `transform`.

        Returns
        -------
        (N, K) float64 ndarray, or CSR array; a frame where `set_output` asks for one
        """
        rows, groups = self._checked(X, groups)
        return in_asked_form(self, X, self._clusters().probabilities(rows, n_top, mass=self._log_mass(rows, groups)))

    def predict_log_proba(self, X: Any, *, groups: Any = None) -> Any:
        """Return the log of the probability of each cluster for each row of new groups.

        It is finite also where a probability is too small for a float and `predict_proba` gives 0.

        Parameters
        ----------
        X : array_like or sparse matrix, shape (N, V)
        groups
            As in `transform`.

        Returns
        -------
        (N, K) float64 ndarray, nats; a frame where `set_output` asks for one
        """
        rows, groups = self._checked(X, groups)
        return in_asked_form(self, X, self._clusters().log_probabilities(rows, mass=self._log_mass(rows, groups)))

    def score(self, X: Any, y: Any = None, *, groups: Any = None) -> float:
        """Return the mean log predictive density of left-out rows of new groups.

        It is the density given the other rows of their group. Where the number of clusters was unknown, a new cluster
        counts as well, with the weight that ``transform(rest=True)`` gives the group and its density before any data.

        Parameters
        ----------
        X, groups
            As in `transform`. A fifth of the rows of each group, at least one, is left out by a fixed choice; groups of
            fewer than two rows are skipped.
        y : (N,) array_like, optional
            Where `groups` is not given, these are the groups.

        Returns
        -------
        float
            Nats a row, with log-base.

        Raises
        ------
        DataError
            If no group has two rows.
        """
        return float(self._held_densities(X, y if groups is None else groups)[0].mean())

    def score_error(  # type: ignore[override]
        self, X: Any, y: Any = None, *, groups: Any = None
    ) -> float:
        """Return the standard error of `score` of the same rows, nats.

        Groups are the units that are drawn: rows of one group share its weights, and their scores go together.

        Parameters
        ----------
        X, y, groups
            As in `score`.

        Raises
        ------
        DataError
            Fewer than two groups have two rows.
        """
        held, of_row = self._held_densities(X, y if groups is None else groups)
        _, units = np.unique(of_row, return_inverse=True)
        return error_of_mean(np.bincount(units, weights=held), np.bincount(units), unit="group")

    def _held_densities(self, X, groups, first_row=0):
        """Return log densities of left-out rows given the rest of their group, and their groups.

        `first_row` is the number of the first row among all, where these are whole groups among others.
        """
        X, groups = self._checked(X, groups)
        is_held = held_rows(groups, first_row=first_row)
        if not is_held.any():
            raise DataError("a score needs groups of at least two rows; there is none")
        is_seen = ~is_held & (groups.sizes >= 2)[groups.of_row]
        seen = Groups(groups.of_row[is_seen], n_groups=groups.n_groups)
        alpha, of_row = self._pseudocounts(), groups.of_row[is_held]
        log_weights = np.log(_weights(self._place(X[is_seen], seen, alpha)[0], alpha))
        return self._scored().log_densities(X[is_held], mass=log_weights[of_row]), of_row

    def score_samples(  # type: ignore[override]
        self, X: Any, groups: Any = None, given: Any = None
    ) -> npt.NDArray[np.float64]:
        """Return the log predictive density of each row under the weights of its group: (N,) nats.

        Parameters
        ----------
        X, groups
            As in `transform`. The weights of a group come from all its rows, so a row has a part in its own score;
            `score` leaves rows out. A new cluster counts as in `score`.
        given : str, int or sequence of them, optional
            Names or numbers of columns: the density is then that of the other columns given these, and weights come
            from these alone.
        """
        if given is None:
            X, groups = self._checked(X, groups)
            return self._scored().log_densities(X, mass=self._log_mass(X, groups))
        self._check_fitted()
        X, _, groups = grouped_rows(X, groups)

        def mass_of(rows, *about):
            return self._log_mass(rows, as_groups(groups, rows.shape[0]), *about)

        return conditional_scores(self._scored(), self, X, given, mass_of)

    def impute(self, X: Any, draws: int | None = None, *, groups: Any = None) -> Any:
        """Return rows with their missing cells filled, given their other cells and their group.

        Parameters
        ----------
        X : frame or (N, V) array_like
            Cells that are there stay as they are, and so do columns that the fit left out.
        draws : int, optional
            Return this many draws of the missing cells: of a cluster, of its parameter and then of the cells.
        groups : (N,) array_like, Groups, or str
            Group of each row, as in `fit`; required. Groups are numbered by their sorted names in these data alone.

        Returns
        -------
        frame or ndarray, or a list of `draws` of them
            As `Mixture.impute` returns them.
        """
        self._check_fitted()
        X, _, groups = grouped_rows(X, groups)
        return self._imputed(X, draws, lambda rows: self._log_mass(rows, as_groups(groups, rows.shape[0])))

    # ---- fewer clusters ----------------------------------------------------------------------------------------------

    def coarsen(
        self,
        n_clusters: int | None = None,
        robust: float | None = None,
        X: Any = None,
        *,
        groups: Any = None,
        tree: Literal["cost", "known"] | None = None,
        overlap: float | None = None,
    ) -> Self:
        """Return a new fitted mixture with fewer clusters, those of this one merged, in all groups.

        Without arguments the result has the groups of clusters that halves of the rows find again.

        Parameters
        ----------
        n_clusters, robust, tree, overlap
            As in `Mixture.coarsen`: at most one of the first two and `overlap`.
        X, groups : array_like, optional
            Rows to label and their groups, as in `transform`; also for a model without rows of its own.

        Returns
        -------
        GroupedMixture
            Statistics, pseudo-counts and counts of groups are sums over the merged clusters; `n_components` is their
            number where it was given. `labels_` are those of this mixture, renamed, where it has any and `X` is not
            given. `log_joint_` is NaN where clusters were merged.

        Raises
        ------
        ValueError, DataError
            As `Mixture.coarsen` raises them.

        Notes
        -----
        Clusters are merged by what their rows are, whatever their groups: halves are fitted as mixtures of the rows
        without groups, and the merges of `coarsening_` cost least of the log joint of such a mixture.

        Examples
        --------
        >>> import numpy as np
        >>> from expfam import GroupedMixture
        >>> rng, groups = np.random.default_rng(0), np.arange(240) % 8
        >>> X = rng.normal(size=(240, 2)) + 9.0 * rng.integers(0, 3, size=(240, 1))
        >>> mixture = GroupedMixture("gaussian_diag", 6, random_state=0).fit(X, groups=groups)
        >>> mixture.coarsen(n_clusters=3).group_weights_.shape
        (8, 3)
        """
        self._check_fitted()
        if (X is None) != (groups is None):
            raise ValueError("coarsen: rows and groups come together: write coarsen(X=X, groups=groups)")
        return coarser(self, X, groups=groups, n_clusters=n_clusters, robust=robust, overlap=overlap, tree=tree)

    @property
    @made_on_use
    def coarsening_curve_(self) -> CoarseningCurve:
        """Agreement of halves of the rows on every cut, and the answer of `coarsen()`."""
        self._check_fitted()
        return curve_of_fit(self)

    @property
    @made_on_use
    def coarsening_(self) -> npt.NDArray[np.float64]:
        """All merges of the clusters as SciPy's linkage matrix: (K - 1, 4) float64."""
        self._check_fitted()
        return merges_of(self).tree

    def _summary_parts(self):
        return groups_text(self), super()._summary_parts()[1]

    # ---- inside ------------------------------------------------------------------------------------------------------

    def _log_mass(self, X, groups, family=None, columns=None):
        """Return the log weights of all clusters for each row; other names as in `_place`."""
        alpha = self._pseudocounts()
        return np.log(_weights(self._place(X, groups, alpha, family, columns)[0], alpha))[groups.of_row]

    def _pseudocounts(self):
        """Return pseudo-counts: of an unknown number the last one is of all that are not listed."""
        return np.append(self.alpha_, rest_pseudocount(self)) if hasattr(self, "rest_") else self.alpha_

    def _clusters(self):
        """Return the clusters, with their weights in a group of which nothing is known."""
        read = {"sizes": self.cluster_sizes_, "weights": self.weights_}
        alpha = self._pseudocounts()
        log_weights = np.log(alpha / alpha.sum())
        return clusters_of_fit(self, self.n_, self.S_, log_weights=log_weights, **read)

    @property
    @made_on_use
    def weights_(self) -> npt.NDArray[np.float64]:
        """Return the share of each cluster of all rows of the fit: (K,)."""
        self._check_fitted()
        return self.n_ / self.n_.sum()

    @property
    @made_on_use
    def n_components_(self) -> int:
        """Return the number of clusters that hold data; others are listed with a size of 0."""
        self._check_fitted()
        return int(np.count_nonzero(self.cluster_sizes_))

    def _checked(self, X, groups):
        self._check_fitted()
        X, _, groups = grouped_rows(X, groups)
        X = self._validate(X, reset=False)
        return X, as_groups(groups, X.shape[0])

    def _log_densities(self, data, reduce):
        """Reduce blocks of log predictive densities; the last column is that of no cluster."""
        clusters = loaded_clusters(self, self.family_, self.n_, self.S_)
        return clusters.each_block(data, np.zeros(len(self.n_) + 1), reduce, n_threads=self.n_threads)

    def _place(self, X, groups, alpha, family=None, columns=None):
        """Return expected rows of each group in each cluster (G, K), and labels of rows (N,).

        `columns` are the columns of phi that `family` has of those of the fit, all by default. `alpha` has one number
        more than there are clusters where the last one stands for clusters without rows. Rows without a cell are not
        counted: they tell nothing of weights, which expected counts of them would narrow.
        """
        blank, family = _blank_rows(X), self.family_ if family is None else family
        if not len(blank):
            return self._place_told(X, groups, alpha, family, columns)
        opened_data(X, family, names=names_of_fit(self))  # refuses cells that must not be missing
        told = np.ones(X.shape[0], dtype=bool)
        told[blank] = False
        part = _without(groups, told)
        counts, labels = np.zeros((groups.n_groups, len(alpha))), np.zeros(X.shape[0], dtype=np.int32)
        if told.any():
            counts, labels = self._place_told(X, part, alpha, family, columns)
        labels[blank] = (counts + alpha).argmax(axis=1)[groups.of_row[blank]]
        return counts, labels

    def _place_told(self, X, groups, alpha, family, columns):
        """Return what `_place` does, of rows that have cells."""
        is_in_order = len(groups.rows) == X.shape[0] and (groups.rows == np.arange(X.shape[0])).all()
        S = self.S_ if columns is None else self.S_[:, columns]
        names = names_of_fit(self)
        try:
            # data on a disk stay there where they are in order
            data, S = opened_rows(X if is_in_order else X[groups.rows], family, self.n_, S, names=names)
        except DataError:
            opened_data(X, family, names=names)  # its error has the numbers of the rows as they were given
            raise
        K = len(alpha)
        components = _densities(data, *_with_empty(self.n_, S, K - len(self.n_)))
        counts, labels = np.zeros((groups.n_groups, K)), np.empty(X.shape[0], dtype=np.int32)
        starts, most = groups.starts.astype(np.int64), max(16, _SCORES // K)

        def place(first, stop):
            here = _Turns(components, groups.rows, starts[first : stop + 1], alpha, most)
            counts[first:stop], labels[groups.rows[starts[first] : starts[stop]]] = here.run()

        run(place, _whole_groups(starts, most), 1 if components.needs_gil else self.n_threads)
        return counts, labels

    # ---- scikit-learn ------------------------------------------------------------------------------------------------

    def __sklearn_is_fitted__(self):
        return hasattr(self, "alpha_")

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags._skip_test = True  # the common checks bring no groups
        return tags


def _blank_rows(X):
    """Return the rows of which every cell is missing: (M,) int."""
    if sparse.issparse(X) or X.dtype.kind != "f":
        return np.empty(0, dtype=np.intp)
    found = np.flatnonzero(np.isnan(X[:, 0]))
    return found[np.isnan(X[found]).all(axis=1)]


def _without(groups, told):
    """Return the groups without rows that are not `told`; all rows keep their numbers."""
    part = copy(groups)
    part.rows = groups.rows[told[groups.rows]]
    part.starts = np.append(0, np.cumsum(np.bincount(groups.of_row[told], minlength=groups.n_groups))).astype(np.intp)
    return part


def _with_empty(n, S, n_empty):
    """Return statistics with those of some clusters without rows at their end."""
    if not n_empty:
        return n, S
    empty = np.zeros((n_empty, S.shape[1]))
    S = sparse.vstack([S, sparse.csr_array(empty)]).tocsr() if sparse.issparse(S) else np.vstack([S, empty])
    return np.append(n, np.zeros(n_empty)), S


def _densities(data, n, S):
    """Return what scores the rows of data under clusters."""
    if not data.family.is_compiled and data.family.allows_missing:
        return _OfRowsWithHoles(data, n, S)
    components = Components(data.family, data, len(n))
    components.load(n, S)
    return components


class _OfRowsWithHoles:
    """Densities of rows that lack cells, by a family without statistics of such rows."""

    needs_gil = True

    def __init__(self, data, n, S):
        self.data, self.n, self.S = data, n, S

    def log_predictive_block(self, start, stop, n_clusters):
        return self.data.family.log_predictive(self.data.X[start:stop], self.n, self.S)


class _Turns:
    """Coordinate ascent of the weights of some groups and their rows, at fixed densities."""

    def __init__(self, components, rows, starts, alpha, most_rows):
        self.components, self.rows, self.starts, self.alpha = components, rows, starts, alpha
        self.most_rows = most_rows
        self.K, self.n_groups = len(alpha), len(starts) - 1
        self.work, self.scratch = np.empty(self.K + work_size(self.K)), np.empty(4 * self.K + work_size(self.K))
        self.counters = np.zeros(3, dtype=np.int64)

    def run(self):
        """Return counts (g, K) and labels of the rows."""
        start, stop = self.starts[0], self.starts[-1]
        counts = np.diff(self.starts)[:, None] * (self.alpha / self.alpha.sum())
        if stop - start <= self.most_rows:
            return counts, self._turn(start, stop, self.starts - start, counts, _ITERATIONS)
        labels = np.empty(stop - start, dtype=np.int32)  # one long group: its densities are computed at every turn
        for _ in range(_ITERATIONS):
            total = np.zeros_like(counts)
            for first in range(start, stop, self.most_rows):
                end, part = min(stop, first + self.most_rows), counts.copy()
                ends = np.array([0, end - first], dtype=np.int64)
                labels[first - start : end - start] = self._turn(first, end, ends, part, 1)
                total += part
            change, counts = abs(total - counts).max(), total
            if change <= _TOLERANCE:
                break
        return counts, labels

    def _turn(self, first, stop, starts, counts, n_iterations):
        m = stop - first
        if m == 0:
            return np.empty(0, dtype=np.int32)
        scores = self.components.log_predictive_block(first, stop, self.K)
        shares, labels, entropy = np.empty((m, self.K)), np.empty((m, 1), dtype=np.int32), np.empty(m)
        buffers = (shares, labels, entropy, n_iterations, _TOLERANCE, 0, 1, self.work, self.scratch, self.counters)
        bad = group_step(scores, starts, None, self.alpha, counts, *buffers)
        if bad >= 0:
            raise SupportError(f"row {self.rows[first + bad]} has no finite density under any cluster")
        return labels[:, 0]


class _Average:
    """Callback that averages statistics, counts of groups and pseudo-counts over sweeps.

    Variational inference has its last ones in place of averages.
    """

    def __init__(self):
        self.total, self.n_kept, self.n_seen = None, 0, 0

    def __call__(self, info, state):
        self.n_seen += 1
        if self.n_seen % _KEEP_EVERY == 0:
            self._keep(state)
        return False

    def _keep(self, state):
        parts = [*state.statistics(), state.group_counts().astype(np.float64), state.model.pseudocounts]
        self.total = parts if self.total is None else [a + b for a, b in zip(self.total, parts)]
        self.n_kept += 1

    def means(self, state):
        """Return counts, sums, counts of groups and pseudo-counts."""
        if hasattr(state, "posterior"):
            return state.n.copy(), soft_sums(state), state.group_counts(), state.model.pseudocounts
        if self.n_kept == 0:
            self._keep(state)
        n, S, counts, alpha = (part / self.n_kept for part in self.total)
        if sparse.issparse(S) and not state.data.has_sparse_phi:
            S = S.toarray()
        return n, S, sparse.csr_array(counts), alpha


def _refuse_links(mixture, links):
    if links is not None:
        raise CapabilityError(
            "GroupedMixture.partial_fit cannot use links, which need Gibbs sampling of all groups at once: write"
            f" {line_of(mixture, sampler='gibbs')}.fit(X, groups=groups, links=links)"
        )


def _refuse_classes(mixture, y):
    if mixture.labels is not None and y is not None:
        raise CapabilityError(
            f"GroupedMixture.partial_fit cannot use labels={mixture.labels!r}: write"
            f" {line_of(mixture)}.fit(X, y, groups=groups)"
        )


def held_rows(
    groups: Groups, *, share: float = _HELD_SHARE, seed: int = 0, first_row: int = 0
) -> npt.NDArray[np.bool_]:
    """Return which rows to leave out of each group: (N,) bool, none of groups of one row.

    Parameters
    ----------
    groups : Groups
    share : float in (0, 1)
        Share of the rows of a group. It is rounded for each group, with at least one row on each side.
    seed : int
    first_row : int
        Number of the first row, where whole groups are among others. The rows that are left out are the same as
        together with the others.

    Examples
    --------
    >>> from expfam.estimators.grouped import held_rows
    >>> from expfam.model.groups import Groups
    >>> held_rows(Groups([0, 0, 0, 0, 0, 1])).sum()
    np.int64(1)
    """
    sizes = groups.sizes
    draws = generator(seed, "subsample").random(first_row + len(groups.of_row))[first_row:]
    order = np.lexsort((draws, groups.of_row))
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order)) - np.repeat(groups.starts[:-1], sizes)
    n_held = np.where(sizes >= 2, np.clip(np.round(share * sizes), 1, np.maximum(sizes - 1, 1)), 0)
    return rank < n_held[groups.of_row]


def _whole_groups(starts, most):
    """Return ranges of groups (first, stop) with at most `most` rows and groups.

    A larger group has a range of its own. Ranges depend on sizes alone.
    """
    tasks, first, G = [], 0, len(starts) - 1
    while first < G:
        stop = int(np.searchsorted(starts, starts[first] + most, side="right")) - 1
        stop = min(G, max(stop, first + 1), first + most)
        tasks.append((first, stop))
        first = stop
    return tasks


def _weights(counts, alpha):
    counts += alpha
    return counts / counts.sum(axis=1, keepdims=True)
