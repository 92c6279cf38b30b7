"""Passes of a stream over all chunks, with callbacks and Ctrl-C."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from expfam.samplers.chain.callbacks import close_all

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from expfam.model.data import Dataset
    from expfam.protocols import Info


def made_passes(
    stream: Any,
    first: Iterable[Dataset],
    again: Callable[[], Iterable[Dataset]],
    n_passes: int,
    callbacks: Sequence[Callable[[Info, Any], Any]] = (),
) -> tuple[list[Info], bool]:
    """Make passes until the bound has settled, a callback asks for an end, or Ctrl-C does.

    Parameters
    ----------
    stream : StreamBase
        It learns the chunks.
    first : iterable of Dataset
        Chunks of the first pass.
    again : callable
        Returns the chunks of each further pass.
    n_passes : int
        Most passes.
    callbacks : sequence of callable
        Called as ``callback(info, stream)`` after each pass, all of them; a true result of one ends the passes. They
        are closed at the end, also after an error.

    Returns
    -------
    infos : list of Info
        One for each pass.
    is_interrupted : bool
        Whether Ctrl-C has ended the passes.

    Raises
    ------
    KeyboardInterrupt
        Ctrl-C came within the first pass, before anything was learned.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import Dataset, MixtureModel, Poisson, SymmetricDirichlet
    >>> from expfam.fitting.chunk_passes import made_passes
    >>> from expfam.samplers import SparseVariational
    >>> data = Dataset(np.repeat([[0, 9], [9, 0]], 20, axis=0), Poisson())
    >>> model = MixtureModel(data.family, SymmetricDirichlet(2))
    >>> stream = SparseVariational().stream(model, data, seed=0, start=np.arange(40) // 20)
    >>> infos, is_interrupted = made_passes(stream, [data], lambda: [data], 5, [lambda info, stream: True])
    >>> len(infos), is_interrupted
    (1, False)
    """
    infos: list[Info] = []
    try:
        for info in stream.sweeps(first, again, n_passes):
            infos.append(info)
            stops = [bool(callback(info, stream)) for callback in callbacks]
            if any(stops):
                break
    except KeyboardInterrupt:
        if not infos:
            raise
        return infos, True
    finally:
        close_all(callbacks)
    return infos, False
