"""Figure of a trace: log joint and number of clusters over the steps of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from expfam.displays._axes import _CHAINS, _GREY, _INK, _SECOND, _clean, _pyplot
from expfam.errors import DataError
from expfam.samplers.chain.diagnostics import rhat

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
    chain : (T,) array_like of int, optional
        Chain of each step; by default all are of one chain.
    n_warmup : int
        Leading steps of each chain that are a warm-up. They are drawn on grey.

    Attributes
    ----------
    rhat : float
        Rank-normalised split R-hat of the log joint after the warm-up, of all chains; NaN for fewer than 4 steps.
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
        self,
        step: npt.ArrayLike,
        objective: npt.ArrayLike,
        n_clusters: npt.ArrayLike,
        seconds: npt.ArrayLike,
        *,
        chain: npt.ArrayLike | None = None,
        n_warmup: int = 0,
    ) -> None:
        parts = [np.asarray(part) for part in (step, objective, n_clusters, seconds)]
        if len({part.shape for part in parts}) != 1 or parts[0].ndim != 1:
            raise DataError(f"a trace needs four columns of one length; got shapes {[part.shape for part in parts]}")
        self.step, self.objective, self.n_clusters, self.seconds = parts
        self.chain = np.zeros(self.step.shape, dtype=np.int64) if chain is None else np.asarray(chain)
        if self.chain.shape != self.step.shape:
            raise DataError(f"chain must name the chain of each of {len(self.step)} steps; got {self.chain.shape}")
        self.n_warmup = int(n_warmup)
        self.rhat = self._rhat()

    def _rows(self):
        """Return the steps of each chain, by their places."""
        return [np.flatnonzero(self.chain == one) for one in np.unique(self.chain)]

    def _rhat(self):
        counted = [self.objective[rows[self.n_warmup :]] for rows in self._rows()]
        length = min(map(len, counted), default=0)
        return rhat([values[:length] for values in counted]) if length >= 4 else np.nan

    @classmethod
    def from_estimator(cls, estimator: Any) -> TraceDisplay:
        """Make the display of a fitted estimator's `trace_`."""
        columns = (estimator.trace_.column(name) for name in ("step", "objective", "n_clusters", "seconds"))
        return cls(*columns, n_warmup=estimator.trace_.n_warmup)

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
        chains = self._rows()
        for c, rows in enumerate(chains):
            x = self.step[rows] if against == "step" else np.cumsum(self.seconds[rows])
            colours = (_INK, _SECOND) if len(chains) == 1 else (_CHAINS[c % len(_CHAINS)],) * 2
            above.plot(x, self.objective[rows], color=colours[0], lw=1.6)
            below.step(x, self.n_clusters[rows], color=colours[1], lw=1.6, where="post")
            if c == 0 and self.n_warmup and len(rows):
                for axes in (above, below):
                    axes.axvspan(x[0], x[min(self.n_warmup, len(rows)) - 1], color="#e8ecef", lw=0, zorder=0)
        above.set_ylabel("log joint (nats)")
        _focus_on_later(above, self.objective)
        below.set_ylabel("clusters")
        below.set_xlabel("step" if against == "step" else "seconds")
        below.yaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
        total = float(np.sum(self.seconds))
        agreement = "" if np.isnan(self.rhat) else f"; R-hat of the log joint {self.rhat:.2f}"
        among = "" if len(chains) == 1 else f"{len(chains)} chains, "
        title = f"{among}{len(self.step)} steps in {total:.3g} s{agreement}"
        above.set_title(title, loc="left", fontsize="medium", color=_GREY)
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
