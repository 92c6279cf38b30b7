"""`Mixture`: a Bayesian mixture in the conventions of scikit-learn.

A fitted mixture is its bound family, its weights and the statistics (n, S) of a partition, whichever sampler found it.
Prediction, scores and saved files need no more than these: their size does not depend on N.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
from sklearn.base import ClusterMixin, DensityMixin
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.metaestimators import available_if

from expfam.estimators.arguments import with_whole_lines
from expfam.estimators.classes import line_with_classes, most_probable_class
from expfam.estimators.coarsen import coarser, curve_of_fit, groups_text, merges_of
from expfam.estimators.family_estimator import (
    FamilyEstimator,
    densities_under,
    log_probabilities_under,
    probabilities_under,
)
from expfam.estimators.loaded import clusters_of_fit, keep_rows
from expfam.estimators.mixture_chunks import learn_all_rows, learn_rows, learns_chunks, restored_stream
from expfam.estimators.mixture_plan import asked_of, planned_fit
from expfam.estimators.mixture_results import (
    adopt_runs,
    answering_clusters,
    no_posterior,
    posterior_of_draws,
    take_all_columns,
    warn_of_runs,
)
from expfam.estimators.resumed import kept_fit, seeded_fit
from expfam.fitting.chains import run_chains
from expfam.lazy import made_on_use

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Self

    from expfam.coarsening.curve import CoarseningCurve
    from expfam.evaluation.posterior import PartitionPosterior
    from expfam.families.base import Family
    from expfam.fitting.plan import Asked, Plan
    from expfam.protocols import Weights
    from expfam.samplers.chain.kernel import Kernel
    from expfam.samplers.variational.stream import VariationalStream


class Mixture(ClusterMixin, DensityMixin, FamilyEstimator):
    """Bayesian mixture of any exponential family, sampled from its exact posterior.

    The page docs/settings.md says what "auto" stands for in each setting, and more about each result.

    Parameters
    ----------
    family : str or Family
        Name of a family, one with settings, or "auto": by the data, of a table by the role of each column.
    n_components, weights : int or None, Weights or None
        Number of clusters; None if it is open, under a Dirichlet process; or another prior of the mixture weights.
    sampler : str or Kernel
        "auto", which is exact; the name of another one, such as "variational" for chunks and weights; or a kernel.
    n_steps, n_warmup : int or "auto"
        Steps that count, and steps before them; "auto": until the log joint has stopped rising.
    n_chains, n_draws : int, int or "auto"
        Number of chains, and of draws of the partition that they keep together for `posterior_`.
    learn_hyper : bool or "auto"
        Learn hyper-parameters of the family: all, none, or those left at "auto".
    start : str, (N,) array_like of int, or list of these
        First labels or the name of a start, one for each chain; "auto" searches one.
    partition : {"mode", "vi", "binder", "omari", "last"}
        What becomes `labels_`: the best draw, taken uphill; the partition of least expected loss; the last draw.
    labels : {None, "clusters", "classes"}
        Classes `y` of rows are ignored, or each one is one cluster, or it is one or more clusters.
    n_threads, random_state, callbacks, memory_limit, time_limit
        Threads (-1: all cores), seed, functions ``callback(info, state)`` called after each step or "progress" for a
        progress bar, and bytes and seconds that a fit may need, also as text such as "4GB" and "10min".

    Attributes
    ----------
    labels_, probabilities_ : (N,) int32 and float32 ndarrays
        Cluster of each row by first appearance, and its probability.
    n_components_, n_clusters_ : int
        Clusters that hold data.
    cluster_sizes_, weights_ : (K,) ndarrays
        Rows of each cluster, or sums of their weights; probability of each for a new row.
    params_, clusters_ : dict of (K, ...) ndarrays, frame
        Parameters by name; a table of sizes, means and modes in the units of the data.
    log_joint_, converged_, n_iter_, interrupted_ : float, bool, int, bool
        Log joint of `labels_` and data; whether it was level at the end; steps; whether Ctrl-C ended them.
    posterior_ : PartitionPosterior
        How sure labels and number of clusters are; with `n_draws`, several chains, or a `partition` of least loss.
    family_, model_, n_, S_, trace_, roles_
        Bound family and model, statistics, numbers of each step; roles of the columns of a table. Further results are
        `classes_`, `cluster_classes_`, `doubtful_known_`, `likelier_classes_`, `coarsening_`, `coarsening_curve_`.

    See Also
    --------
    GroupedMixture, TopicModel, BayesianHierarchy : rows in groups; words of documents; a tree of clusters.

    Examples
    --------
    >>> import pandas as pd
    >>> from expfam import Mixture
    >>> job = ["cook", "cook", "nurse", "none", "none", "none"]
    >>> table = pd.DataFrame({"age": [30.5, 31.2, 29.9, 70.1, None, 72.4] * 9, "job": job * 9})
    >>> print(Mixture(n_components=2, random_state=0).fit(table).clusters_[["size", "age", "job"]].round(0))
       size   age   job
    0    27  31.0  cook
    1    27  71.0  none
    """

    default_steps = 50
    ends_by_rule = True
    saved_kind = "mixture"
    fit_predict = FamilyEstimator.fit_predict  # that of scikit-learn drops y
    score = FamilyEstimator.score  # that of scikit-learn computes nothing
    no_components = "a Dirichlet process"

    __metadata_request__fit = {"resume": UNUSED}  # noqa: RUF012 - of this call alone

    def __init__(
        self,
        family: str | Family = "auto",
        n_components: int | None = None,
        *,
        weights: Weights | None = None,
        sampler: str | Kernel = "auto",
        n_steps: int | Literal["auto"] = "auto",
        n_warmup: int | Literal["auto"] = "auto",
        n_chains: int = 1,
        n_draws: int | Literal["auto"] = "auto",
        learn_hyper: bool | Literal["auto"] = "auto",
        start: Any = "auto",
        partition: Literal["mode", "vi", "binder", "omari", "point", "last"] = "mode",
        labels: Literal["clusters", "classes"] | None = None,
        n_threads: int | None = None,
        random_state: Any = None,
        callbacks: Sequence[Callable] | Literal["progress"] | None = None,
        memory_limit: float | str | None = None,
        time_limit: float | str | None = None,
    ) -> None:
        self.family, self.n_components, self.weights, self.sampler = family, n_components, weights, sampler
        self.n_steps, self.n_warmup, self.n_chains, self.n_draws = n_steps, n_warmup, n_chains, n_draws
        self.learn_hyper, self.start, self.partition, self.labels = learn_hyper, start, partition, labels
        self.n_threads, self.random_state, self.callbacks = n_threads, random_state, callbacks
        self.memory_limit, self.time_limit = memory_limit, time_limit

    # ---- fitting ----------------------------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: npt.ArrayLike | None = None,
        *,
        links: npt.ArrayLike | None = None,
        resume: Any = None,
    ) -> Self:
        """Sample the posterior of the partition and keep one partition with its statistics.

        Parameters
        ----------
        X : array_like, sparse matrix or sequence of documents, shape (N, V)
            Words of documents, texts or lists of tokens, are counted; `vectorizer_` counts those of new ones.
            A memory map of float32 or float64 (``np.load(path, mmap_mode="r")``) is read where it lies.
        y : (N,) array_like, optional
            Class of each row: integers, -1 where it is not known, or names, None or NaN where it is not known. It is
            used as `labels` says.
        sample_weight : (N,) array_like of non-negative float, optional
            Multiplicity of each row, for the samplers ``"variational"`` and ``"em"``; others take no weights but 1.
            Clusters, hyper-parameters and the starts ``"auto"``, ``"kmeans"`` and ``"kmeans++"`` are those of the rows
            repeated. Rows of weight 0 have no influence; they are left out of a copy of the others, and get their most
            probable cluster at the end.
        links : (N,) array_like of int, optional
            Rows with an equal number of at least 0 are in one cluster; -1 for rows without a link. `link_groups` makes
            them from pairs of rows.
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
            plan = self.plan_fit(X, y, sample_weight, links=links)
        return self.fit_plan(plan, resume=resume)

    def fit_plan(self, plan: Plan, *, resume: Any = None) -> Self:
        """Run a plan of `plan_fit`, made with the same settings; `fit` calls both methods.

        Parameters
        ----------
        plan : Plan
            Result of `plan_fit`.
        resume : path-like, optional
            As in `fit`.

        Returns
        -------
        Mixture
            The estimator itself.
        """
        part = plan.of_free_columns()
        with kept_fit(self, resume, part.seen, plan.seed):
            runs = run_chains(part)
        adopt_runs(self, part, runs)
        warn_of_runs(self, part, runs)
        if plan.free is not None:
            take_all_columns(self, plan.whole, plan.free)
        self.__dict__.pop("stream_", None)
        keep_rows(self, plan.whole, self._labels, seed=plan.seed)
        return self

    def plan_fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, links: Any = None) -> Plan:
        """Return what `fit` is going to do with the same arguments.

        All that can be refused is refused here.

        Parameters
        ----------
        X, y, sample_weight, links
            As in `fit`.

        Returns
        -------
        Plan
            Model, kernel, starts, numbers of steps, seed; `Plan.forecast` tells the memory. `fit_plan` runs it.

        Examples
        --------
        >>> from expfam import Mixture
        >>> mixture = Mixture("poisson", 2, n_steps=5, random_state=0)
        >>> plan = mixture.plan_fit([[1, 0], [0, 2], [40, 50], [44, 47]])
        >>> plan.n_steps, mixture.fit_plan(plan).n_components_
        (5, 2)
        """
        return planned_fit(self, X, y, sample_weight, links)

    def _asked(self, family: Family | None = None) -> Asked:
        """Return what is asked of a fit, whatever its data."""
        return asked_of(self, self._family() if family is None else family)

    @property
    @made_on_use
    def posterior_(self) -> PartitionPosterior:
        """Posterior of the partition, of the draws that were kept; its readings are about `labels_`.

        Raises
        ------
        AttributeError
            No draws were kept: the message says why, and what to do.
        """
        self._check_fitted()
        if not hasattr(self, "_draws"):
            raise AttributeError(no_posterior(self))
        if not hasattr(self, "_posterior_of_draws"):
            self._posterior_of_draws = posterior_of_draws(self).about(self._labels)
        return self._posterior_of_draws

    # ---- chunks ----------------------------------------------------------------------------------------------------

    @available_if(learns_chunks)
    @with_whole_lines
    def partial_fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: npt.ArrayLike | None = None,
        *,
        batch: int | str | None = None,
        classes: npt.ArrayLike | None = None,
        links: npt.ArrayLike | None = None,
    ) -> Self:
        """Learn one more chunk of data: one local step, one update.

        The first chunks resolve hyper-parameters left at ``"auto"`` and give the start, so they should look like the
        rest. They are kept until they have the rows that the search for a start looks at, at most some thousands. Until
        then learning begins again from all kept rows when these have grown by half: `predict` always works, but
        clusters may get other numbers. `save` ends this, and with a start of your own nothing is kept.

        After `fit` or `load` learning goes on from the statistics of the fit.

        Parameters
        ----------
        X : array_like or sparse matrix, shape (m, V)
        y : (m,) array_like, optional
            Class of each row as in `fit`, under ``labels="clusters"``.
        sample_weight : (m,) array_like of non-negative float, optional
            Multiplicity of each row.
        batch : int or str, optional
            Name of the chunk under a memoized schedule (the default). A chunk that comes again under its name replaces
            its earlier contribution; that of a chunk without a name is never replaced. A stochastic schedule takes no
            names.
        classes : (C,) array_like, optional
            All classes; the first chunk needs them if its `y` lacks some.
        links : (m,) array_like of int, optional
            Rows of this chunk with the same number of 0 or more belong together, as in `fit`; -1 is a row alone. Rows
            of other chunks with the same number are other rows.

        Returns
        -------
        self
            `labels_` are those of this chunk. `cluster_sizes_` are the expected numbers of rows of all chunks, rounded,
            or the expected sums of their weights where weights were given.

        Raises
        ------
        AttributeError
            Under samplers that need all data at once.
        CapabilityError
            For settings of the sampler that changed since the first chunk.

        Examples
        --------
        >>> import numpy as np
        >>> from expfam import Mixture
        >>> rng = np.random.default_rng(0)
        >>> mixture = Mixture("poisson", 2, sampler="variational", random_state=0)
        >>> for _ in range(5):
        ...     mixture = mixture.partial_fit(rng.poisson([[1.0], [50.0]] * 20))
        >>> mixture.cluster_sizes_
        array([100, 100])
        """
        learn_rows(self, X, y, sample_weight, batch=batch, classes=classes, links=links)
        return self

    @available_if(learns_chunks)
    @with_whole_lines
    def fit_chunks(self, chunks: Iterable, y: Any = None, *, classes: npt.ArrayLike | None = None) -> Self:
        """Fit to data that come in chunks and are never held together.

        Parameters
        ----------
        chunks : iterable
            Arrays or sparse matrices of rows, or pairs of one and its ``sample_weight`` as a tuple; under
            ``labels="clusters"`` tuples of rows and `y`, or of rows, `y` and ``sample_weight``. With links a chunk is a
            tuple of rows, `y`, ``sample_weight`` and the `links` of `partial_fit`; `y` and ``sample_weight`` may be
            None. From an iterator, which gives each chunk once, one pass is made. From anything that can be gone
            through again, such as a list of memory maps, up to `n_steps` passes, until the bound has settled; the same
            chunks must then come in the same order.
        y : ignored
        classes : (C,) array_like, optional
            All classes, if the first chunk may lack some.

        Returns
        -------
        self
            Without `labels_`: use `predict` on each chunk. `cluster_sizes_` are those that `partial_fit` gives.

        Raises
        ------
        AttributeError
            Under samplers that need all data at once.
        DataError
            When there is no chunk.

        Notes
        -----
        Each chunk is a batch of the schedule, whatever its number or size of batches; under `Full` there is one update
        a pass and nothing is remembered of a chunk. A stochastic schedule takes the number of rows that the stream
        stands for from its `n_total`.

        Examples
        --------
        >>> import numpy as np
        >>> from expfam import Mixture
        >>> rng = np.random.default_rng(0)
        >>> chunks = [rng.poisson([[1.0], [50.0]] * 20) for _ in range(5)]
        >>> Mixture("poisson", 2, sampler="variational", random_state=0).fit_chunks(chunks).cluster_sizes_
        array([100, 100])
        """
        learn_all_rows(self, chunks, classes)
        return self

    def restore_stream(self, arrays: dict[str, Any]) -> VariationalStream:
        """Return the stream of chunks that `to_arrays` stored, for this mixture's model and sampler."""
        return restored_stream(self, arrays)

    # ---- results ----------------------------------------------------------------------------------------------------

    def _clusters(self):
        with np.errstate(divide="ignore"):
            log_weights = np.append(np.log(self.weights_), self.log_weight_new_)
        read = {"sizes": getattr(self, "cluster_sizes_", self.n_), "weights": self.weights_}
        return clusters_of_fit(self, self.n_, self.S_, log_weights=log_weights, **read)

    def predict_proba(self, X: Any, n_top: int | None = None, *, average: bool = True) -> Any:
        """Return the probability of each existing cluster for each row.

        Parameters
        ----------
        X : array_like, sparse matrix or frame, shape (N, V)
        n_top : int, optional
            Keep only this number of the largest probabilities of a row, in a CSR matrix whose rows then sum to less
            than 1; memory N n_top in place of N K.
        average : bool
            Take the mean over the draws of the partition, where the fit has kept some (`n_draws`, `n_chains`): a row in
            a drawn cluster belongs to the clusters of `labels_` as the rows of this cluster do. At most 20 draws are
            used, and the call takes as many times as long. False, and without draws: the clusters of `labels_` alone,
            as in `predict`.

        Returns
        -------
        (N, K) float64 ndarray, or CSR array; a frame where `set_output` asks for one
        """
        self._check_fitted()
        return probabilities_under(answering_clusters(self, average), self, X, n_top)

    def predict_log_proba(self, X: Any) -> Any:
        """Return the log of the probability of each existing cluster for each row.

        Without draws it is finite also where a probability is too small for a float and `predict_proba` gives 0. With
        them it is the log of the mean over the draws.

        Parameters
        ----------
        X : array_like, sparse matrix or frame, shape (N, V)

        Returns
        -------
        (N, K) float64 ndarray, nats; a frame where `set_output` asks for one

        Examples
        --------
        >>> from expfam import Mixture
        >>> mixture = Mixture("poisson", 2, random_state=0).fit([[1, 0], [0, 2], [900, 800], [940, 870]])
        >>> mixture.predict_proba([[920, 880]]).tolist(), mixture.predict_log_proba([[920, 880]]).round().tolist()
        ([[0.0, 1.0]], [[-1024.0, 0.0]])
        """
        self._check_fitted()
        return log_probabilities_under(answering_clusters(self, average=True), self, X)

    def score_samples(self, X: Any, given: Any = None, *, average: bool = True) -> npt.NDArray[np.float64]:
        """Return the log predictive density of each row: (N,) nats, with log-base.

        A row may also open a new cluster.

        Parameters
        ----------
        X : array_like, sparse matrix or frame, shape (N, V)
        given : str, int or sequence of them, optional
            Names or numbers of columns: the density is then that of the other columns given these.
        average : bool
            The mean density over the draws of the partition, where the fit has kept some; see `predict_proba`. It is
            higher on new rows than that of one partition.
        """
        self._check_fitted()
        return densities_under(answering_clusters(self, average), self, X, given)

    def bic(self, X: Any) -> float:
        """Return the Bayesian information criterion of rows under the clusters; lower is better.

        It is twice the negative log likelihood of the rows, and a penalty for each free parameter. Prefer `log_joint_`
        to compare numbers of clusters of one family: it holds the log evidence, in which parameters are integrated out,
        so that their number needs no penalty. Prefer `score` of left-out rows to compare families. `bic` is for
        comparisons with other tools.

        Parameters
        ----------
        X : array_like, sparse matrix or frame, shape (N, V)
            As a rule the rows of the fit. Each counts once, whatever its weight in the fit.

        Returns
        -------
        float
            Nats, times 2, as scikit-learn's; mclust's is its negative.

        Raises
        ------
        CapabilityError
            The family does not say how many free parameters it has: see `Family.n_free_parameters`.

        Notes
        -----
        BIC = -2 sum_i log p(x_i) + p log N, Schwarz 1978, "Estimating the dimension of a model". The densities are
        those of ``score_samples(X, average=False)``. They are means over the posterior of the parameters of each
        cluster; with many rows in each they come close to densities at the largest likelihood, for which the formula
        is meant. p = K - 1 + ``family_.n_free_parameters(K)``, where K is `n_components_`, the number found where it
        was open. Parameters that all clusters share count once, such as those of columns that are alike.

        Examples
        --------
        >>> import numpy as np
        >>> from expfam import Mixture
        >>> rng = np.random.default_rng(0)
        >>> X = np.concatenate([rng.normal(place, 1.0, size=(100, 2)) for place in (0.0, 8.0)])
        >>> one, two, three = (Mixture("gaussian", K, random_state=0).fit(X).bic(X) for K in (1, 2, 3))
        >>> two < min(one, three)
        True
        """
        self._check_fitted()
        log_densities, K = self.score_samples(X, average=False), self.n_components_
        n_free = K - 1 + self.family_.n_free_parameters(K)
        return float(-2.0 * log_densities.sum() + n_free * np.log(log_densities.size))

    def impute(self, X: Any, draws: int | None = None, *, average: bool = True) -> Any:
        """Return rows with their missing cells filled, given their other cells and the clusters.

        Parameters
        ----------
        X : frame or (N, V) array_like
            Cells that are there stay as they are, and so do columns that the fit left out.
        draws : int, optional
            Return this many draws of the missing cells: of a cluster, of its parameter and then of the cells. Between
            draws the cells differ as much as they are uncertain.
        average : bool
            Of all draws of the partition, where the fit has kept some; see `predict_proba`. Those under which the other
            cells of a row are likelier count for more.

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
        return self._imputed(X, draws, clusters=answering_clusters(self, average))

    def _summary_parts(self):
        return groups_text(self), super()._summary_parts()[1]

    def predict_class(self, X: Any, unknown: Any = -1) -> npt.NDArray[Any]:
        """Return the most probable class of each row.

        The probabilities of the clusters of a class are summed. Clusters without known rows, and a new cluster, are no
        class.

        Parameters
        ----------
        X : array_like or sparse matrix, shape (N, V)
        unknown : object
            Answer for rows that are most probably of no class; it stays what it is beside names of classes, in an array
            of objects.

        Returns
        -------
        (N,) ndarray
            Of `classes_`, and `unknown`.

        Raises
        ------
        AttributeError
            The fit had no `y` that it used.
        """
        self._check_fitted()
        if not hasattr(self, "cluster_classes_"):
            raise AttributeError(
                "predict_class needs a fit with y and labels='clusters' or labels='classes': write"
                f" {line_with_classes(self)}.fit(X, y)"
            )
        return most_probable_class(self, X, unknown)

    # ---- fewer clusters ----------------------------------------------------------------------------------------------

    def coarsen(
        self,
        n_clusters: int | None = None,
        robust: float | None = None,
        X: Any = None,
        *,
        tree: Literal["cost", "known"] | None = None,
        overlap: float | None = None,
    ) -> Self:
        """Return a new fitted mixture with fewer clusters: those of this one, merged.

        Without arguments the result has the groups that halves of the rows find again. Give at most one of
        `n_clusters`, `robust` and `overlap`.

        Parameters
        ----------
        n_clusters : int, optional
            The number of clusters that is left, at most `n_components_`, and at least the number of classes that the
            fit knew. Merges are made also where the log joint falls; each is the one that costs least. Fewer clusters
            are always unions of more.
        robust : float, optional
            Merge as long as the log joint rises when every cluster counts with `robust` of its statistics, above 0 and
            at most 1. The smaller it is, the fewer clusters are left: differences between clusters must then be larger
            to be worth a cluster of their own. 1 makes the merges that gain under the full statistics, if there are
            any. The result keeps the full statistics.
        X : array_like or sparse matrix, shape (N, V), optional
            Rows to label: `labels_` is then the result's `predict` of them.

        Returns
        -------
        Mixture
            With the settings of this one. `n_`, `S_` and `cluster_sizes_` are sums over the merged clusters. `labels_`
            are those of this mixture, renamed, where it has any and `X` is not given. `log_joint_` is that of the
            partition, and NaN where statistics are soft and clusters were merged. Clusters of two classes are never
            merged, so `classes_`, `cluster_classes_` and `predict_class` stay. There is no `trace_` and no `stream_`;
            `partial_fit` goes on from the clusters.

        Raises
        ------
        ValueError
            For more than one of `n_clusters`, `robust` and `overlap`, or a value out of range.
        DataError
            Rows are needed, and this mixture has none: it was loaded, merged or learned from chunks. Give `X`.
        CapabilityError
            If a cluster, counted with `robust`, has less data than the discount of a Pitman-Yor prior.

        Notes
        -----
        Groups that are found again: both halves of four random splits, of more than 1,000 rows of two, are fitted,
        where the family was left to the estimator with diagonal and with full covariances, and label all rows. The
        score of a cut is the mean, over these fits and their two trees, of the adjusted Rand index with the most
        similar cut there, times 1 - (sum of squared shares)**2. The highest score wins. The fit stays as it is where
        its own halves agree on it by 0.9; where they agree on nothing, by less than a third; and, of five clusters or
        fewer, where the best score is not clearly higher, by three standard errors. `coarsening_curve_` has all scores.
        No number is certain: look at the next best ones too. One group is never the answer.

        With `robust`, merges are decided under A(zeta n, zeta S) with zeta = `robust`, which is the coarsened posterior
        of Miller and Dunson 2018, "Robust Bayesian inference via coarsening", applied to the clusters of a fit.
        `overlap` is the rule of misclassification probabilities of Hennig 2010, "Methods for merging Gaussian mixture
        components".

        Examples
        --------
        >>> import numpy as np
        >>> from expfam import Mixture
        >>> rng = np.random.default_rng(0)
        >>> X = np.concatenate([rng.normal(place, 1.0, size=(50, 2)) for place in (0.0, 6.0, 40.0)])
        >>> mixture = Mixture("gaussian", random_state=0).fit(X)
        >>> mixture.n_components_, mixture.coarsen(n_clusters=2).cluster_sizes_
        (3, array([100,  50]))
        >>> mixture.coarsen().cluster_sizes_
        array([50, 50, 50])
        """
        self._check_fitted()
        return coarser(self, X, n_clusters=n_clusters, robust=robust, overlap=overlap, tree=tree)

    @property
    @made_on_use
    def coarsening_curve_(self) -> CoarseningCurve:
        """Agreement of halves of the rows on every cut, and the answer of `coarsen()`.

        It is made on first use, from rows that are kept of the fit, or by ``coarsen(X=X)`` from these rows. It costs
        eight fits of half of the rows in each family that is compared; `n_threads` serves. See `CoarseningCurve`
        and `expfam.displays.CoarseningDisplay`.
        """
        self._check_fitted()
        return curve_of_fit(self)

    @property
    @made_on_use
    def coarsening_(self) -> npt.NDArray[np.float64]:
        """Return all merges of the clusters as SciPy's linkage matrix: (K - 1, 4) float64.

        Each merge costs least of the log joint; the last one leaves one cluster. Row t joins two clusters into cluster
        K + t; clusters 0..K-1 are those of the fit. The columns are the two clusters, the height, and the number of
        clusters of the fit below. The height is by how many nats the log joint has fallen since the fit, after all
        merges so far, made non-decreasing: the largest fall so far, 0 where it only rose. Where the fit knew classes,
        clusters of two classes are joined last. The matrix is made on first use, from `n_` and `S_`.
        """
        self._check_fitted()
        return merges_of(self).tree

    # ---- scikit-learn ------------------------------------------------------------------------------------------------

    def __sklearn_is_fitted__(self):
        return hasattr(self, "family_")
