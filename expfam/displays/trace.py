"""Figure of a trace: log joint and number of clusters over the steps of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from expfam.displays._axes import _GREY, _INK, _SECOND, _clean, _pyplot
from expfam.errors import DataError

if TYPE_CHECKING:
    import numpy.typing as npt


class TraceDisplay:
    """Log joint and number of clusters of each step of a run.

    Parameters
    ----------
    step : (T,) array_like of int
    objective : (T,) array_like of float
        Log joint, nats.
    n_clusters : (T,) array_like of int
    seconds : (T,) array_like of float
        Wall time of each step.

    Attributes
    ----------
    figure_ : matplotlib Figure
    axes_ : pair of matplotlib Axes

    Examples
    --------
    >>> from expfam.displays.trace import TraceDisplay
    >>> display = TraceDisplay([1, 2, 3], [-90.0, -70.0, -68.0], [9, 5, 4], [0.1, 0.1, 0.1])
    >>> display.plot(against="seconds").axes_[1].get_ylabel()
    'clusters'
    """

    def __init__(
        self, step: npt.ArrayLike, objective: npt.ArrayLike, n_clusters: npt.ArrayLike, seconds: npt.ArrayLike
    ) -> None:
        parts = [np.asarray(part) for part in (step, objective, n_clusters, seconds)]
        if len({part.shape for part in parts}) != 1 or parts[0].ndim != 1:
            raise DataError(f"a trace needs four columns of one length; got shapes {[part.shape for part in parts]}")
        self.step, self.objective, self.n_clusters, self.seconds = parts

    @classmethod
    def from_estimator(cls, estimator: Any) -> TraceDisplay:
        """Make the display of a fitted estimator's `trace_`."""
        return cls(*(estimator.trace_.column(name) for name in ("step", "objective", "n_clusters", "seconds")))

    def plot(self, ax: Any = None, *, against: Literal["step", "seconds"] = "step") -> TraceDisplay:
        """Draw log joint and number of clusters in two panels, one above the other.

        Parameters
        ----------
        ax : pair of matplotlib Axes, optional
        against : {"step", "seconds"}
            The horizontal axis: step, or wall time since the first step.

        Returns
        -------
        self
        """
        if against not in ("step", "seconds"):
            raise ValueError(f"against must be 'step' or 'seconds'; got {against!r}")
        if ax is None:
            _, ax = _pyplot().subplots(
                2, 1, sharex=True, figsize=(6.4, 4.2), layout="constrained", height_ratios=(3, 2)
            )
        above, below = ax
        x = self.step if against == "step" else np.cumsum(self.seconds)
        above.plot(x, self.objective, color=_INK, lw=1.6)
        above.set_ylabel("log joint (nats)")
        _focus_on_later(above, self.objective)
        below.step(x, self.n_clusters, color=_SECOND, lw=1.6, where="post")
        below.set_ylabel("clusters")
        below.set_xlabel("step" if against == "step" else "seconds")
        below.yaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
        total = float(np.sum(self.seconds))
        above.set_title(f"{len(self.step)} steps in {total:.3g} s", loc="left", fontsize="medium", color=_GREY)
        for axes in (above, below):
            _clean(axes, grid="both")
        self.axes_, self.figure_ = (above, below), above.figure
        return self


def _focus_on_later(ax, objective):
    """Limit the vertical axis to later values if the first climb would flatten them."""
    finite = objective[np.isfinite(objective)]
    if len(finite) < 10:
        return
    later = finite[len(finite) // 4 :]
    low, high = later.min(), finite.max()
    margin = max(0.6 * (high - low), 1e-9 * abs(high))
    if finite.min() < low - 2.0 * margin:
        ax.set_ylim(low - margin, high + 0.15 * margin)
