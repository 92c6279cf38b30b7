"""Hyper-parameters that are drawn together with the partition, in the steps that count.

Where draws of the partition are kept, learned hyper-parameters go on being drawn with it. One frozen value would make
the posterior narrower than it is, and another seed would give another posterior. Where no draws are kept they stay as
the warm-up has left them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from expfam.samplers.chain.kernel import Cycle
from expfam.samplers.hyper.slice import UpdateHyper

if TYPE_CHECKING:
    from collections.abc import Sequence

    from expfam.model.mixture import MixtureModel
    from expfam.samplers.chain.kernel import Kernel
    from expfam.samplers.hyper.record import HyperRecorder


def learning(kernel: Kernel, learned: Sequence[str]) -> Cycle:
    """Return the kernel, or those of a cycle, followed by an update of hyper-parameters."""
    kernels = kernel.kernels if type(kernel) is Cycle else (kernel,)
    return Cycle(*kernels, UpdateHyper(family=tuple(learned), weights=False))


def kernel_of_draws(kernel: Kernel, learned: Sequence[str], *, n_draws: int) -> Kernel:
    """Return the kernel of the steps that count.

    Parameters
    ----------
    kernel : Kernel
        Kernel of the labels.
    learned : sequence of str
        Hyper-parameters of the family that are learned.
    n_draws : int
        Draws that are kept.

    Returns
    -------
    Kernel
        With updates of the hyper-parameters where draws are kept; else, and for kernels that optimise, `kernel` itself.

    Examples
    --------
    >>> from expfam.fitting.drawn_hyper import kernel_of_draws
    >>> from expfam.samplers import CollapsedGibbs
    >>> kernel_of_draws(CollapsedGibbs(), ["rate"], n_draws=0)
    CollapsedGibbs(order='sequential', n_threads=None)
    >>> len(kernel_of_draws(CollapsedGibbs(), ["rate"], n_draws=50).kernels)
    2
    """
    return learning(kernel, learned) if learned and n_draws and kernel.is_sampler else kernel


def values_of_draws(
    recorders: Sequence[HyperRecorder | None], rows: Sequence[npt.NDArray[np.int64]]
) -> dict[str, npt.NDArray[np.float64]]:
    """Return the hyper-parameters of the kept draws by name, chain after chain: (M,) each.

    Parameters
    ----------
    recorders : sequence of HyperRecorder or None
        One for each chain; None where nothing is learned.
    rows : sequence of (m,) int64 ndarray
        Places of the draws of each chain among the steps that count.
    """
    found = [recorder for recorder in recorders if recorder is not None]
    if len(found) < len(rows):
        return {}
    values = np.concatenate([recorder.values[own] for recorder, own in zip(found, rows)])
    return found[0].prior.columns(values)


def values_of_steps(recorders: Sequence[HyperRecorder | None]) -> dict[str, npt.NDArray[np.float64]]:
    """Return the hyper-parameters of every step that counts by name: (C, T) each.

    Chains are cut to the shortest.
    """
    found = [recorder for recorder in recorders if recorder is not None]
    if len(found) < len(recorders) or not found:
        return {}
    values = [recorder.values for recorder in found]
    least = min(map(len, values))
    return found[0].prior.columns(np.stack([each[:least] for each in values]))


def model_of_best(run: Any) -> MixtureModel:
    """Return the model of the step of a chain that has the highest log joint.

    Where nothing was recorded it is that of the last step.
    """
    objective = run.trace.counted("objective")
    if run.hyper is None or not len(objective) or len(run.hyper.values) != len(objective):
        return run.state.model
    return run.hyper.prior.model_at(run.hyper.values[int(np.argmax(objective))])


def mean_model(runs: Sequence[Any]) -> MixtureModel:
    """Return the model with the mean hyper-parameters of all steps that count.

    The means are those of the logs; that of the discount is a plain one.
    """
    values = [run.hyper.values for run in runs if run.hyper is not None]
    if len(values) < len(runs) or not sum(map(len, values)):
        return runs[0].state.model
    return runs[0].hyper.prior.model_at(np.concatenate(values).mean(axis=0))
