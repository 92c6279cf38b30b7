"""Some of the rows, drawn without replacement for work that need not see all of them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from expfam.structures.ground.rng import generator


def drawn_rows(n_rows: int, n_drawn: int, *, seed: int, unit: int, step: int = 0) -> npt.NDArray[np.int64] | None:
    """Draw `n_drawn` of the rows: sorted, or None if there are no more.

    Parameters
    ----------
    n_rows, n_drawn : int
    seed : int
        Seed of the chain, 64 bits.
    unit, step : int
        They name the stream of random numbers of the purpose "start".

    Returns
    -------
    (n_drawn,) int64 ndarray or None

    Examples
    --------
    >>> from expfam.samplers.geometry.drawn_rows import drawn_rows
    >>> drawn_rows(3, 3, seed=0, unit=7) is None, drawn_rows(9, 4, seed=0, unit=7).size
    (True, 4)
    """
    if n_rows <= n_drawn:
        return None
    rng = generator(seed, "start", unit=unit, step=step)
    return np.sort(rng.choice(n_rows, n_drawn, replace=False, shuffle=False))
