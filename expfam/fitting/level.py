"""Whether a run of sampling or optimisation was over when it ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from expfam.samplers.chain.callbacks import Plateau

if TYPE_CHECKING:
    from expfam.samplers.chain.trace import Trace


def was_level(trace: Trace, kernel: Any, state: Any, n_moved: float) -> bool:
    """Return whether an optimiser was done, or the log joint was level at the end of a run.

    It is level where the second half of the counted steps has gained almost nothing over the first one; see `Plateau`.

    Parameters
    ----------
    trace : Trace
    kernel : Kernel
        Of the last steps.
    state : State
        At the end.
    n_moved : float
        Rows, or tokens, that a step moves.
    """
    if trace.interrupted:
        return False
    rule = Plateau(int(n_moved))
    rule.objectives = trace.counted("objective").tolist()
    return bool(kernel.is_done(state) or rule.is_level)
