"""The warning before a fit that moves many rows one by one in Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from expfam.amounts import counted
from expfam.errors import CapabilityError, DataWarning
from expfam.forecast.time import forecast_duration, format_seconds
from expfam.samplers.collapsed.gibbs import CollapsedGibbs
from expfam.samplers.collapsed.metropolis import CollapsedMetropolis
from expfam.samplers.uncollapsed.kernel import UncollapsedGibbs
from expfam.samplers.variational.mixture import SparseVariational
from expfam.user_warnings import warn

if TYPE_CHECKING:
    from expfam.model.data import Dataset
    from expfam.model.mixture import MixtureModel
    from expfam.samplers.chain.kernel import Kernel

_MOST_MOVES = 1_000_000  # rows times steps


def warn_of_slow_fit(
    kernel: Kernel, model: MixtureModel, data: Dataset, n_steps: int, *, seed: int, start: Any, n_chains: int = 1
) -> None:
    """Warn where a collapsed sampler is to move many rows of a family written in NumPy.

    The warning has the forecast of the time, and names the sampler that is faster.

    Parameters
    ----------
    kernel : Kernel
    model : MixtureModel
        Bound to the data.
    data : Dataset
    n_steps : int
        All steps of the fit.
    seed : int
    start : str or (N,) array_like of int
    n_chains : int
        Chains that take turns; their steps are part of `n_steps`.
    """
    if model.family.is_compiled or data.n_rows * n_steps <= _MOST_MOVES or not _moves_rows_one_by_one(kernel):
        return
    duration = forecast_duration(kernel, model, data, n_steps, seed=seed, start=start)
    warn(
        f"Mixture: {counted(n_steps, 'step')} {_of_chains(n_chains)}will take {format_seconds(duration.low)} to "
        f"{format_seconds(duration.high)}, because {type(kernel).__name__} moves "
        f"{counted(data.n_rows, 'row', spec=',')} one by one and the family {model.family.name!r} is written in "
        f"NumPy. {_remedy(model, data)}",
        DataWarning,
    )


def _of_chains(n_chains):
    return f"of {counted(n_chains, 'chain')}, which take turns, " if n_chains > 1 else ""


def _moves_rows_one_by_one(kernel):
    parts = getattr(kernel, "kernels", None)
    if parts is not None:
        return any(_moves_rows_one_by_one(part) for part in parts)
    return isinstance(kernel, (CollapsedGibbs, CollapsedMetropolis))


def _remedy(model, data):
    """Return what makes the fit faster."""
    for name, kernel in (("uncollapsed_gibbs", UncollapsedGibbs()), ("variational", SparseVariational())):
        try:
            kernel.check(model, data)
        except CapabilityError:
            continue
        return f"sampler={name!r} moves all rows together and is many times faster: write Mixture(sampler={name!r})"
    return "Take fewer rows or fewer steps"
