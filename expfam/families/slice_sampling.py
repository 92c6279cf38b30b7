"""Updates of learned hyper-parameters: slice sampling of real variables, and their modes.

Both evaluate the target about ten times.
"""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from expfam.protocols import Floats

MOST_ROUNDS = 3  # of the moves of several hyper-parameters to their modes
SETTLED = 0.1  # change of the log of a factor below which a further round brings nothing
MOST_STEPS = 20  # outwards, of one update
LEAST_WIDTH = 1e-12  # of an interval, relative to the present value: what is narrower holds nothing else


def log_target(
    evidence: Callable[[float], float] | None, otherwise: Callable[[float], float]
) -> Callable[[float], float]:
    """Return the log target of a hyper-parameter as a function of the log t of its factor.

    The prior of t is normal with standard deviation 3. `otherwise` gives the log evidence where `evidence` is None or
    not finite.
    """

    def target(t):
        value = np.nan if evidence is None else evidence(t)
        if not isfinite(value):
            value = otherwise(t)
        return value - 0.5 * (t / 3.0) ** 2

    return target


def finite(target: Callable[[float], float]) -> Callable[[float], float]:
    """Return a log target that is -inf where it cannot be computed, far from the mode."""

    def of(t: float) -> float:
        try:
            value = target(t)
        except FloatingPointError:
            return -np.inf
        return value if isfinite(value) else -np.inf

    return of


def slice_sample(
    target: Callable[[float], float],
    t: float,
    rng: np.random.Generator,
    *,
    width: float = 1.0,
    low: float = -np.inf,
    high: float = np.inf,
    max_steps: int = MOST_STEPS,
) -> float:
    """Draw a new value of a scalar by one slice-sampling update.

    Parameters
    ----------
    target : callable
        Log density up to a constant, nats.
    t : float
        Present value, within [low, high].
    rng : numpy Generator
    width : float
        Width of the first interval around `t`, and of each step out.
    low, high : float
        Bounds of the values.
    max_steps : int
        Largest total number of steps out. They are split at random between the two sides, which keeps the target
        distribution exact.

    Notes
    -----
    Stepping out and shrinkage of Neal 2003, figs. 3 and 5.
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
        if right - left < LEAST_WIDTH * (1.0 + abs(t)):
            return t


def climb_to_mode(
    target: Callable[[float], float], t: float, *, low: float = -np.inf, high: float = np.inf, tol: float = 0.03
) -> float:
    """Return a maximum of `target` that is reached from `t` uphill.

    Steps double as long as the target rises; then parabolas and thirds shrink the interval around the best point.

    Parameters
    ----------
    target : callable
        Function of a float.
    t : float
        Value to begin with.
    low, high : float
        Bounds of the maximum.
    tol : float
        The maximum is found within it.

    Returns
    -------
    float
    """
    best, step = float(np.clip(t, low, high)), 0.5
    value = target(best)
    left, right = max(best - step, low), min(best + step, high)
    at_left = target(left) if left < best else -np.inf
    at_right = target(right) if right > best else -np.inf
    while at_left > value or at_right > value:
        step *= 2.0
        if at_right >= at_left:
            left, at_left, best, value = best, value, right, at_right
            right = min(best + step, high)
            at_right = target(right) if right > best else -np.inf
        else:
            right, at_right, best, value = best, value, left, at_left
            left = max(best - step, low)
            at_left = target(left) if left < best else -np.inf
    while right - left > 2.0 * tol:
        proposal = _inner_point(left, best, right, at_left, value, at_right, tol)
        found = target(proposal)
        if found > value:
            if proposal > best:
                left, at_left = best, value
            else:
                right, at_right = best, value
            best, value = proposal, found
        elif proposal > best:
            right, at_right = proposal, found
        else:
            left, at_left = proposal, found
        if max(best - left, right - best) <= tol:
            break
    return best


def _inner_point(left, best, right, at_left, value, at_right, tol):
    """Return a point to try next: the top of a parabola, or a third of the longer side."""
    down, up = best - left, right - best
    if np.isfinite(at_left) and np.isfinite(at_right) and down > 0.0 and up > 0.0:
        rise, fall = (value - at_left) / down, (value - at_right) / up
        bend = rise + fall
        if bend > 0.0:
            top = best + 0.5 * (rise * up - fall * down) / bend
            if abs(top - best) < tol:  # else the longer side would never shrink
                top = best + tol if up > down else best - tol
            if left < top < right:
                return top
    return best + 0.38 * up if up > down else best - 0.38 * down


def slice_sample_each(
    target: Callable[[Floats], Floats],
    t: Floats,
    rng: np.random.Generator,
    *,
    low: float = -np.inf,
    high: float = np.inf,
) -> Floats:
    """Draw a new value of each of some independent scalars by one slice-sampling update each.

    The intervals are those of `slice_sample` with a width of 1, and all scalars step out and shrink together, so that
    `target` is evaluated about twenty times in all.

    Parameters
    ----------
    target : callable
        Maps values (V,) to log densities (V,), up to constants, nats: that of each scalar depends on its own value
        alone.
    t : (V,) float64 ndarray
        Present values, within [low, high].
    rng : numpy Generator
    low, high : float
        Bounds of the values.

    Returns
    -------
    (V,) float64 ndarray
    """
    t = np.asarray(t, dtype=np.float64)
    level = target(t) + np.log1p(-rng.random(t.shape))
    left = t - rng.random(t.shape)
    steps = (MOST_STEPS * rng.random(t.shape)).astype(np.int64)
    right = _stepped_out(target, left + 1.0, level, MOST_STEPS - 1 - steps, 1.0, high)
    left = np.maximum(_stepped_out(target, left, level, steps, -1.0, low), low)
    right, new, is_open = np.minimum(right, high), t.copy(), np.ones(t.shape, dtype=bool)
    while is_open.any():
        proposal = np.where(is_open, left + (right - left) * rng.random(t.shape), new)
        is_in = is_open & (target(proposal) > level)
        new = np.where(is_in, proposal, new)
        is_open &= ~is_in
        left = np.where(is_open & (proposal < t), proposal, left)
        right = np.where(is_open & (proposal >= t), proposal, right)
        is_open &= right - left >= LEAST_WIDTH * (1.0 + np.abs(t))
    return new


def _stepped_out(target, end, level, steps, step, bound):
    """Return the ends of intervals after steps outwards, as long as these ends are in the slice."""
    is_open = steps > 0
    while True:
        is_open &= end * step < bound * step
        if not is_open.any():
            return end
        is_open &= target(end) > level
        end = np.where(is_open, end + step, end)
        steps = steps - is_open
        is_open &= steps > 0


def climb_to_modes(
    target: Callable[[Floats], Floats], t: Floats, *, low: float = -np.inf, high: float = np.inf, tol: float = 0.03
) -> Floats:
    """Return for each of some independent scalars a maximum that is reached uphill.

    Steps double as long as they rise, and are halved, and turned, where they do not.

    Parameters
    ----------
    target : callable
        That of `slice_sample_each`.
    t : (V,) float64 ndarray
        Values to begin with.
    low, high : float
        Bounds of the maxima.
    tol : float
        Each maximum is found within it.

    Returns
    -------
    (V,) float64 ndarray
    """
    best = np.clip(np.asarray(t, dtype=np.float64), low, high)
    value, step = target(best), np.full(best.shape, 0.5)
    has_turned = np.zeros(best.shape, dtype=bool)
    while (np.abs(step) > 0.5 * tol).any():
        proposal = np.where(np.abs(step) > 0.5 * tol, np.clip(best + step, low, high), best)
        found = target(proposal)
        rises = found > value
        best, value = np.where(rises, proposal, best), np.where(rises, found, value)
        # the other side is tried before steps are halved
        step = np.where(rises, 2.0 * step, np.where(has_turned, -0.5 * step, -step))
        has_turned = ~rises & ~has_turned
    return best
