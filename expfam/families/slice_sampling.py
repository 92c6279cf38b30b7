"""Slice sampling of one real variable, the update of all learned hyper-parameters.

One update evaluates the target about ten times.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable


def slice_sample(
    target: Callable[[float], float],
    t: float,
    rng: np.random.Generator,
    *,
    width: float = 1.0,
    low: float = -np.inf,
    high: float = np.inf,
    max_steps: int = 20,
) -> float:
    """Draw a new value of a scalar by one slice-sampling update.

    The update uses stepping out and shrinkage (Neal 2003, figs. 3 and 5). `target` is a log density up to a constant,
    nats. `t` is the present value, within [low, high]. The first interval around it, and each step out, has the given
    width. `max_steps` is the largest total number of steps out; they are split at random between the two sides, which
    keeps the target distribution exact.
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
