"""Convergence of several chains from quantities that do not depend on the names of clusters.

Rank-normalised split R-hat and effective sample sizes of Vehtari, Gelman, Simpson, Carpenter & Buerkner 2021. Draws
have shape (chains, draws): log joint, number of clusters, size of the largest one. Labels themselves are not such a
quantity. O(S log S) for S draws in all.
"""

import numpy as np
from scipy.special import ndtri


def rhat(draws):
    """Rank-normalised split R-hat: near 1 when the chains agree; above 1.01 they do not yet.

    Parameters
    ----------
    draws : (chains, draws) or (draws,) array_like
        At least 4 draws of each chain, warm-up left out.

    Returns
    -------
    float
        The larger of the values for location (bulk) and for spread (distance from the median); NaN where all draws
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


def bulk_ess(draws):
    """Effective sample size of the bulk: independent draws that would locate the centre as well.

    Parameters
    ----------
    draws : (chains, draws) or (draws,) array_like
        At least 4 draws of each chain, warm-up left out.

    Returns
    -------
    float
        At most S log10(S) for S draws in all; NaN where all draws are equal or one is not finite.

    Notes
    -----
    Of the rank-normalised split chains; sums of neighbouring autocorrelations are cut where they turn negative and
    made monotone (Geyer 1992, initial positive and monotone sequences).
    """
    chains = _split(draws)
    return _ess(_rank_normal(chains)) if _is_usable(chains) else np.nan


def tail_ess(draws):
    """Effective sample size of the tails: the smaller of those of the indicators of the 5 % and 95 % quantiles."""
    chains = _split(draws)
    if not _is_usable(chains):
        return np.nan
    below = [(chains <= np.quantile(chains, p)).astype(np.float64) for p in (0.05, 0.95)]
    sizes = [_ess(z) for z in below if np.ptp(z) > 0]
    return float(min(sizes)) if sizes else np.nan


def diagnose(traces, *, columns=("objective", "n_clusters"), n_warmup=None):
    """R-hat and effective sample sizes of columns of the traces of several chains.

    Parameters
    ----------
    traces : sequence of Trace
        Each without its warm-up, then cut to the length of the shortest. Traces of loaded mixtures are taken too.
    columns : sequence of str
    n_warmup : int, optional
        Leading steps of each chain to leave out in place of the warm-up that its trace knows.

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


def _split(draws):
    """Each chain as two: (2 chains, draws // 2); of an odd number the middle draw is left out."""
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
    # antithetic chains may sum to almost nothing; the cap is that of the paper
    time = max(2.0 * pairs.sum() - 1.0, 1.0 / np.log10(m * n))
    return float(m * n / time)


def _autocovariance(chains):
    """Biased autocovariance of each chain at all lags, by FFT."""
    n = chains.shape[1]
    centred = chains - chains.mean(axis=1, keepdims=True)
    spectrum = np.fft.rfft(centred, n=2 * n, axis=1)
    return np.fft.irfft(spectrum * np.conj(spectrum), n=2 * n, axis=1)[:, :n] / n
