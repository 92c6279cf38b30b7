"""Warnings of chains that have not agreed, and what to change."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from expfam.amounts import counted
from expfam.params import is_auto
from expfam.samplers.chain.agreement import LEAST_ESS, MOST_RHAT, Diagnostics, StepRecord
from expfam.user_warnings import warn


def warn_of_disagreement(sampler: Any, diagnostics: Diagnostics, steps: StepRecord, *, n_warmup: int) -> None:
    """Warn where several chains have not agreed; the warning names what to change.

    Parameters
    ----------
    sampler : str or Kernel
        As it was given.
    diagnostics : Diagnostics
    steps : StepRecord
    n_warmup : int
        Steps of the warm-up of chain 0.
    """
    if diagnostics.n_chains < 2 or diagnostics.have_agreed:
        return
    rhats, ess = diagnostics.rhats, diagnostics.scalars["log_joint"].bulk_ess
    values = ", ".join(
        f"{name} {rhats[key]:.2f}"
        for key, name in (("pairs", "of pair agreements"), ("log_joint", "log joint"), ("n_clusters", "K"))
        if not np.isnan(rhats[key])
    )
    low, high = diagnostics.widest
    wide = ""
    if high - low >= 0.1:
        wide = f"; two rows together with probability {low:.2f} or {high:.2f}, as the chain is"
    short = f"; {counted(ess, 'effective draw', spec='.0f')} of the log joint (want {LEAST_ESS * diagnostics.n_chains})"
    is_apart = any(rhats[key] > MOST_RHAT for key in ("pairs", "log_joint", "n_clusters"))
    begin = "disagree" if is_apart else "are too short"
    warn(
        f"Mixture: {counted(diagnostics.n_chains, 'chain')} {begin}: R-hat {values} (want <= {MOST_RHAT}){wide}"
        f"{short if diagnostics.is_short else ''}. Try {_remedy(sampler, diagnostics, steps, n_warmup)};"
        " posterior_.diagnostics has the rest",
        ConvergenceWarning,
    )


def _remedy(sampler, diagnostics, steps, n_warmup):
    """Return the settings to change, and their values."""
    rhats, log_joint = diagnostics.rhats, steps.scalars["log_joint"]
    n_chains, n_steps = np.shape(log_joint)
    warm = f"n_warmup={4 * max(n_warmup, 25)}"
    splits = is_auto(sampler) or "split" in str(sampler).lower()
    if rhats["log_joint"] > MOST_RHAT and _still_rises(log_joint):
        return warm
    if rhats["log_joint"] > MOST_RHAT or rhats["n_clusters"] > MOST_RHAT or rhats["pairs"] > MOST_RHAT:
        return f"{warm} or n_steps={4 * n_steps}" if splits else f'{warm} or sampler="split_merge"'
    factor = LEAST_ESS * n_chains / diagnostics.scalars["log_joint"].bulk_ess
    return f"n_steps={_rounded_up(n_steps * factor)}"


def _still_rises(log_joint):
    """Return whether second halves of chains lie above first ones by half a deviation."""
    half = log_joint.shape[1] // 2
    gain = log_joint[:, -half:].mean(axis=1) - log_joint[:, :half].mean(axis=1)
    within = log_joint[:, -half:].std(axis=1).mean()
    return bool(gain.mean() > 0.5 * within)


def _rounded_up(value):
    """Return the next number with two leading digits."""
    unit = 10 ** max(0, int(np.log10(max(value, 1))) - 1)
    return int(-(-value // unit) * unit)
