"""Slice sampling of one real variable: the only update of hyper-parameters; some ten evaluations of the target each."""

import numpy as np


def slice_sample(target, t, rng, *, width=1.0, low=-np.inf, high=np.inf, max_steps=20):
    """One slice-sampling update of a scalar with stepping out and shrinkage (Neal 2003, figs. 3 and 5).

    Parameters
    ----------
    target : callable
        Log density, up to a constant, nats.
    t : float
        Present value, within [low, high].
    rng : numpy.random.Generator
    width : float
        First guess of the slice's width.
    low, high : float
        Bounds of the variable.
    max_steps : int
        Limit on steps out in all, split at random between the two sides as exactness requires.

    Returns
    -------
    float
    """
    level = target(t) + np.log1p(-rng.random())
    left = t - width * rng.random()
    right = left + width
    steps_left = int(max_steps * rng.random())
    steps_right = max_steps - 1 - steps_left
    while steps_left > 0 and left > low and target(left) > level:
        left, steps_left = left - width, steps_left - 1
    while steps_right > 0 and right < high and target(right) > level:
        right, steps_right = right + width, steps_right - 1
    left, right = max(left, low), min(right, high)
    while True:
        proposal = left + (right - left) * rng.random()
        if target(proposal) > level:
            return proposal
        if proposal < t:
            left = proposal
        else:
            right = proposal
        if right - left < 1e-12 * (1.0 + abs(t)):
            return t
