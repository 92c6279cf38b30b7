"""Time of a fit, forecast from steps on samples of the rows before the fit begins.

`check_time` refuses a fit above the limit. The sampler takes a few steps on growing samples of the data, on this
machine and under its present load. A line through the last two samples gives the time for all rows. Trees are grown
completely on samples, because their cost is a power of the number of rows.

This is an extrapolation: all data may have more or fewer clusters than a sample, and may not fit into caches. So the
forecast is a range; measured fits lie within it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from expfam.amounts import counted
from expfam.errors import ResourceError
from expfam.model.data import Dataset
from expfam.model.mixture import MixtureModel
from expfam.samplers.starts.rules import default_n_clusters
from expfam.structures.ground.rng import generator

if TYPE_CHECKING:
    from expfam.model.admixture import AdmixtureModel

_FIRST_ROWS = 500
_GROWTH = 4
_ENOUGH = 0.3  # seconds of a probe after which no larger one is made, if there are two
_TOO_LONG = 10.0  # seconds of a probe after which no larger one is made, even if there is only one
_STEPS = 3  # steps of each probe; the first also makes tables that later steps use
_TICK = 1e-6  # least seconds of a tree
_LOW, _HIGH = 0.4, 3.0  # factors on the low and the high estimate
_LOW_OF_A_RULE = 0.2  # a rule ends fits from a searched start, which has fewer clusters than the start that is timed
_UNITS = {"": 1.0, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


@dataclass(frozen=True)
class Duration:
    """Seconds that a fit is expected to need, as a range.

    Attributes
    ----------
    low, high : float
        Seconds.
    probe_rows : int
        Rows of the largest sample on which steps were timed.
    probe_seconds : float
        Seconds that the timing needed.
    n_steps : int
    unit : str
        Name of a step, in the plural.
    least_steps : int, optional
        Steps after which a rule may end the fit, for which `low` is.
    """

    low: float
    high: float
    probe_rows: int
    probe_seconds: float
    n_steps: int
    unit: str = "steps"
    least_steps: int | None = None

    def __str__(self):
        least = "" if self.least_steps in (None, self.n_steps) else f"{self.least_steps} to "
        return (
            f"{format_seconds(self.low)} to {format_seconds(self.high)} for"
            f" {least}{counted(self.n_steps, self.unit.removesuffix('s'))}, going"
            f" by {self.probe_rows:,} of the rows"
        )


def forecast_duration(
    kernel: Any,
    model: MixtureModel | AdmixtureModel,
    data: Dataset,
    n_steps: int,
    *,
    least_steps: int | None = None,
    seed: int = 0,
    start: Any = "auto",
    begin: Callable[[Dataset], Any] | None = None,
    finish: Callable[[Any], Any] | None = None,
) -> Duration:
    """Forecast the seconds of a fit from a few steps on samples of the rows.

    This needs some seconds of work at most. If rows are in groups, samples are whole groups. The forecast is for the
    start and all steps. Samplers that stop by themselves may need fewer.

    Parameters
    ----------
    kernel : Kernel
    model : MixtureModel or AdmixtureModel
        Bound to the data.
    data : Dataset
    n_steps : int
    least_steps : int, optional
        Number of steps after which a rule may end the fit: the low end of the forecast is for these.
    seed : int
        Seed of the samples and of the steps on them.
    start : str or array_like
        Start of the kernel on all data.
    begin : callable, optional
        ``begin(sample)`` returns the state in which a run over a sample begins, where a start is searched for; without
        it the kernel makes the start.
    finish : callable, optional
        ``finish(state)`` does what follows the steps.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import Dataset, MixtureModel, Poisson, SymmetricDirichlet
    >>> from expfam.forecast.time import forecast_duration
    >>> from expfam.samplers import CollapsedGibbs
    >>> data = Dataset(np.random.default_rng(0).poisson(3.0, (3000, 2)), Poisson())
    >>> duration = forecast_duration(CollapsedGibbs(), MixtureModel(data.family, SymmetricDirichlet(4)), data, 10)
    >>> 0 < duration.low < duration.high
    True
    """
    N, began = data.n_rows, perf_counter()

    def seconds(rows, sample):
        make = partial(begin, sample) if begin else _beginning(kernel, model, data, rows, sample, seed, start)
        return _step_seconds(kernel, make, finish)

    probes = _probes(data, seed, seconds)
    numbers = (n_steps if least_steps is None else least_steps, n_steps)
    low, high = (a + n * b for n, a, b in zip(numbers, _line(N, probes, 1), _line(N, probes, 2)))
    factor, spent = _LOW if numbers[0] == n_steps else _LOW_OF_A_RULE, perf_counter() - began
    return Duration(factor * low, _HIGH * high, probes[-1][0], spent, int(n_steps), least_steps=least_steps)


def forecast_tree_duration(grow: Callable[[Any, Dataset], Any], data: Dataset, *, seed: int = 0) -> Duration:
    """Forecast the seconds of a tree over all rows from trees over samples.

    This needs some seconds of work at most. Steps of the forecast are merges. Its low end follows the power of the
    number of rows by which the last two trees differ, at most 2; its high end is the time of a search over all pairs.

    Parameters
    ----------
    grow : callable
        ``grow(rows, sample)`` makes the whole tree of a sample; `rows` are indices of the data.
    data : Dataset
    seed : int
        Seed of the samples.

    Returns
    -------
    Duration
    """
    N, began = data.n_rows, perf_counter()

    def seconds(rows, sample):
        before = perf_counter()
        grow(rows, sample)
        return (perf_counter() - before,)

    probes = _probes(data, seed, seconds)
    n, t = probes[-1]
    power = 0.0
    if len(probes) > 1:
        m, s = probes[-2]
        power = min(2.0, max(0.0, math.log(max(t, _TICK) / max(s, _TICK)) / math.log(n / m)))
    low, high = t * (N / n) ** power, t * (N / n) ** 2
    return Duration(_LOW * low, _HIGH * high, n, perf_counter() - began, N - 1, "merges")


def _probes(data, seed, measure):
    """Return (rows, *seconds) of growing samples; `measure(rows, sample)` returns the seconds."""
    N = data.n_rows
    probes, n_rows = [], min(N, _FIRST_ROWS)
    while True:
        rows, sample = _sample(data, n_rows, seed)
        probes.append((sample.n_rows, *measure(rows, sample)))
        seconds = sum(probes[-1][1:])
        if sample.n_rows == N or seconds > _TOO_LONG or (seconds > _ENOUGH and len(probes) > 1):
            return probes
        n_rows = min(N, _GROWTH * sample.n_rows)


def _sample(data, n_rows, seed):
    """Return the indices of a sample of `n_rows` rows, and its data.

    Data in groups give whole groups that hold at least `n_rows` rows together.
    """
    if n_rows >= data.n_rows:
        return slice(None), data
    rng, groups = generator(seed, "subsample"), None
    if data.groups is None:
        rows = np.sort(rng.choice(data.n_rows, n_rows, replace=False))
    else:
        order = rng.permutation(data.groups.n_groups)
        reached = int(np.searchsorted(data.groups.sizes[order].cumsum(), n_rows)) + 1
        rows = np.flatnonzero(np.isin(data.groups.of_row, order[:reached]))
        groups = np.unique(data.groups.of_row[rows], return_inverse=True)[1]
    weight = None if data.weight is None else data.weight[rows]
    return rows, Dataset(data.X[rows], data.family, weight=weight, groups=groups)


def _beginning(kernel, model, data, rows, sample, seed, start):
    """Return the function that makes the kernel's own start of a sample."""
    options = {"start": kernel.sample_start(start, data, rows)}
    if isinstance(start, str) and isinstance(model, MixtureModel):
        most = kernel.max_clusters(model)
        n_clusters = default_n_clusters(model, data.n_rows)
        options["n_clusters"] = min(n_clusters, sample.n_rows, sample.n_rows if most is None else most)
    return partial(kernel.init, model, sample, seed=seed, **options)


def _step_seconds(kernel, make, finish):
    """Return the seconds of what is done once, at the start and end, and of one step."""
    before = perf_counter()
    state = make()
    seconds = [perf_counter() - before]
    for _ in range(_STEPS):
        before = perf_counter()
        kernel.step(state)
        seconds.append(perf_counter() - before)
    once = seconds[0] + max(0.0, seconds[1] - seconds[2])
    if finish is not None:
        before = perf_counter()
        finish(state)
        once += perf_counter() - before
    return once, float(np.median(seconds[2:]))


def _line(N, probes, place):
    """Return a low and a high estimate of the seconds at N rows.

    The low estimate is the line through the last two probes; the high one is the line through the origin and the last
    probe. The high line counts the fixed cost of a step as a cost of rows. It is too high for that reason, but safe if
    the difference of the two probes is noise.
    """
    n, t = probes[-1][0], probes[-1][place]
    if len(probes) == 1:
        return t * min(1.0, N / n), t * N / n
    m, s = probes[-2][0], probes[-2][place]
    least = t + (N - n) * max(0.0, (t - s) / (n - m))
    return least, max(least, t + (N - n) * 0.5 * t / n)


def check_time(
    limit: float | str | None,
    kernel: Any,
    model: MixtureModel | AdmixtureModel,
    data: Dataset,
    n_steps: int,
    *,
    least_steps: int | None = None,
    seed: int,
    start: Any,
    begin: Callable[[Dataset], Any] | None = None,
    finish: Callable[[Any], Any] | None = None,
) -> None:
    """Time some steps and raise ResourceError if a fit would exceed the limit.

    Parameters
    ----------
    limit : float, str or None
        As in `check_duration`; without a limit nothing is timed.
    kernel, model, data, n_steps, least_steps, seed, start, begin, finish
        As in `forecast_duration`.

    Raises
    ------
    ResourceError
        The message holds the figures.
    """
    if limit is not None:
        options: dict[str, Any] = {"least_steps": least_steps, "begin": begin, "finish": finish}
        check_duration(forecast_duration(kernel, model, data, n_steps, seed=seed, start=start, **options), limit)


def check_duration(duration: Duration, limit: float | str) -> None:
    """Raise ResourceError if even the low end of a forecast is above the limit.

    Parameters
    ----------
    duration : Duration
    limit : float or str
        Seconds, or text like ``"90s"``, ``"10min"``, ``"2h"``.

    Raises
    ------
    ResourceError
        The message holds the figures.
    """
    allowed = parse_seconds(limit)
    if duration.low > allowed:
        enough = f"time_limit='{math.ceil(2.0 * duration.high)} s'"
        raise ResourceError(
            f"the fit would take about {duration}; {format_seconds(allowed)} are allowed (time_limit): use fewer"
            f" steps, rows or components, another sampler, or write {enough}"
        )


def parse_seconds(value: float | str) -> float:
    """Return the seconds of a number or of text like ``"90s"``, ``"10min"``, ``"2h"``.

    Examples
    --------
    >>> from expfam.forecast.time import parse_seconds
    >>> parse_seconds("1.5h"), parse_seconds(90), parse_seconds("1ms")
    (5400.0, 90.0, 0.001)
    """
    match: Any = re.fullmatch(r"\s*([0-9.eE+-]+)\s*(ms|s|min|h|d)?\s*", str(value))
    try:
        seconds = float(match.group(1)) * _UNITS[match.group(2) or ""]
    except (AttributeError, ValueError):
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise ValueError(f"an amount of time is a positive number of seconds or text such as '10min'; got {value!r}")
    return seconds


def format_seconds(seconds: float) -> str:
    """Return seconds as text with two digits, for example ``"1.5 h"``."""
    for unit, size in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.2g} {unit}"
    return f"{seconds:.2g} s" if seconds < 99.5 else f"{seconds:.0f} s"
