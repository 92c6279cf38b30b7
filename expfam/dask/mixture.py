"""Mixtures of rows that lie on the workers of a Dask cluster.

>>> from expfam.dask import Mixture                                        # doctest: +SKIP
>>> mixture = Mixture("gaussian_diag", 20, random_state=0).fit(X)          # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from expfam.dask.likeness import engine_on  # isort: skip  (it says what to install where Dask is missing)
import distributed

from expfam.coarsening.merges import hard_log_joint
from expfam.dask.collections import free_bytes, holds_frames, labels_of, mapped, parts_of
from expfam.dask.runs import stored_run
from expfam.errors import CapabilityError
from expfam.estimators.lines import line_of
from expfam.estimators.mixture import Mixture as LocalMixture
from expfam.estimators.mixture_plan import weights_of
from expfam.estimators.mixture_results import set_model
from expfam.families.columns.roles import Roles
from expfam.fitting.steps import with_progress
from expfam.forecast.memory import statistics_width
from expfam.forecast.workers import check_workers, forecast_workers
from expfam.model.mixture import MixtureModel
from expfam.model.weights import DirichletProcess
from expfam.params import is_auto
from expfam.samplers.chain.kernel import Cycle, check_sharded
from expfam.samplers.hyper.slice import UpdateHyper
from expfam.samplers.named import load_sampler
from expfam.samplers.shards.checkpoint import stored_seed
from expfam.samplers.shards.data import ShardedData
from expfam.samplers.shards.sample import chosen_rows
from expfam.samplers.shards.split_merge import FrozenSplitMerge
from expfam.samplers.shards.table import TableParts
from expfam.samplers.states.storage import model_arrays, with_model_arrays
from expfam.samplers.uncollapsed.em import ExpectationMaximization
from expfam.samplers.uncollapsed.kernel import UncollapsedGibbs

_SAMPLED_ROWS = 4000
_OPEN_CLUSTERS = 512  # of a forecast where their number is open: twice those of the largest start


class Mixture(BaseEstimator):
    """Bayesian mixture model of rows on a Dask cluster.

    The rows stay on the workers. A step sends the parameters of the clusters to them, and fetches sums. The labels are
    the same bits for any number of workers, chunks and threads, also if workers are lost on the way.

    Parameters
    ----------
    family : str or Family
        See `expfam.Mixture`. "auto" reads the columns of a frame by the roles that `expfam.dask.columns_from_frame`
        finds in all parts, and arrays as real numbers. Hyper-parameters "auto" are those of all rows.
    n_components : int, optional
        Number of clusters; some may stay empty. If not given, any number, under a Dirichlet process: only
        "uncollapsed_gibbs" finds it, by slices, splits and merges.
    weights : SymmetricDirichlet or DirichletProcess, optional
        Prior on their weights.
    sampler : str or Kernel
        "uncollapsed_gibbs", "stochastic_em", "em", or a kernel that runs on data in parts.
    n_steps : int
        EM ends earlier where it has converged.
    start : str or (N,) array_like of int
        See `expfam.samplers.starting_labels`. Other rules than "random" and "one" work on some rows, drawn at random.
        "auto" of an open number of clusters fits an `expfam.Mixture` to 4,000 of them.
    learn_hyper : bool or "auto"
        Whether to draw the hyper-parameters of the family; "auto" draws those that were not given. EM keeps those of
        the family as it is bound.
    n_threads : int, optional
        Threads of each worker.
    random_state : None, int, numpy Generator or RandomState
    callbacks : sequence of callable or "progress", optional
        Called as ``callback(info, state)`` after each step.
    client : distributed.Client, optional
        The current one if not given.

    Attributes
    ----------
    labels_ : dask array of shape (N,), int32
        Cluster of each row in the best draw of the second half of the run; of EM, its most probable cluster at the
        end. It lies on the workers. If one of them dies, the steps are repeated on its rows; where the parameters of
        all steps take more than 64 MB, `compute` raises an `EngineError` instead.
    n_ : (K,) float64 ndarray
        Number of rows of each cluster, or the sum of their weights.
    S_ : (K, F) ndarray or CSR
        Sums of their statistics.
    cluster_sizes_ : (K,) int64 ndarray
        Number of rows of each cluster; sums of weights, float64, where rows have weights.
    model_ : MixtureModel
    log_joint_ : float
    trace_ : Trace
    n_lost_ : int
        Number of workers that were lost during the fit.

    Examples
    --------
    >>> import dask.array as da
    >>> from distributed import Client
    >>> from expfam.dask import Mixture
    >>> client = Client(n_workers=2, threads_per_worker=1)                              # doctest: +SKIP
    >>> X = da.concatenate([da.zeros((500, 1)), da.ones((500, 1)) * 40], axis=0)        # doctest: +SKIP
    >>> mixture = Mixture("poisson", 2, random_state=0, client=client).fit(X)           # doctest: +SKIP
    >>> mixture.to_local().save("model.npz")                                            # doctest: +SKIP
    """

    def __init__(
        self,
        family: Any = "auto",
        n_components: int | None = None,
        *,
        weights: Any = None,
        sampler: Any = "uncollapsed_gibbs",
        n_steps: int = 100,
        start: Any = "auto",
        learn_hyper: Any = "auto",
        n_threads: int | None = None,
        random_state: Any = None,
        callbacks: Sequence[Callable[..., Any]] | str | None = None,
        client: distributed.Client | None = None,
    ) -> None:
        self.family, self.n_components, self.weights, self.sampler = family, n_components, weights, sampler
        self.n_steps, self.start, self.learn_hyper = n_steps, start, learn_hyper
        self.n_threads, self.random_state = n_threads, random_state
        self.callbacks, self.client = callbacks, client

    # ---- fitting -----------------------------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        sample_weight: Any = None,
        columns: Sequence[str] | None = None,
        checkpoint: str | PathLike[str] | None = None,
        every_seconds: float = 600.0,
        resume: str | PathLike[str] | None = None,
    ) -> Mixture:
        """Fit the mixture to rows on the cluster.

        Parameters
        ----------
        X : dask array, dask frame, list of delayed blocks or futures, path or list of paths, or ndarray
            Blocks are NumPy or CSR; where the lengths of those of a dask array are unknown, they are made once more to
            count them. Files are .npy, or .parquet, which are read by row groups; all workers must see them. An ndarray
            or a frame in memory is sent to the workers, which cannot make it again by themselves. Frames and Parquet
            files may have columns of text and categories, and holes.
        y : ignored
        sample_weight : (N,) dask array or array_like, optional
            How often each row counts; only EM takes weights. It is cut where the rows are.
        columns : sequence of str, optional
            Columns of Parquet files; all if not given.
        checkpoint : path_like, optional
            Folder that all workers see, or an address that fsspec opens, such as "s3://bucket/run". The run is stored
            there while it lasts and at its end; workers write the labels of their rows.
        every_seconds : float
            Wall time between checkpoints.
        resume : path_like, optional
            Folder of the checkpoint of a run over the same rows, with the same settings. It goes on from there up to
            `n_steps`, bit for bit, over any workers and chunks. The folder stays as it is until the run ends.

        Returns
        -------
        Mixture
            The estimator itself.

        Raises
        ------
        CapabilityError
            The sampler cannot run on data in parts, or use weights, or find the number of clusters.
        ResourceError
            A worker has not the memory that it would need; raised before any work.
        ArchiveError
            There is no checkpoint to go on from, it is of another run, or one would be overwritten.
        """
        kernel = self._kernel(self._local())
        client = distributed.get_client() if self.client is None else self.client
        local = self._local()
        engine = engine_on(client)
        with engine:
            as_frames, data = self._reads_frames(X), None  # type: bool, Any
            parts, sizes = parts_of(X, client, columns, sample_weight, as_frames=as_frames)
            check_workers(self._forecast(kernel, parts, sizes, client), free_bytes(client))
            if as_frames:
                table = TableParts(parts, None if is_auto(self.family) else self.family, engine=engine)
                data, local = table, self._local(table.asked_family)
                kernel = self._kernel(local)
            else:
                data = ShardedData(parts, local._family(), engine=engine)
            model = MixtureModel(data.family, weights_of(local))
            is_soft = isinstance(kernel, ExpectationMaximization)
            names = () if is_soft else local._asked().learned_of(local._family())
            if names:
                kernels = kernel.kernels if type(kernel) is Cycle else (kernel,)
                kernel = Cycle(*kernels, UpdateHyper(family=names, weights=False))
            start = SampledFit() if model.weights.max_components is None and is_auto(self.start) else self.start
            seed, start = (self.random_state, start) if resume is None else (stored_seed(resume), "one")
            state = kernel.init(model, data, seed=seed, start=start)
            best = _Best(self.n_steps if is_soft else self.n_steps // 2, model)
            watching: list[Any] = [*with_progress(self.callbacks, self.n_steps), best]
            kept: dict[str, Any] = {"checkpoint": checkpoint, "every_seconds": every_seconds, "resume": resume}
            self.trace_ = stored_run(kernel, state, self.n_steps, watching, {"best": best}, **kept)
            self._backend = "pandas" if as_frames else None
            n, S = best.statistics or state.label_statistics()
            self._adopt(best.model or state.model, n, S, is_weighted=data.is_weighted)
            if best.model is not None:
                engine.change("take_kept")
            self.labels_ = labels_of(engine.parts, engine.futures("labels_now"))
            self.n_lost_ = engine.n_lost
        self.n_features_in_ = data.n_features
        return self

    def _reads_frames(self, X):
        """Return whether rows are read as frames, by the roles of their columns."""
        by_roles = is_auto(self.family) or bool(getattr(self.family, "roles", None))
        return by_roles and holds_frames(X)

    def _kernel(self, local):
        kernel = load_sampler(self.sampler, n_threads=self.n_threads) if isinstance(self.sampler, str) else self.sampler
        check_sharded(kernel)
        weights = weights_of(local)
        if isinstance(self.sampler, str) and weights.max_components is None:
            if type(kernel) is not UncollapsedGibbs:
                raise CapabilityError(
                    f"{type(kernel).__name__} does not find the number of clusters: write"
                    f" {line_of(self, n_components=50)}, where clusters may stay empty, or"
                    f" {line_of(self, sampler='uncollapsed_gibbs')}"
                )
            if not isinstance(weights, DirichletProcess):
                raise CapabilityError(
                    f"{weights!r} has sticks without end, which no sweep over parts can break: write"
                    f" {line_of(self, weights=DirichletProcess(weights.alpha))}"
                )
            slices = UncollapsedGibbs(sticks="slice", n_threads=self.n_threads)
            has_means = "variational" in local._family().capabilities
            kernel = Cycle(FrozenSplitMerge(), slices) if has_means else slices
        if isinstance(kernel, ExpectationMaximization) and self.learn_hyper is True:
            raise CapabilityError(
                "EM of rows in parts keeps the hyper-parameters of the family: write"
                f" {line_of(self, learn_hyper=False)}, or {line_of(self, sampler='uncollapsed_gibbs')}"
            )
        return kernel

    def _forecast(self, kernel, parts, sizes, client):
        """Return the memory that each worker needs, as far as it is known beforehand."""
        family = self._local()._family()
        return forecast_workers(
            row_bytes=sizes.n_bytes,
            n_rows=sum(part.n_rows for part in parts),
            n_statistics=statistics_width(family.name, sizes.n_columns),
            n_components=weights_of(self._local()).max_components or _OPEN_CLUSTERS,
            n_workers=max(1, len(client.nthreads())),
            n_soft_threads=self._soft_threads(client) if isinstance(kernel, ExpectationMaximization) else 0,
        )

    def _soft_threads(self, client):
        """Return how many threads of a worker hold soft sums of their own."""
        return self.n_threads or max(client.nthreads().values(), default=1)

    def _local(self, family=None):
        """Return the mixture of one machine with the same settings, perhaps of another family."""
        return LocalMixture(
            self.family if family is None else family,
            self.n_components,
            weights=self.weights,
            learn_hyper=self.learn_hyper,
            n_threads=self.n_threads,
            random_state=self.random_state,
        )

    def _adopt(self, model, n, S, *, is_weighted):
        self.model_, self.n_, self.S_ = model, n, S
        self.cluster_sizes_ = n.copy() if is_weighted else n.astype(np.int64)
        self.log_joint_ = self.to_local().log_joint_

    # ---- results -----------------------------------------------------------------------------------------------------

    def to_local(self) -> LocalMixture:
        """Return the fitted `expfam.Mixture` of the clusters with rows, without rows and labels."""
        if not hasattr(self, "model_"):
            raise CapabilityError("the mixture is not fitted: write mixture.fit(X) first")
        local, used = self._local(), np.flatnonzero(self.n_ > 0)
        local.n_, local.S_, local.cluster_sizes_ = self.n_[used], self.S_[used], self.cluster_sizes_[used]
        set_model(local, self.model_)
        local.n_features_in_ = int(self.model_.family.n_features_in_)
        if self._backend is not None and getattr(self.model_.family, "roles", None):
            local.feature_names_in_ = np.array(Roles(self.model_.family.roles).names, dtype=object)
            local._backend = self._backend
        local.log_joint_ = hard_log_joint(local.model_, local.n_, local.S_, local.cluster_sizes_)
        return local

    def predict(self, X: Any) -> Any:
        """Return the most probable cluster of each row.

        The result is a dask array for a dask array or frame, else an ndarray. Clusters are numbered as in `to_local`.
        """
        return self._mapped("predict", X, np.int32, None)

    def predict_proba(self, X: Any) -> Any:
        """Return the probability of each cluster for each row, as `predict` does."""
        return self._mapped("predict_proba", X, np.float64, int(np.count_nonzero(self.n_)))

    def predict_log_proba(self, X: Any) -> Any:
        """Return the log of the probability of each cluster for each row, as `predict` does.

        It is finite also where a probability is too small for a float and `predict_proba` gives 0.
        """
        return self._mapped("predict_log_proba", X, np.float64, int(np.count_nonzero(self.n_)))

    def score_samples(self, X: Any) -> Any:
        """Return the log density of each row, as `predict` does."""
        return self._mapped("score_samples", X, np.float64, None)

    def score(self, X: Any, y: Any = None) -> Any:
        """Return the mean log density of the rows: a lazy number for a dask array or frame.

        Parameters
        ----------
        X : dask array, dask frame, array_like or sparse matrix, shape (N, V)
        y : ignored
        """
        return self.score_samples(X).mean()

    def _mapped(self, method, X, dtype, width):
        return mapped(getattr(self.to_local(), method), X, dtype, width)


class SampledFit:
    """Start of an open number of clusters: those that an `expfam.Mixture` finds in a sample.

    Slices alone take hundreds of steps from a start with too many clusters or too few to their number.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import Dataset, DiagonalGaussian, DirichletProcess, MixtureModel
    >>> from expfam.dask.mixture import SampledFit                                                  # doctest: +SKIP
    >>> data = Dataset(np.repeat([[0.0], [0.1], [9.0], [9.1]], 20, axis=0), DiagonalGaussian())
    >>> model = MixtureModel(data.family, DirichletProcess())
    >>> len(set(SampledFit().labels(model, data, seed=0)))                                  # doctest: +SKIP
    2
    """

    def labels(
        self, model: MixtureModel, data: Any, *, seed: int, n_clusters: int | None = None, n_threads: int | None = None
    ) -> Any:
        """Return the cluster of each row of a data set: (N,) int32 ndarray.

        Parameters
        ----------
        model, data, seed, n_clusters, n_threads
            As `expfam.samplers.starting_labels` gives them to an object that is a start.
        """
        numbers = chosen_rows(data.n_rows, _SAMPLED_ROWS, seed, 3)
        mixture = LocalMixture(model.family, weights=model.weights, random_state=seed, n_threads=n_threads)
        mixture.fit(data.X[numbers])
        labels = mixture._labels if numbers.size == data.n_rows else mixture.predict(data.X)
        return np.asarray(labels, dtype=np.int32)


class _Best:
    """Callback that has the parts keep the best draw after some steps."""

    def __init__(self, first_step, model):
        self.first_step, self.like = first_step, model
        self.log_joint, self.statistics, self.model = -np.inf, None, None

    def __call__(self, info, state):
        if info.step > self.first_step and state.log_joint > self.log_joint:
            state.data.engine.change("keep")
            self.log_joint, self.statistics, self.model = state.log_joint, (state.n, state.S), state.model

    def to_arrays(self):
        """Return the best draw, but for its labels, which the parts keep."""
        if self.statistics is None:
            return {"log_joint": np.array(self.log_joint)}
        n, S = self.statistics
        return {"log_joint": np.array(self.log_joint), "n": n, "S": S, "model": model_arrays(self.model)}

    def from_arrays(self, arrays):
        """Restore the best draw from the arrays of `to_arrays`."""
        if "n" in arrays:
            self.log_joint, self.statistics = float(arrays["log_joint"]), (arrays["n"], arrays["S"])
            self.model = with_model_arrays(self.like, arrays["model"])
