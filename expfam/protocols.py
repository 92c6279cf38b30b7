"""What a step of a kernel reports."""

from collections.abc import Mapping
from typing import Any, NamedTuple


class Info(NamedTuple):
    """What one step of a kernel did.

    Attributes
    ----------
    step : int
        Number of the step, from 1.
    objective : float
        Log joint or evidence bound after it, nats.
    n_clusters : int
        Clusters that hold data.
    proposed, accepted : int
        Moves; equal for kernels that draw exactly.
    seconds : float
        Wall time of the step.
    extra : Mapping
        What else a kernel has to say, by name.
    """

    step: int
    objective: float
    n_clusters: int
    proposed: int
    accepted: int
    seconds: float
    extra: Mapping[str, Any]
