"""Figure of a trace: log joint and number of clusters over the steps of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from expfam.amounts import counted
from expfam.displays._axes import _CHAINS, _GREY, _INK, _SECOND, _clean, _pyplot
from expfam.errors import DataError
from expfam.samplers.chain.diagnostics import rhat, without_rounding

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
    n_warmup : int or (C,) array_like of int
        Leading steps of each chain that are a warm-up: one number, or one for each chain. They are drawn on
        grey; where chains have warm-ups of different lengths, in pale colours.

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
        n_warmup: int | npt.ArrayLike = 0,
    ) -> None:
        parts = [np.asarray(part) for part in (step, objective, n_clusters, seconds)]
        if len({part.shape for part in parts}) != 1 or parts[0].ndim != 1:
            raise DataError(f"a trace needs four columns of one length; got shapes {[part.shape for part in parts]}")
        self.step, self.objective, self.n_clusters, self.seconds = parts
        self.chain = np.zeros(self.step.shape, dtype=np.int64) if chain is None else np.asarray(chain)
        if self.chain.shape != self.step.shape:
            raise DataError(
                f"chain must name the chain of each of {counted(len(self.step), 'step')}; got {self.chain.shape}"
            )
        n_chains = len(np.unique(self.chain))
        if np.ndim(n_warmup) and np.shape(n_warmup) != (n_chains,):
            raise DataError(
                f"n_warmup has shape {np.shape(n_warmup)} for {counted(n_chains, 'chain')}: give one number a chain"
            )
        self.n_warmup = np.asarray(n_warmup).tolist()
        self.rhat = self._rhat()

    def _rows(self):
        """Return the steps of each chain, by their places."""
        return [np.flatnonzero(self.chain == one) for one in np.unique(self.chain)]

    def _warmups(self):
        """Return the length of the warm-up of each chain."""
        return np.broadcast_to(self.n_warmup, len(np.unique(self.chain))).tolist()

    def _rhat(self):
        kept = [self.objective[rows[n:]] for rows, n in zip(self._rows(), self._warmups())]
        length = min(map(len, kept), default=0)
        return rhat(without_rounding([values[:length] for values in kept])) if length >= 4 else np.nan

    @classmethod
    def from_estimator(cls, estimator: Any) -> TraceDisplay:
        """Make the display of a fitted estimator's `trace_`, or of the traces of all its chains."""
        traces = getattr(estimator, "traces_", [estimator.trace_])
        names = ("step", "objective", "n_clusters", "seconds")
        columns = (np.concatenate([trace.column(name) for trace in traces]) for name in names)
        chain = np.repeat(np.arange(len(traces)), [len(trace) for trace in traces])
        n_warmup = [trace.n_warmup for trace in traces]
        return cls(*columns, chain=chain, n_warmup=n_warmup if len(traces) > 1 else n_warmup[0])

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
        for c, (rows, n_warmup) in enumerate(zip(chains, self._warmups())):
            x = self.step[rows] if against == "step" else np.cumsum(self.seconds[rows])
            colours = (_INK, _SECOND) if len(chains) == 1 else (_CHAINS[c % len(_CHAINS)],) * 2
            is_shared = len(set(self._warmups())) == 1
            if is_shared:
                above.plot(x, self.objective[rows], color=colours[0], lw=1.6, label=f"chain {c}")
                below.step(x, self.n_clusters[rows], color=colours[1], lw=1.6, where="post")
            else:
                self._draw_chain(ax, x, rows, n_warmup, colours[0], label=f"chain {c}")
            if is_shared and c == 0 and n_warmup and len(rows):
                for axes in (above, below):
                    axes.axvspan(x[0], x[min(n_warmup, len(rows)) - 1], color="#e8ecef", lw=0, zorder=0)
        above.set_ylabel("log joint (nats)")
        if 1 < len(chains) <= len(_CHAINS):
            above.legend(loc="lower right", fontsize="small", frameon=False, ncols=min(4, len(chains)))
        _focus_on_later(above, self.objective)
        below.set_ylabel("clusters")
        below.set_xlabel("step" if against == "step" else "seconds")
        below.yaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
        total = float(np.sum(self.seconds))
        agreement = "" if np.isnan(self.rhat) else f"; R-hat of the log joint {self.rhat:.2f}"
        among = "" if len(chains) == 1 else f"{counted(len(chains), 'chain')}, "
        title = f"{among}{counted(len(self.step), 'step')} in {total:.3g} s{agreement}"
        above.set_title(title, loc="left", fontsize="medium", color=_GREY)
        for axes in (above, below):
            _clean(axes, grid="both")
        self.axes_, self.figure_ = (above, below), above.figure
        return self

    def _draw_chain(self, axes, x, rows, n_warmup, colour, *, label):
        """Draw one of several chains; its warm-up, whose length is its own, is pale."""
        for part, alpha in ((slice(0, n_warmup + 1), 0.3), (slice(n_warmup, None), 1.0)):
            style: dict[str, Any] = {"color": colour, "lw": 1.2, "alpha": alpha}
            axes[0].plot(x[part], self.objective[rows][part], label=label if alpha == 1.0 else None, **style)
            axes[1].step(x[part], self.n_clusters[rows][part], where="post", **style)


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
