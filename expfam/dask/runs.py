"""Runs of chains on a Dask cluster that are stored in a folder and go on from there."""

from __future__ import annotations

from os import PathLike, fspath
from typing import Any

from expfam.errors import ArchiveError
from expfam.samplers.chain.driver import sample
from expfam.samplers.chain.trace import Trace
from expfam.samplers.shards.checkpoint import PartsCheckpoint, restore_parts


def stored_run(
    kernel: Any,
    state: Any,
    n_steps: int,
    watching: list[Any],
    kept: dict[str, Any],
    *,
    checkpoint: str | PathLike[str] | None,
    every_seconds: float,
    resume: str | PathLike[str] | None,
    n_warmup: int = 0,
) -> Trace:
    """Run a chain over data in parts up to a number of steps, counted from its first one.

    Parameters
    ----------
    kernel, state
    n_steps : int
    watching : list of callable
        Callbacks.
    kept : dict of str to object
        Those of them that are stored with the state.
    checkpoint, every_seconds, resume
        As of `expfam.dask.Mixture.fit`.
    n_warmup : int

    Returns
    -------
    Trace
        Of all steps, with those before `resume`.
    """
    trace = Trace(n_warmup=n_warmup)
    stored = {**kept, "trace": trace}
    if resume is not None:
        restore_parts(resume, state, also=stored)
        if trace.n_warmup != n_warmup:
            raise ArchiveError(
                f"{fspath(resume)} is of a run with n_warmup={trace.n_warmup}: write n_warmup={trace.n_warmup}"
            )
    if checkpoint is not None:
        goes_on = resume is not None and fspath(resume) == fspath(checkpoint)
        writer = PartsCheckpoint(checkpoint, every_seconds=every_seconds, also=stored, goes_on=goes_on)
        watching = [*watching, writer]
    sample(kernel, state, max(0, n_steps - len(trace)), callbacks=watching, trace=trace)
    if checkpoint is not None and not trace.interrupted:
        writer.write(state)
    return trace
