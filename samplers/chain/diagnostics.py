"""Convergence diagnostics of several chains.

Rank-normalised split R-hat and effective sample sizes of Vehtari, Gelman, Simpson, Carpenter & Buerkner 2021. Draws
have shape (chains, draws). Use quantities that do not depend on the names of the clusters: the log joint, the number of
clusters, the size of the largest cluster; labels depend on them. O(S log S) for S draws in total.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

if TYPE_CHECKING:
    from expfam.samplers.chain.trace import WarmedColumns


def rhat(draws: npt.ArrayLike) -> float:
    """Return the rank-normalised split R-hat of several chains.

    It is near 1 if the chains agree; above 1.01 they do not agree yet.

    Parameters
    ----------
    draws : (chains, draws) or (draws,) array_like
        At least 4 draws of each chain, without the warm-up.

    Returns
    -------
    float
        The larger of the values for the location (bulk) and for the spread (distance from the median); NaN if all draws
        are equal or one is not finite.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.samplers.chain.diagnostics import rhat
    >>> draws = np.random.default_rng(0).normal(size=(4, 500))
    >>> bool(rhat(draws) < 1.01), bool(rhat(draws + [[0], [0], [0], [3]]) > 1.1)
    (True, True)
    """
    chains = _split(draws)
    if not _is_usable(chains):
        return np.nan
    folded = np.abs(chains - np.median(chains))
    values = [_plain_rhat(_rank_normal(z)) for z in (chains, folded) if np.ptp(z) > 0]
    return float(max(values))


def bulk_ess(draws: npt.ArrayLike) -> float:
    """Return the effective sample size of the bulk.

    It is the number of independent draws that would locate the centre equally well.

    Parameters
    ----------
    draws : (chains, draws) or (draws,) array_like
        As of `rhat`.

    Returns
    -------
    float
        At most S log10(S) for S draws in total; NaN if all draws are equal or one is not finite.

    Notes
    -----
    It is computed from the rank-normalised split chains. Sums of two neighbouring autocorrelations are cut where they
    become negative and are made monotone (Geyer 1992, initial positive and monotone sequences).
    """
    chains = _split(draws)
    return _ess(_rank_normal(chains)) if _is_usable(chains) else np.nan


def tail_ess(draws: npt.ArrayLike) -> float:
    """Return the effective sample size of the tails.

    It is the smaller of the effective sample sizes of the indicators of the 5 % and 95 % quantiles.
    """
    chains = _split(draws)
    if not _is_usable(chains):
        return np.nan
    below = [(chains <= np.quantile(chains, p)).astype(np.float64) for p in (0.05, 0.95)]
    sizes = [_ess(z) for z in below if np.ptp(z) > 0]
    return float(min(sizes)) if sizes else np.nan


def diagnose(
    traces: Sequence[WarmedColumns],
    *,
    columns: Sequence[str] = ("objective", "n_clusters"),
    n_warmup: int | None = None,
) -> dict[str, dict[str, float]]:
    """Compute R-hat and effective sample sizes of columns of the traces of several chains.

    Parameters
    ----------
    traces : sequence of Trace
        One for each chain; traces of loaded mixtures work too. The warm-up of each is left out, then all are cut to the
        length of the shortest.
    columns : sequence of str
        Names of columns of the traces.
    n_warmup : int, optional
        Number of leading steps of each chain to leave out, in place of the warm-up of its trace.

    Returns
    -------
    dict of dict
        ``result[column]["rhat" | "bulk_ess" | "tail_ess"]``.
    """
    result = {}
    for name in columns:
        chains = [trace.counted(name, n_warmup=n_warmup) for trace in traces]
        length = min(len(chain) for chain in chains)
        draws = np.array([chain[:length] for chain in chains], dtype=np.float64)
        result[name] = {"rhat": rhat(draws), "bulk_ess": bulk_ess(draws), "tail_ess": tail_ess(draws)}
    return result


def without_rounding(draws: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return draws of which those that differ by rounding errors alone are equal.

    A log joint that is kept up to date by differences has other rounding errors in each chain, even of one partition.
    Their ranks would be taken for a disagreement of the chains.

    Parameters
    ----------
    draws : array_like of float

    Returns
    -------
    ndarray of float64
        Neighbours nearer than 1e-9 of the largest value are set to the least of them; values that are not finite are
        left as they are.

    Examples
    --------
    >>> from expfam.samplers.chain.diagnostics import without_rounding
    >>> without_rounding([-3.0, -3.0 + 1e-13, 5.0])
    array([-3., -3.,  5.])
    """
    values = np.asarray(draws, dtype=np.float64)
    if not values.size or not np.isfinite(values).all():
        return values
    order = np.argsort(values, axis=None)
    ascending = values.ravel()[order]
    is_first = np.diff(ascending, prepend=-np.inf) > 1e-9 * max(1.0, float(np.abs(values).max()))
    result = np.empty_like(ascending)
    result[order] = ascending[is_first][np.cumsum(is_first) - 1]
    return result.reshape(values.shape)


def _split(draws):
    """Split each chain in two halves: (2 chains, draws // 2).

    Of an odd number of draws the one in the middle is left out.
    """
    draws = np.atleast_2d(np.asarray(draws, dtype=np.float64))
    if draws.ndim != 2 or draws.shape[1] < 4:
        raise ValueError(f"draws must have shape (chains, draws) with at least 4 draws; got {draws.shape}")
    half = draws.shape[1] // 2
    return np.concatenate([draws[:, :half], draws[:, -half:]])


def _is_usable(chains):
    return bool(np.isfinite(chains).all() and np.ptp(chains) > 0)


def _rank_normal(chains):
    _, inverse, counts = np.unique(chains, return_inverse=True, return_counts=True)
    rank = np.cumsum(counts) - (counts - 1) / 2.0  # ties share the mean of their ranks
    return ndtri((rank[inverse.reshape(chains.shape)] - 0.375) / (chains.size + 0.25))


def _plain_rhat(chains):
    n = chains.shape[1]
    within = chains.var(axis=1, ddof=1).mean()
    between = chains.mean(axis=1).var(ddof=1)
    return np.inf if within == 0 else float(np.sqrt((n - 1) / n + between / within))


def _ess(chains):
    m, n = chains.shape
    covariance = _autocovariance(chains).mean(axis=0)
    within = covariance[0] * n / (n - 1)
    variance = covariance[0] + chains.mean(axis=1).var(ddof=1)
    rho = 1.0 - (within - covariance * n / (n - 1)) / variance
    rho[0] = 1.0
    pairs = rho[: n - n % 2].reshape(-1, 2).sum(axis=1)
    negative = np.flatnonzero(pairs < 0)
    pairs = np.minimum.accumulate(pairs[: negative[0]] if negative.size else pairs)
    # the autocorrelations of antithetic chains may sum to almost zero; the paper has the same lower limit
    time = max(2.0 * pairs.sum() - 1.0, 1.0 / np.log10(m * n))
    return float(m * n / time)


def _autocovariance(chains):
    """Compute the biased autocovariance of each chain at all lags by FFT: (chains, draws)."""
    n = chains.shape[1]
    centred = chains - chains.mean(axis=1, keepdims=True)
    spectrum = np.fft.rfft(centred, n=2 * n, axis=1)
    return np.fft.irfft(spectrum * np.conj(spectrum), n=2 * n, axis=1)[:, :n] / n
