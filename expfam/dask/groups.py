"""Mixtures of rows in groups that lie on the workers of a Dask cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator

from expfam.dask.likeness import engine_on  # isort: skip  (it says what to install where Dask is missing)
import distributed

from expfam.amounts import counted
from expfam.dask.collections import free_bytes, labels_of
from expfam.dask.grouped_blocks import block_answers, block_score, group_rows, main_clusters, parts_in_groups, sizes_of
from expfam.dask.runs import stored_run
from expfam.dask.unknown_numbers import check_limit, first_shares, n_places
from expfam.errors import CapabilityError, ResourceError
from expfam.estimators.grouped import GroupedMixture as LocalGroupedMixture
from expfam.estimators.lines import line_of
from expfam.estimators.mixture import Mixture as LocalMixture
from expfam.estimators.place_means import PlaceMeans, parts_of_groups
from expfam.estimators.unknown_groups import GUESSED_CLUSTERS
from expfam.estimators.unknown_numbers import concentration_of, drop_weights, set_weights
from expfam.fitting.steps import with_progress
from expfam.forecast.memory import statistics_width
from expfam.forecast.workers import check_workers, forecast_workers
from expfam.model.admixture import AdmixtureModel
from expfam.model.assignment import assigned_labels
from expfam.model.finite_process import FiniteProcess
from expfam.params import is_auto
from expfam.samplers.chain.kernel import Cycle
from expfam.samplers.hyper.slice import UpdateHyper
from expfam.samplers.shards.checkpoint import stored_seed
from expfam.samplers.shards.grouped import GroupedParts
from expfam.samplers.shards.grouped_gibbs import GroupedUncollapsedGibbs
from expfam.samplers.shards.sample import chosen_rows, gathered
from expfam.structures.ground.rng import resolve_seed

_SAMPLED_ROWS = 4000  # in which a start looks for clusters
_TABLES = 6  # of groups and clusters that the client holds at a time
_USUAL = 20  # clusters of a start, where it is not searched


class GroupedMixture(BaseEstimator):
    """Mixture of rows in groups on a Dask cluster: all groups share the clusters.

    The rows stay on the workers, and the rows of one group may lie on several. A step sends the parameters of the
    clusters and the weights of the groups to them, and fetches sums. The draws are the same bits for any number of
    workers, chunks and threads, also if workers are lost on the way. The sampler is exact: see
    `expfam.samplers.shards.grouped_gibbs.GroupedUncollapsedGibbs`.

    Parameters
    ----------
    family : str or Family
        See `expfam.GroupedMixture`. Hyper-parameters "auto" are those of all rows.
    n_components : int or None
        Number of clusters; some may stay empty. None: it is unknown, and found under a hierarchical Dirichlet process.
    max_components : int, optional
        Where the number is unknown, the most clusters that there can be: four times as many as 4,000 rows have, from 50
        to 1,000, if not given.
    alpha : "auto", float or (K,) array_like
        Pseudo-count of each cluster in a group; "auto" draws them with the labels. Of an unknown number one number, the
        concentration of the groups.
    n_steps : int
        Sweeps that count.
    n_warmup : int
        Sweeps before them.
    start : str or (N,) array_like of int
        "auto" begins at the clusters that an `expfam.GroupedMixture` finds in 4,000 rows, drawn at random; else see
        `expfam.samplers.starting_labels`.
    learn_hyper : bool or "auto"
        Whether to draw the hyper-parameters of the family; "auto" draws those that were not given.
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
        Most probable cluster of each row by the weights of its group. It lies on the workers, which make lost pieces
        of it again.
    n_, S_ : (K,) and (K, F) ndarray
        Means of the numbers of rows and of the sums of their statistics over the sweeps that count.
    group_counts_ : (G, K) CSR array
        Mean number of rows of each group in each cluster.
    group_weights_ : (G, K) float64 ndarray
    group_names_ : (G,) object ndarray
        Names of the groups, sorted, where they have some.
    cluster_sizes_ : (K,) int64 ndarray
    alpha_ : (K,) float64 ndarray
    beta_, rest_, concentration_, gamma_ : (K,) float64 ndarray and floats
        Of an unknown number: weights of the clusters in all groups, that of all others, and both concentrations.
    log_joint_ : float
        Of the last draw.
    trace_ : Trace
    n_features_in_, n_lost_ : int
        Columns; number of workers that were lost during the fit.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> from distributed import Client
    >>> from expfam.dask import GroupedMixture
    >>> client = Client(n_workers=2, threads_per_worker=1)                                          # doctest: +SKIP
    >>> X = da.concatenate([da.zeros((500, 1)), da.ones((500, 1)) * 40], axis=0)                    # doctest: +SKIP
    >>> mixture = GroupedMixture("poisson", 2, random_state=0, client=client)                       # doctest: +SKIP
    >>> mixture.fit(X, groups=np.arange(1000) % 7).to_local().save("model.npz")                     # doctest: +SKIP
    """

    def __init__(
        self,
        family: Any = "auto",
        n_components: int | None = 10,
        *,
        max_components: int | None = None,
        alpha: Any = "auto",
        n_steps: int = 100,
        n_warmup: int = 100,
        start: Any = "auto",
        learn_hyper: Any = "auto",
        n_threads: int | None = None,
        random_state: Any = None,
        callbacks: Sequence[Callable[..., Any]] | str | None = None,
        client: distributed.Client | None = None,
    ) -> None:
        self.family, self.n_components, self.max_components = family, n_components, max_components
        self.alpha = alpha
        self.n_steps, self.n_warmup = n_steps, n_warmup
        self.start, self.learn_hyper = start, learn_hyper
        self.n_threads, self.random_state = n_threads, random_state
        self.callbacks, self.client = callbacks, client

    # ---- fitting -----------------------------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        groups: Any = None,
        sample_weight: Any = None,
        columns: Sequence[str] | None = None,
        checkpoint: str | PathLike[str] | None = None,
        every_seconds: float = 600.0,
        resume: str | PathLike[str] | None = None,
    ) -> GroupedMixture:
        """Find clusters that the groups of rows on the cluster share.

        Parameters
        ----------
        X : dask array, dask frame, list of delayed blocks or futures, path or list of paths, or ndarray
            As of `expfam.dask.Mixture.fit`.
        y : (N,) dask array or array_like, optional
            Where `groups` is not given, these are the groups.
        groups : (N,) dask array or array_like, or str
            Number of the group of each row, from 0 on, or its name. It is cut where the rows are. A text is the name of
            a column of a dask frame or of Parquet files, which is no data then. Required.
        sample_weight : None
            Refused: the copies of a row have clusters of their own.
        columns : sequence of str, optional
            Columns of Parquet files; all if not given.
        checkpoint : path_like, optional
            Folder that all workers see, or an address that fsspec opens, such as "s3://bucket/run". The run is stored
            there while it lasts and at its end; workers write the labels of their rows.
        every_seconds : float
            Wall time between checkpoints.
        resume : path_like, optional
            Folder of the checkpoint of a run over the same rows and groups, with the same settings. It goes on
            from there, bit for bit, over any workers and chunks.

        Returns
        -------
        GroupedMixture
            The estimator itself.

        Raises
        ------
        CapabilityError
            Rows have weights, or `max_components` is given beside the number of clusters.
        DataError, SupportError
            A row has no group, or does not suit the family; the message names the row among all.
        ResourceError
            A worker has not the memory that it would need, or the client none for the weights of all groups.
        ArchiveError
            There is no checkpoint to go on from, it is of another run, or one would be overwritten.
        """
        groups = y if groups is None else groups
        self._check(groups, sample_weight)
        client = distributed.get_client() if self.client is None else self.client
        engine = engine_on(client)
        with engine:
            parts, sizes = parts_in_groups(X, groups, client, columns)
            check_workers(self._forecast(parts, sizes, client), free_bytes(client))
            data = GroupedParts(parts, self._local_mixture()._family(), engine=engine)
            seed = resolve_seed(self.random_state) if resume is None else stored_seed(resume)
            model, start = self._process(data, seed) if self.n_components is None else self._given(data, seed, resume)
            self._check_groups(data.n_groups, model.n_components, free_bytes(client))
            kernel = self._kernel()
            state = kernel.init(model, data, seed=seed, start=start if resume is None else "one")
            mean, n_all = PlaceMeans(parts_of_groups, self.n_warmup), self.n_warmup + self.n_steps
            watching: list[Any] = [*with_progress(self.callbacks, n_all), mean]
            kept: dict[str, Any] = {"checkpoint": checkpoint, "every_seconds": every_seconds, "resume": resume}
            self.trace_ = stored_run(kernel, state, n_all, watching, {"mean": mean}, n_warmup=self.n_warmup, **kept)
            self._adopt(state, mean)
            futures = engine.mapped(main_clusters, self.to_local(), data.names)
            K = len(self.n_)
            self.cluster_sizes_ = sum(client.gather([client.submit(sizes_of, found, K) for found in futures]))
            self.labels_, self.n_lost_ = labels_of(engine.parts, futures), engine.n_lost
        return self

    def _check(self, groups, sample_weight):
        check_limit(self, partial(line_of, self))
        if groups is None:
            raise ValueError(
                "GroupedMixture needs groups=, the group of each row: write fit(X, groups=groups); for rows without"
                " groups write expfam.dask.Mixture()"
            )
        if sample_weight is not None:
            raise CapabilityError(
                "the copies of a row have clusters of their own, so rows in groups on a cluster have no weights: write"
                " fit(X, groups=groups), or on one machine expfam.GroupedMixture(sampler='variational').fit(X,"
                " groups=groups, sample_weight=sample_weight)"
            )

    def _check_groups(self, n_groups, n_clusters, free):
        """Refuse weights of groups that the client, or a worker, cannot hold."""
        needed = _TABLES * 8 * n_groups * n_clusters
        if needed > free:
            fewer = max(1, int(free // (_TABLES * 8 * n_groups)))
            line = line_of(self, **{"max_components" if self.n_components is None else "n_components": fewer})
            raise ResourceError(
                f"the weights of {counted(n_groups, 'group')} and {counted(n_clusters, 'cluster')} take"
                f" {needed / 1e9:.3g} GB, and the fullest worker has {max(free, 0) / 1e9:.3g} GB left: join small"
                f" groups, or write {line}"
            )

    def _forecast(self, parts, sizes, client):
        """Return the memory that each worker needs, as far as it is known beforehand."""
        return forecast_workers(
            row_bytes=sizes.n_bytes,
            n_rows=sum(part.n_rows for part in parts),
            n_statistics=statistics_width(self._local_mixture()._family().name, sizes.n_columns),
            n_components=self.n_components or self.max_components or GUESSED_CLUSTERS,
            n_workers=max(1, len(client.nthreads())),
        )

    def _kernel(self):
        kernel = GroupedUncollapsedGibbs(learn_alpha=is_auto(self.alpha), n_threads=self.n_threads)
        local = self._local_mixture()
        names = local._asked().learned_of(local._family())
        return Cycle(kernel, UpdateHyper(family=names, weights=False)) if names else kernel

    def _local_mixture(self):
        """Return the mixture of the rows without their groups."""
        return LocalMixture(self.family, self.n_components, learn_hyper=self.learn_hyper, n_threads=self.n_threads)

    def _given(self, data, seed, resume):
        """Return the model of a given number of clusters, and the start of the kernel."""
        K = self.n_components
        model = AdmixtureModel(data.family, K, 1.0 / K if is_auto(self.alpha) else self.alpha)
        return model, self._start(data, seed) if resume is None else "one"

    def _process(self, data, seed):
        """Return the model of an unknown number of clusters, and the start of the kernel."""
        alpha, gamma, beta, start = concentration_of(self), 1.0, np.empty(0), self.start
        if is_auto(start):
            local = self._sampled(data, seed)
            start, beta, gamma = NearClusters(local.n_, local.S_), local.beta_, local.gamma_
            alpha = local.concentration_ if is_auto(self.alpha) else alpha
        elif not isinstance(start, str) and not hasattr(start, "labels"):
            beta = np.full(int(np.max(start)) + 1, 1.0 / (int(np.max(start)) + 1))
        L = n_places(self.max_components, len(beta), _USUAL, partial(line_of, self))
        return FiniteProcess(data.family, L, alpha=alpha * first_shares(beta, L), gamma=gamma), start

    def _start(self, data, seed):
        """Return the start of the kernel."""
        if not is_auto(self.start):
            return self.start
        local = self._sampled(data, seed)
        return NearClusters(local.n_, local.S_)

    def _sampled(self, data, seed):
        """Return the clusters of some rows."""
        numbers = chosen_rows(data.n_rows, _SAMPLED_ROWS, seed, 5)
        groups = np.unique(np.concatenate(data.engine.each("groups_at", numbers)), return_inverse=True)[1]
        local = LocalGroupedMixture(data.family, self.n_components, alpha=self.alpha, random_state=seed)
        return local.fit(gathered(data.engine, numbers), groups=groups)

    def _adopt(self, state, mean):
        self.n_, self.S_, self.group_counts_, self.alpha_ = mean.means(state)
        drop_weights(self)
        if self.n_components is None:
            self._list(mean)
        self._family_, self.log_joint_ = state.model.family, float(state.log_joint)
        self.n_features_in_ = int(state.data.n_features)
        self.__dict__.pop("group_names_", None)
        self.__dict__.pop("cluster_sizes_", None)
        if state.data.names is not None:
            self.group_names_ = np.empty(len(state.data.names), dtype=object)
            self.group_names_[:] = state.data.names

    def _list(self, mean):
        """Keep clusters that held rows in at least half of the counted sweeps, the largest first."""
        listed = mean.listed()
        self.n_, self.S_, self.group_counts_ = self.n_[listed], self.S_[listed], self.group_counts_[:, listed]
        set_weights(self, *mean.weights(listed))

    # ---- results -----------------------------------------------------------------------------------------------------

    def to_local(self) -> LocalGroupedMixture:
        """Return the fitted `expfam.GroupedMixture`, without rows and labels."""
        if not hasattr(self, "group_counts_"):
            raise CapabilityError("the mixture is not fitted: write mixture.fit(X, groups=groups) first")
        local = LocalGroupedMixture(
            self.family,
            self.n_components,
            alpha=self.alpha,
            learn_hyper=self.learn_hyper,
            n_threads=self.n_threads,
            random_state=self.random_state,
        )
        local.n_, local.S_, local.group_counts_, local.alpha_ = self.n_, self.S_, self.group_counts_, self.alpha_
        if self.n_components is None:
            set_weights(local, self.alpha_, self.concentration_, self.gamma_)
        local.family_, local.log_joint_ = self._family_, self.log_joint_
        local.n_features_in_, local.n_iter_ = self.n_features_in_, len(self.trace_)
        local.interrupted_ = bool(self.trace_.interrupted)
        sizes = getattr(self, "cluster_sizes_", None)
        local.cluster_sizes_ = np.rint(self.n_).astype(np.int64) if sizes is None else sizes
        if hasattr(self, "group_names_"):
            local.group_names_ = self.group_names_
        return local

    @property
    def group_weights_(self) -> npt.NDArray[np.float64]:
        """Return the posterior mean weights of the groups of the fit: (G, K), rows sum to 1."""
        return self.to_local().group_weights_

    def predict(self, X: Any, groups: Any = None) -> Any:
        """Return the most probable cluster of each row of new groups, given all rows of its group.

        Parameters
        ----------
        X : dask array, dask frame or array_like, shape (N, V)
        groups : (N,) dask array, dask series or array_like, optional
            Group of each row. In a dask array or frame all rows of a group must lie in one block; otherwise `compute`
            raises a `DataError` that names the group.

        Returns
        -------
        (N,) int32 dask array or ndarray
            A dask array for a dask array or frame.
        """
        return self._answered("predict", X, groups, np.int32, None)

    def predict_proba(self, X: Any, groups: Any = None) -> Any:
        """Return the probability of each cluster for each row of new groups.

        Parameters
        ----------
        X, groups
            As in `predict`.

        Returns
        -------
        (N, K) float64 dask array or ndarray
        """
        return self._answered("predict_proba", X, groups, np.float64, len(self.n_))

    def predict_log_proba(self, X: Any, groups: Any = None) -> Any:
        """Return the log of the probability of each cluster for each row of new groups.

        It is finite also where a probability is too small for a float and `predict_proba` gives 0.

        Parameters
        ----------
        X, groups
            As in `predict`.

        Returns
        -------
        (N, K) float64 dask array or ndarray, nats
        """
        return self._answered("predict_log_proba", X, groups, np.float64, len(self.n_))

    def score_samples(self, X: Any, groups: Any = None) -> Any:
        """Return the log density of each row under the weights of its group, nats.

        Parameters
        ----------
        X, groups
            As in `predict`.

        Returns
        -------
        (N,) float64 dask array or ndarray
        """
        return self._answered("score_samples", X, groups, np.float64, None)

    def score(self, X: Any, y: Any = None, *, groups: Any = None) -> Any:
        """Return the mean log density of left-out rows of new groups, as on one machine, nats.

        Parameters
        ----------
        X, groups
            As in `predict`.
        y : (N,) array_like, optional
            The groups, where `groups` is not given.

        Returns
        -------
        float
            A lazy number for a dask array or frame.
        """
        return block_score(self.to_local(), X, y if groups is None else groups)

    def transform(self, X: Any, groups: Any = None) -> Any:
        """Return the weights of clusters in new groups.

        Parameters
        ----------
        X, groups
            As in `predict`.

        Returns
        -------
        (G, K) float64 dask array or ndarray
        """
        local = self.to_local()
        return group_rows(local, X, groups)

    def _answered(self, method, X, groups, dtype, width):
        return block_answers(self.to_local(), method, X, groups, dtype, width)


class NearClusters:
    """Start that gives each row its most probable one of some clusters.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import Dataset, MixtureModel, Poisson, SymmetricDirichlet
    >>> from expfam.dask.groups import NearClusters                                                 # doctest: +SKIP
    >>> data = Dataset(np.array([[1], [40]]), Poisson())
    >>> model = MixtureModel(data.family, SymmetricDirichlet(2))
    >>> clusters = NearClusters(np.array([3.0, 3.0]), np.array([[120.0], [3.0]]))                   # doctest: +SKIP
    >>> clusters.labels(model, data, seed=0)                                                        # doctest: +SKIP
    array([1, 0], dtype=int32)
    """

    def __init__(self, n: npt.NDArray[np.float64], S: Any) -> None:
        self.n, self.S = n, S

    def labels(
        self, model: Any, data: Any, *, seed: int, n_clusters: int | None = None, n_threads: int | None = None
    ) -> Any:
        """Return the cluster of each row of a data set: (N,) int32 ndarray.

        Parameters
        ----------
        model, data, seed, n_clusters, n_threads
            As `expfam.samplers.starting_labels` gives them to an object that is a start.
        """
        with np.errstate(divide="ignore"):  # no row may choose an empty cluster
            log_mass = np.log(self.n / self.n.sum())
        return assigned_labels(model, data, self.n, self.S, log_mass)
