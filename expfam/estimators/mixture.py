"""`Mixture`: a Bayesian mixture in the conventions of scikit-learn.

A fitted mixture is its bound family, its weights and the statistics (n, S) of a partition, whichever sampler found it.
Prediction, scores and saved files need no more than these: their size does not depend on N.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.base import ClusterMixin, DensityMixin
from sklearn.utils.validation import check_is_fitted

from expfam.estimators.base import FamilyEstimator, LabelledEstimator, log_scores, log_sum_exp, step_numbers
from expfam.estimators.chunks import ChunkedFit
from expfam.forecast.memory import forecast_memory, most_kept_partitions
from expfam.model.data import Dataset
from expfam.model.mixture import MixtureModel
from expfam.model.statistics import weighted_statistics
from expfam.model.weights import DirichletProcess, SymmetricDirichlet
from expfam.params import check_value, is_auto
from expfam.samplers.chain.kernel import Cycle
from expfam.samplers.chain.trace import Trace
from expfam.samplers.hyper.slice import UpdateHyper
from expfam.structures.ground.rng import generator, resolve_seed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Self

    from expfam.families.base import Family
    from expfam.protocols import Weights
    from expfam.samplers.chain.kernel import Kernel


class Mixture(ChunkedFit, ClusterMixin, DensityMixin, LabelledEstimator, FamilyEstimator):
    """Bayesian mixture of any exponential family, sampled from its exact posterior.

    Parameters
    ----------
    family : str or Family
        Name of a registered family, or a configured one.
    n_components : int or None
        Number of components under a symmetric Dirichlet prior; None for a Dirichlet process.
    weights : Weights, optional
        Prior of the mixture weights, in place of the one that `n_components` stands for.
    sampler : str or Kernel
        ``"auto"``: exact Gibbs sweeps, and splits and merges where the number of clusters is open. Or one of
        ``"gibbs"``, ``"uncollapsed_gibbs"``, ``"fastex"``, ``"canopy"``, ``"split_merge"``, ``"stochastic_em"``,
        ``"em"``, ``"variational"``; or a kernel with its settings, such as ``FastEx(mode="crossfit")``.
        ``"variational"`` learns from chunks (`partial_fit`, `fit_chunks`); it and ``"em"`` take sample weights.
    n_steps : int or "auto"
        Steps of the sampler after the warm-up; ``"auto"`` is 50.
    n_warmup : int or "auto"
        Steps before them, in whose second half hyper-parameters are learned; ``"auto"`` is as many as `n_steps`, at
        most 100.
    learn_hyper : bool or "auto"
        Learn hyper-parameters late in the warm-up: all that the family declares, or with ``"auto"`` those that it
        learns by default and that were left at ``"auto"``.
    start : str or (N,) array_like of int
        Starting labels or the name of a start.
    partition : {"point", "last"}
        Which partition becomes `labels_`: of those kept after the warm-up the one nearest to the others in variation of
        information, or the last.
    n_threads : int or None
        None for one, -1 for all cores. Results do not depend on it. A kernel has its own `n_threads`.
    random_state : None, int, numpy Generator or RandomState
    callbacks : sequence of callable, optional
        Called as ``callback(info, state)`` after each step; a true result ends the run.
    verbose : int
        1 for a progress bar.
    memory_limit : int, float, str or None
        Bytes that the fit may need beside the data, or text such as ``"4GB"``; None for what the machine has free.
    time_limit : float, str or None
        Seconds that `fit` may be expected to take, or text such as ``"10min"``: some steps on samples of the rows are
        timed first, and where even the low end of the forecast is above the limit nothing is fitted. None times and
        refuses nothing. A run that has begun is not cut short: for that there is the callback `Stop`.

    Attributes
    ----------
    labels_ : (N,) int32 ndarray
        Clusters numbered by first appearance.
    n_components_ : int
        Clusters that hold data.
    weights_ : (K,) float64 ndarray
        Posterior predictive probability of each of them.
    log_weight_new_ : float
        Log probability that a further datum opens a new cluster, nats; -inf where it cannot.
    cluster_sizes_ : (K,) int64 or float64 ndarray
        Data in each: the number of its rows, or the sum of their weights (float64) where `sample_weight` was given.
        After `fit` those of `labels_`; after chunks, whose labels are not kept, the expected ones of all chunks,
        numbers of rows rounded.
    n_, S_ : (K,) and (K, F) float64
        Sufficient statistics of the clusters, of a variational sampler soft ones; S_ is CSR where those of the data
        are.
    family_, model_ : Family, MixtureModel
        Bound, with learned hyper-parameters.
    log_joint_ : float
        Log joint of `labels_` and the data, of a variational sampler the lower bound of the log evidence; nats, without
        log-base.
    trace_ : Trace
        Log joint, number of clusters and seconds of each step, those of the warm-up included; it knows their number,
        `trace_.n_warmup`, and leaves them out of what it computes, such as `trace_.n_clusters_interval()`.
    n_iter_ : int
        Steps made in all.
    stream_ : VariationalStream
        Only after `partial_fit` and `fit_chunks`: what learning goes on from.
    interrupted_ : bool
        Whether Ctrl-C ended the fit; everything else is then of the steps made so far.
    n_features_in_ : int
    feature_names_in_ : (V,) ndarray of str
        Only for data with column names.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from expfam import Mixture
    >>> mixture = Mixture("gaussian", n_components=3, random_state=1).fit(load_iris().data)
    >>> mixture.n_components_
    3
    """

    default_steps = 50
    saved_kind = "mixture"
    no_components = "a Dirichlet process"

    def __init__(
        self,
        family: str | Family = "gaussian_diag",
        n_components: int | None = None,
        *,
        weights: Weights | None = None,
        sampler: str | Kernel = "auto",
        n_steps: int | Literal["auto"] = "auto",
        n_warmup: int | Literal["auto"] = "auto",
        learn_hyper: bool | Literal["auto"] = "auto",
        start: Any = "auto",
        partition: Literal["point", "last"] = "point",
        n_threads: int | None = None,
        random_state: Any = None,
        callbacks: Sequence[Callable] | None = None,
        verbose: int = 0,
        memory_limit: float | str | None = None,
        time_limit: float | str | None = None,
    ) -> None:
        self.family = family
        self.n_components = n_components
        self.weights = weights
        self.sampler = sampler
        self.n_steps = n_steps
        self.n_warmup = n_warmup
        self.learn_hyper = learn_hyper
        self.start = start
        self.partition = partition
        self.n_threads = n_threads
        self.random_state = random_state
        self.callbacks = callbacks
        self.verbose = verbose
        self.memory_limit = memory_limit
        self.time_limit = time_limit

    # ---- fitting ----------------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, sample_weight: npt.ArrayLike | None = None) -> Self:
        """Sample the posterior of the partition and keep one partition with its statistics.

        Parameters
        ----------
        X : array_like or sparse matrix, shape (N, V)
            A memory map of float32 or float64 (``np.load(path, mmap_mode="r")``) is read where it lies.
        y : ignored
        sample_weight : (N,) array_like of non-negative float, optional
            Multiplicity of each row, for the samplers ``"variational"`` and ``"em"``; others take no weights but 1.
            Hyper-parameters left at ``"auto"`` and starts by name are those of the rows without
            weights.

        Returns
        -------
        self

        Raises
        ------
        DataError, SupportError, CapabilityError, ResourceError
            Before any work begins.
        """
        family = self._family()
        X = self._validate(X, reset=True)
        seed = self._seed()
        data = Dataset(X, family, weight=sample_weight)
        weights = self._weights()
        model, kernel = MixtureModel(data.family, weights), self._kernel(weights)
        phases, K = self._phases(kernel, family), weights.max_components
        forecast = partial(forecast_memory, data, n_components=K, kernel=kernel, model=model)
        state = self._begin(model, data, phases, kernel=kernel, forecast=forecast, start=self.start, seed=seed)
        trace = self._run(state, phases, trace=Trace(max_kept=most_kept_partitions(data.n_rows)))
        if hasattr(state, "soft_partition"):
            self._adopt(state, *state.soft_partition())
        else:
            self._adopt(state, _chosen_partition(trace, state))
        self.cluster_sizes_ = _sizes(self.labels_, len(self.n_), data.weight)
        self._set_trace(trace)
        self.__dict__.pop("stream_", None)
        return self

    def _enter_phase(self, kernel, former, state, trace, n_steps, *, is_last):
        if is_last and self.partition == "point" and not hasattr(state, "soft_partition"):
            trace.keep_every = max(1, n_steps // (2 * trace.max_kept))
        kernel = _adapted_kernel(kernel, former, state) if is_last else kernel
        state.memory.clear()  # proposals are made anew for each phase, not kept twice
        return kernel

    def _adopt(self, state, labels, n=None, S=None):
        """Store labels with their statistics, or soft statistics with their bound as the log joint."""
        model = state.model
        self.labels_ = np.asarray(labels, dtype=np.int32)
        is_hard = n is None
        if is_hard:
            n, S = weighted_statistics(state.data, self.labels_, int(self.labels_.max()) + 1)
        self.n_, self.S_ = n, S
        log_joint = model.weights.log_prior(n) + model.family.total_log_marginal(n, S) if is_hard else state.log_joint
        self.log_joint_ = float(log_joint)
        self._set_model(model)

    def _set_model(self, model):
        self.model_, self.family_ = model, model.family
        self.n_components_ = len(self.n_)
        self.weights_, new = model.weights.posterior_mean(self.n_)
        self.log_weight_new_ = float(np.log(new)) if new > 0 else -np.inf

    def _weights(self):
        K = self._check_components()
        if self.weights is not None:
            if K is not None and self.weights.max_components != K:
                raise ValueError(f"n_components={K} and weights={self.weights!r} disagree; give one of them")
            return self.weights
        return DirichletProcess() if K is None else SymmetricDirichlet(K)

    def _phases(self, kernel, family):
        """Return kernels and numbers of steps: warm-up, learning, and the steps that count.

        Learning waits for half of the warm-up: a concentration fitted to labels that are still nearly random lets too
        many clusters live, and the chain does not come back from there. So do splits and merges of the automatic
        sampler: clusters of nearly random labels are all alike, and would be merged into one.
        """
        n_steps, n_warmup = step_numbers(self)
        self._check_learn_hyper(self.learn_hyper)
        check_value("Mixture: partition", self.partition, ("point", "last"))
        if is_auto(self.learn_hyper):
            names = [name for name in family.learned_by_default if is_auto(getattr(family, name))]
        else:
            names = list(family.hyper) if self.learn_hyper else []
        n_learning = (n_warmup + 1) // 2 if names else 0
        learning = Cycle(kernel, UpdateHyper(family=tuple(names), weights=False)) if names else kernel
        phases = [(kernel, n_warmup - n_learning), (learning, n_learning), (kernel, n_steps)]
        if is_auto(self.sampler) and isinstance(kernel, Cycle):
            n_sweeps = n_warmup - max(n_learning, (n_warmup + 1) // 2)
            phases = [(kernel.kernels[-1], n_sweeps), (kernel, n_warmup - n_learning - n_sweeps), *phases[1:]]
        return phases

    # ---- prediction -------------------------------------------------------------------------------------------------

    def _log_scores(self, X, reduce):
        """Apply `reduce` to blocks of log weight + log predictive; return the data and the results.

        The last of the K + 1 columns is that of a new cluster.
        """
        check_is_fitted(self)
        data = Dataset(self._validate(X, reset=False), self.family_)
        with np.errstate(divide="ignore"):
            log_weights = np.append(np.log(self.weights_), self.log_weight_new_)
        return data, log_scores(data, self.n_, self.S_, log_weights, reduce, self.n_threads)

    def predict(self, X: Any) -> npt.NDArray[np.int32]:
        """Return the most probable cluster of each row, given the clusters' data.

        Parameters
        ----------
        X : array_like or sparse matrix, shape (N, V)

        Returns
        -------
        (N,) int32 ndarray
        """
        _, parts = self._log_scores(X, lambda scores, start, stop: scores[:, :-1].argmax(axis=1).astype(np.int32))
        return np.concatenate(parts)

    def predict_proba(self, X: Any, n_top: int | None = None) -> Any:
        """Return the probability of each existing cluster for each row.

        Parameters
        ----------
        X : array_like or sparse matrix, shape (N, V)
        n_top : int, optional
            Keep only this number of the largest probabilities of a row, in a CSR matrix whose rows then sum to less
            than 1; memory N n_top in place of N K.

        Returns
        -------
        (N, K) float64 ndarray, or CSR array
        """
        K = check_is_fitted(self) or self.n_components_
        if n_top is not None and (n_top != int(n_top) or n_top < 1):
            raise ValueError(f"n_top must be a positive integer; got {n_top!r}")
        L = None if n_top is None else min(int(n_top), K)

        def reduce(scores, start, stop):
            p = _softmax(scores[:, :-1])
            if L is None:
                return p
            columns = np.sort(np.argpartition(p, K - L, axis=1)[:, K - L :], axis=1)
            return columns.astype(np.int32), np.take_along_axis(p, columns, axis=1)

        data, parts = self._log_scores(X, reduce)
        if L is None:
            return np.concatenate(parts)
        columns = np.concatenate([part[0] for part in parts]).ravel()
        values = np.concatenate([part[1] for part in parts]).ravel()
        return sparse.csr_array((values, columns, np.arange(data.n_rows + 1) * L), shape=(data.n_rows, K))

    def score_samples(self, X: Any) -> npt.NDArray[np.float64]:
        """Return the log predictive density of each row: (N,) nats, with log-base.

        A row may also open a new cluster.
        """
        data, parts = self._log_scores(X, lambda scores, start, stop: log_sum_exp(scores))
        return np.concatenate(parts) + self.family_.log_base(data.X)

    def score(self, X: Any, y: Any = None) -> float:
        """Return the mean log predictive density of the rows, nats."""
        return float(self.score_samples(X).mean())

    def sample(self, n_samples: int = 1) -> tuple[np.ndarray, npt.NDArray[np.int32]]:
        """Draw rows from the posterior predictive of the existing clusters.

        Parameters
        ----------
        n_samples : int

        Returns
        -------
        X : (n_samples, V) ndarray
        y : (n_samples,) int32 ndarray
            Cluster of each row, in ascending order.
        """
        check_is_fitted(self)
        if n_samples < 1:
            raise ValueError(f"n_samples must be at least 1; got {n_samples!r}")
        rng = generator(resolve_seed(self.random_state), "predict")
        sizes = rng.multinomial(n_samples, self.weights_ / self.weights_.sum())
        S = self.S_.toarray() if sparse.issparse(self.S_) else self.S_
        parts = [
            self.family_.posterior_predictive_sample(self.n_[k], S[k], int(size), rng)
            for k, size in enumerate(sizes)
            if size
        ]
        return np.concatenate(parts), np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)

    # ---- scikit-learn ------------------------------------------------------------------------------------------------

    def __sklearn_is_fitted__(self):
        return hasattr(self, "family_")


def _sizes(labels, n_clusters, weight):
    """Return rows of each label (int64), or sums of their weights (float64): (n_clusters,)."""
    sizes = np.bincount(labels, weights=weight, minlength=n_clusters)
    return sizes.astype(np.int64) if weight is None else sizes


def _adapted_kernel(kernel, former, state):
    """Return the kernel of the steps that count, with what the warm-up has adapted."""
    adapted = former.frozen(state) if hasattr(former, "frozen") else former
    return adapted if former is kernel else adapted.kernels[0]  # while it learns it is the first of a cycle


def _chosen_partition(trace, state):
    """Return the kept partition nearest to the others, or the last one where none was kept.

    The last one is returned too where Ctrl-C cuts the choice short.
    """
    if not trace.n_kept:
        return state.partition
    try:
        return trace.point_partition()
    except KeyboardInterrupt:
        trace.interrupted = True
        return state.partition


def _softmax(scores):
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    return p
