"""What a fit whose memory grows with the rows can be instead.

Variational inference holds no tables of the rows, and chunks are not kept at all.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from expfam.amounts import counted
from expfam.errors import CapabilityError
from expfam.samplers.named import load_sampler
from expfam.structures.ground.memory import format_bytes

if TYPE_CHECKING:
    from expfam.fitting.plan import Plan
    from expfam.forecast.memory import Forecast

_LEAST_GAIN = 2  # times less memory: else the other sampler is no help


def with_remedy_of_rows(forecast: Forecast, plan: Plan) -> Forecast:
    """Return the forecast, whose remedy names the sampler without tables of the rows.

    It stays as it is where that sampler needs more than half of the memory, or does not take the rows.

    Parameters
    ----------
    forecast : Forecast
        Of the plan.
    plan : Plan

    Returns
    -------
    Forecast
    """
    kernel, data, model = load_sampler("variational", n_threads=plan.n_threads), plan.data, plan.model
    try:
        kernel.check(model, data)
    except (CapabilityError, ValueError):
        return forecast  # the family or what is known of the rows needs another sampler
    most = kernel.max_clusters(model) or data.n_rows
    n_bytes = forecast.beside_data - forecast.proposals + kernel.memory(model, data, most)
    if _LEAST_GAIN * n_bytes > forecast.beside_data:
        return forecast
    line, rows = plan.asked.line(sampler="variational"), counted(data.n_rows, "row", spec=",")
    return replace(
        forecast,
        remedy=f"tables of {rows} are most of it: write {line}, which needs {format_bytes(n_bytes)},"
        " with .fit_chunks(chunks) in place of .fit(X) if that is still too much",
    )
