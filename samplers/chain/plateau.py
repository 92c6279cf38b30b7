"""Rule that ends the run of a sampler once the log joint has stopped rising."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from expfam.protocols import Info

_LEAST_GAIN = 0.5  # nats


class Plateau:
    """Callback that ends a run when a window of steps has gained almost nothing.

    The log joint is compared, and nothing else but the numbers of accepted splits and merges. So the number of steps
    depends on data and seed only, not on threads or on the time that a step takes.

    Parameters
    ----------
    n_rows : int
        Number of rows that the steps move.
    window : int
        Number of steps of a window; at least two windows of steps are made.
    gain_per_row : float
        Gain of a window, nats a row, below which the run ends.

    Attributes
    ----------
    is_reached : bool
        Whether the rule has ended the run.

    Examples
    --------
    >>> from expfam.protocols import Info
    >>> from expfam.samplers.chain.plateau import Plateau
    >>> plateau = Plateau(100, window=2)
    >>> [plateau(Info(t, objective, 3, 0, 0, 0.0, {}), None) for t, objective in enumerate([-9.0, -5.0, -4.9, -5.2])]
    [False, False, False, True]

    Notes
    -----
    The run ends if the largest log joint of the last window exceeds the largest one before it by less than 0.5 nats
    or `gain_per_row` for each row, whichever is more, and if no split or merge was accepted in the window.
    """

    def __init__(self, n_rows: int, *, window: int = 5, gain_per_row: float = 1e-4) -> None:
        self.least_gain, self.window = max(_LEAST_GAIN, gain_per_row * n_rows), window
        self.objectives: list[float] = []
        self.last_change, self.is_reached = 0, False  # number of steps up to the last accepted split or merge

    def __call__(self, info: Info, state: Any) -> bool:
        """Take note of a step; return whether the run ends."""
        self.objectives.append(info.objective)
        n, w = len(self.objectives), self.window
        if _cluster_moves(info):
            self.last_change = n
        if n >= 2 * w and n - self.last_change >= w:
            self.is_reached = max(self.objectives[-w:]) - max(self.objectives[:-w]) < self.least_gain
        return self.is_reached

    @property
    def is_level(self) -> bool:
        """Return whether the second half of the steps has gained almost nothing over the first one.

        On few rows splits and merges may be accepted in every window, and the rule ends no run, although the log joint
        has long ceased to rise.
        """
        half = len(self.objectives) // 2
        return half >= self.window and max(self.objectives[half:]) - max(self.objectives[:half]) < self.least_gain


def _cluster_moves(info):
    """Return how many splits and merges a step has accepted, also within compositions."""
    counts = info.extra
    own = counts.get("splits_accepted", 0) + counts.get("merges_accepted", 0)
    return own + sum(_cluster_moves(part) for part in counts.get("parts", ()))
