"""`GroupedMixture`: a mixture of rows in groups, in the conventions of scikit-learn.

A fitted model is a bound family, statistics of the clusters and pseudo-counts of clusters in groups, whichever sampler
found them; weights of new groups, labels, scores and saved files need no more than these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
from sklearn.base import ClusterMixin
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.metaestimators import available_if

from expfam.errors import CapabilityError, DataError
from expfam.estimators.arguments import with_whole_lines
from expfam.estimators.base import (
    Estimator,
    step_numbers,
)
from expfam.estimators.chunks import learn, learn_all
from expfam.estimators.coarsen import coarser, curve_of_fit, groups_text, merges_of
from expfam.estimators.family_estimator import FamilyEstimator, conditional_scores
from expfam.estimators.group_names import grouped_rows
from expfam.estimators.grouped_chunks import GROUPS, learns_groups
from expfam.estimators.grouped_plan import asked_of_groups, kernel_of_groups, planned_groups
from expfam.estimators.grouped_results import adopt_rows, adopt_run, run_plan, set_group_names
from expfam.estimators.lines import line_of
from expfam.estimators.loaded import clusters_of_fit, keep_rows, names_of_fit
from expfam.estimators.resumed import kept_fit, seeded_fit
from expfam.estimators.row_results import asked_output, in_asked_form
from expfam.estimators.unknown_numbers import refuse_rest, rest_pseudocount
from expfam.evaluation.held_out import held_rows
from expfam.evaluation.mean_error import error_of_mean
from expfam.fitted.new_groups import ClustersOfGroups, group_weights
from expfam.frames.new_frames import new_frame
from expfam.lazy import made_on_use
from expfam.model.admixture import AdmixtureModel
from expfam.model.groups import Groups, as_groups
from expfam.samplers.grouped.gibbs import GroupedGibbs
from expfam.samplers.grouped.stream import GroupedStream
from expfam.samplers.grouped.variational import GroupedVariational
from expfam.samplers.shards.grouped_gibbs import GroupedUncollapsedGibbs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Self

    from expfam.coarsening.curve import CoarseningCurve
    from expfam.families.base import Family


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
    sampler : str, GroupedGibbs, GroupedUncollapsedGibbs or GroupedVariational
        "auto", "gibbs" (repeated values as they are) and, on threads, "uncollapsed_gibbs" sample; or "variational".
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
        sampler: str | GroupedGibbs | GroupedUncollapsedGibbs | GroupedVariational = "auto",
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
        with seeded_fit(self, resume):
            plan = planned_groups(self, X, y, groups, sample_weight, links)
        with kept_fit(self, resume, plan.data, plan.seed):
            run = run_plan(self, plan)
            adopt_run(self, plan, run)
        adopt_rows(self, plan, run)
        keep_rows(self, plan.every, self._labels, seed=plan.seed)
        self.__dict__.pop("stream_", None)
        return self

    @property
    @made_on_use
    def group_weights_(self) -> npt.NDArray[np.float64]:
        """Return the posterior mean weights of the groups of the fit: (G, K), rows sum to 1."""
        self._check_fitted()
        if not hasattr(self, "group_counts_"):
            raise AttributeError("after fit_chunks no groups are kept: use transform on each chunk")
        return group_weights(self.group_counts_.toarray(), self.alpha_)

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
        set_group_names(self, groups)
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

    def _asked(self):
        """Return what is asked of a mixture of the rows without their groups."""
        return asked_of_groups(self)

    def _fitted_model(self):
        return AdmixtureModel(self.family_, len(self.alpha_), self.alpha_)

    def restore_stream(self, arrays: dict[str, Any]) -> GroupedStream:
        """Return the stream of chunks that `to_arrays` stored, for this mixture's clusters."""
        return GroupedStream.from_arrays(self._fitted_model(), kernel_of_groups(self), arrays)

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
        weights = self._of_groups().weights(X, groups)
        if rest or weights.shape[1] == len(self.alpha_):
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
        found = self._of_groups()
        counts, labels = found.place(X, groups)
        new = np.flatnonzero(labels == len(self.alpha_))  # rows of clusters that are not listed
        if new.size:
            mass = np.log(group_weights(counts, found.alpha))[groups.of_row[new]]
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
        of_row, log_weights = groups.of_row[is_held], np.log(self._of_groups().weights(X[is_seen], seen))
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
        """Return the log weights of all clusters for each row.

        `columns` are the columns of phi that `family` has of those of the fit, all by default.
        """
        clusters = self._of_groups()
        if family is not None:
            clusters = clusters._replace(family=family)
        if columns is not None:
            clusters = clusters._replace(S=self.S_[:, columns])
        return clusters.log_mass(X, groups)

    def _of_groups(self):
        """Return the clusters, with the prior of their weights in a new group."""
        alpha, names = self._pseudocounts(), names_of_fit(self)
        return ClustersOfGroups(self.family_, self.n_, self.S_, alpha, names, self.n_threads)

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

    # ---- scikit-learn ------------------------------------------------------------------------------------------------

    def __sklearn_is_fitted__(self):
        return hasattr(self, "alpha_")

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags._skip_test = True  # the common checks bring no groups
        return tags


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
