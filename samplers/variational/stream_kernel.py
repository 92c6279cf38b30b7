"""Base of kernels that can also learn chunks of data that are not kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from expfam.params import NON_NEGATIVE, Integer, check_settings, refuse_unused
from expfam.samplers.chain.kernel import Kernel

if TYPE_CHECKING:
    from expfam.model.data import Dataset

# settings of the kernels that iterate on each document or group
LOCAL_ITERATIONS = {
    "max_iterations": Integer(1),
    "tol": NON_NEGATIVE,
    "n_restarts": Integer(0),
    "restart_iterations": Integer(1),
    "bound_tol": NON_NEGATIVE,
    "dtype": ("float32", "float64"),
}


class StreamKernel(Kernel):
    """Base of kernels that make streams.

    Subclasses write `stream_schedule` and `_empty_stream`, and override `_stream_start` if the start must be changed
    for a stream.
    """

    not_on_shards = "its sums of responsibilities would depend on the parts"

    @property
    def is_sampler(self) -> bool:
        """Return False: the steps improve a bound of the evidence."""
        return False

    @property
    def makes_draws(self) -> bool:
        """Return False: labels are soft."""
        return False

    def stream_schedule(self) -> Any:
        """Return the schedule of a run that learns chunks."""
        raise NotImplementedError

    def _check_settings(self, model, data):
        """Raise for settings out of range; subclasses add unsuitable models and data."""
        check_settings(self)
        if getattr(self, "n_restarts", None) == 0:
            refuse_unused(self, ["restart_iterations"], why="n_restarts=0", remedy="give n_restarts")

    def _empty_stream(self, model, data, seed):
        """Return a stream that has learned nothing; `data` is its first chunk."""
        raise NotImplementedError

    def _stream_start(self, stream, data, start):
        """Return what `stream.begin` needs of the checked start; by default the start itself."""
        return start

    def check_stream(self, model: Any, data: Dataset) -> None:
        """Raise as `check` does, for a run that learns chunks; `data` is one of them.

        Parameters
        ----------
        model : MixtureModel or AdmixtureModel
            Bound to the data.
        data : Dataset
            A chunk.
        """
        self._check_settings(model, data)
        check_settings(self.stream_schedule())

    def stream(
        self, model: Any, data: Dataset, *, seed: Any = None, start: Any = "auto", n_clusters: int | None = None
    ) -> Any:
        """Return the state of a run that learns chunks of data and keeps none of them.

        This method does not learn the first chunk.

        Parameters
        ----------
        model : MixtureModel or AdmixtureModel
            As in `init`.
        data : Dataset
            The first chunk. It binds the family and gives the start; for streams of clusters it also fixes the
            coordinates of the passes. A kernel of rows in groups needs whole groups.
        seed, start, n_clusters
            As in `init`.

        Returns
        -------
        VariationalStream, GroupedStream or TopicStream
            The type depends on the kernel.
        """
        model, data, seed, first = self.prepare(
            model, data, seed=seed, start=start, n_clusters=n_clusters, check=self.check_stream
        )
        stream = self._empty_stream(model, data, seed)
        stream.begin(data, self._stream_start(stream, data, first))
        return stream

    def resumed_stream(self, model: Any, data: Dataset, *fit: Any, seed: int) -> Any:
        """Return a stream that continues from the results of a finished fit.

        Parameters
        ----------
        model : MixtureModel or AdmixtureModel
            With the bound family of the fit.
        data : Dataset
            The next chunk. It is checked, but not learned here.
        *fit
            Arguments of the method `resume` of the stream: the statistics of the fit, and what else this stream needs.
        seed : int
            Seed of 64 bits.
        """
        self.check_stream(model, data)
        stream = self._empty_stream(model, data, seed)
        stream.resume(*fit)
        return stream
