"""Stored statistics of clusters, compared with what an owner of components holds itself."""

import numpy as np

from expfam.structures.ground.stored import integers, numbers

_LISTS = ("words", "values")  # arrays whose length has nothing to do with the number of slots
_RANGES = {"max_factors": (1, 33)}  # of what count families multiply at once: with none a product would never end


def check_stored(arrays, own):
    """Refuse arrays of another type or shape than an owner's `own`; only the number of slots may differ.

    Parameters
    ----------
    arrays, own : dict of str to ndarray
        Of a file, and what `to_arrays` gives now.

    Raises
    ------
    ArchiveError
    """
    now, then = len(own["n"]), len(numbers(arrays, "n", (None,), low=0.0))
    for name, value in own.items():
        shape = _shape_of(name, np.asarray(value), now, then)
        if np.asarray(value).dtype.kind == "f":
            numbers(arrays, name, shape)
        else:
            integers(arrays, name, shape, *_RANGES.get(name, (0, 2**62)))


def _shape_of(name, value, now, then):
    if value.ndim == 0:
        return ()
    by_slot = name not in _LISTS and len(value) in (now, now + 1)
    return (then + len(value) - now if by_slot else None, *value.shape[1:])
