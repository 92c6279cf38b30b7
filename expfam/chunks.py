"""Fits of a mixture from chunks of data that are not kept: one at a time, or in passes over an iterable of them.

A chunk is whatever the estimator's `fit` takes. Statistics of the clusters are all that stays of it, so memory does
not grow with the number of rows but by what a memoized schedule remembers of each chunk.
"""

from itertools import chain

import numpy as np
from sklearn.utils.metaestimators import available_if

from expfam.errors import CapabilityError, DataError
from expfam.forecast import check_memory, forecast_memory
from expfam.model.data import Dataset
from expfam.model.mixture import MixtureModel
from expfam.samplers.stream import VariationalStream
from expfam.samplers.systems import load_sampler
from expfam.samplers.trace import Trace
from expfam.structures._rng import resolve_seed


def _learns_chunks(estimator):
    kernel = load_sampler(estimator.sampler)
    if not hasattr(kernel, "stream"):
        raise AttributeError(
            f"{type(kernel).__name__} needs all data at once; chunks are learned with sampler='variational' or a"
            " configured SparseVariational"
        )
    return True


class ChunkedFit:
    """`partial_fit` and `fit_chunks` of the estimators whose sampler can learn chunks of data.

    Attributes
    ----------
    stream_ : VariationalStream
        What learning goes on from.
    """

    @available_if(_learns_chunks)
    def partial_fit(self, X, y=None, sample_weight=None, *, batch=None):
        """Learn one more chunk of data, which is not kept: one visit, one update of all clusters.

        The first chunk resolves hyper-parameters left at ``"auto"`` and draws the start, so it should look like the
        rest. After `fit` or `load` learning goes on from the statistics of the fit.

        Parameters
        ----------
        X : array_like or sparse matrix, shape (m, V)
        y : ignored
        sample_weight : (m,) array_like of non-negative float, optional
            Multiplicity of each row.
        batch : int or str, optional
            Under a memoized schedule (the default): name of the chunk, which when it comes again replaces what it
            contributed; a chunk without a name is added for good. A stochastic schedule takes no names.

        Returns
        -------
        self
            `labels_` are those of this chunk, `cluster_sizes_` the rounded soft counts of all chunks.

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
        is_first = not hasattr(self, "family_")
        X = self._validate(X, reset=is_first)
        if hasattr(self, "stream_"):
            data = self._chunk(X, sample_weight)
            self._check_same_sampler()
        else:
            self.stream_, data = self._open_stream(X, sample_weight, is_first=is_first)
            self.trace_, self.n_iter_ = Trace(), getattr(self, "n_iter_", 0)
        info = self.stream_.learn(data, batch=batch)
        self._take_stream([info])
        return self

    @available_if(_learns_chunks)
    def fit_chunks(self, chunks, y=None):
        """Fit to data that come in chunks and are never held together.

        Parameters
        ----------
        chunks : iterable
            Arrays or sparse matrices of rows, or pairs of one and its ``sample_weight`` as a tuple. From an iterator,
            which gives each chunk once, one pass is made. From anything that can be gone through again, such as a
            list of memory maps, up to `n_steps` passes, until the bound has settled; the same chunks must then come
            in the same order.
        y : ignored

        Returns
        -------
        self
            Without `labels_`: use `predict` on each chunk. `cluster_sizes_` are rounded soft counts.

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
        walk = iter(chunks)
        first = next(walk, None)
        if first is None:
            raise DataError("there are no chunks: nothing to learn from")
        for name in ("stream_", "labels_"):
            self.__dict__.pop(name, None)
        X, weight = _parts(first)
        stream, data = self._open_stream(self._validate(X, reset=True), weight, is_first=True)

        def again():
            return (self._next_chunk(chunk, stream) for chunk in chunks)

        rest = (self._next_chunk(chunk, stream) for chunk in walk)
        n_passes = 1 if walk is chunks else max(1, self._count("n_steps"))
        infos, self.interrupted_ = [], False
        try:
            for info in stream.sweeps(chain([data], rest), again, n_passes):
                infos.append(info)
                stops = [bool(callback(info, stream)) for callback in self.callbacks or ()]
                if any(stops):
                    break
        except KeyboardInterrupt:
            if not infos:
                raise
            self.interrupted_ = True
        finally:
            for callback in self.callbacks or ():
                if hasattr(callback, "close"):
                    callback.close()
        self.stream_, self.trace_, self.n_iter_ = stream, Trace(), 0
        self._take_stream(infos)
        del self.labels_
        return self

    def restore_stream(self, arrays):
        """The stream whose `to_arrays` these are, for this estimator's model and sampler."""
        return VariationalStream.from_arrays(self.model_, self._kernel(), arrays)

    # ---- parts -------------------------------------------------------------------------------------------------------

    def _kernel(self, weights=None):
        return load_sampler(self.sampler, n_threads=self.n_threads, weights=weights)

    def _chunk(self, X, weight):
        return Dataset(X, self.stream_.model.family, weight=weight)

    def _next_chunk(self, chunk, stream):
        X, weight = _parts(chunk)
        return Dataset(self._validate(X, reset=False, family=stream.model.family), stream.model.family, weight=weight)

    def _open_stream(self, X, weight, *, is_first):
        """Stream of a first chunk, or one that goes on from a finished fit; and the chunk."""
        if self.learn_hyper is True:
            raise CapabilityError("learn_hyper=True: hyper-parameters are not learned from chunks; give their values")
        kernel = self._kernel()
        data = Dataset(X, self._family() if is_first else self.family_, weight=weight)
        model = MixtureModel(data.family, self._weights()) if is_first else self.model_
        forecast = forecast_memory(data, n_components=kernel.max_clusters(model), kernel=kernel, model=model)
        check_memory(forecast, self.memory_limit)
        seed = resolve_seed(self.random_state)
        if is_first:
            return kernel.stream(model, data, seed=seed, start=self.start), data
        return kernel.resumed_stream(model, data, self.n_, self.S_, seed=seed), data

    def _check_same_sampler(self):
        changed = self.stream_.settings_changed(self._kernel())
        if changed:
            raise CapabilityError(
                f"the sampler's {', '.join(changed)} changed since the first chunk: set what it was, or fit anew"
            )

    def _take_stream(self, infos):
        self._adopt(self.stream_, *self.stream_.soft_partition())
        self.cluster_sizes_ = np.rint(self.n_).astype(np.int64)
        if not isinstance(self.trace_, Trace):  # that of a file cannot be gone on with
            self.trace_ = Trace()
        for info in infos:
            self.trace_.append(info, self.stream_)
        self.n_iter_ += len(infos)
        self.interrupted_ = getattr(self, "interrupted_", False)


def _parts(chunk):
    """Rows and weights of a chunk."""
    if isinstance(chunk, tuple):
        if len(chunk) != 2:
            raise DataError(f"a chunk is an array of rows, or a tuple (rows, sample_weight); got {len(chunk)} parts")
        return chunk
    return chunk, None
