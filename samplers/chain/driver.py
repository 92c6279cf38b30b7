"""Loop over the steps of a kernel: an iterator, and a driver that records and calls back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from expfam.samplers.chain.callbacks import close_all
from expfam.samplers.chain.trace import Trace

if TYPE_CHECKING:
    from expfam.protocols import Callback, Info, Kernel


def steps(kernel: Kernel, state: Any) -> Iterator[Info]:
    """Iterate over the steps of a kernel without end.

    Parameters
    ----------
    kernel : Kernel
    state : State
        Moved in place.

    Yields
    ------
    Info
        Numbers of the step that has just moved the state.

    Examples
    --------
    >>> from itertools import islice
    >>> from expfam import DirichletProcess, MixtureModel, Poisson
    >>> from expfam.samplers import CollapsedGibbs, steps
    >>> kernel = CollapsedGibbs()
    >>> state = kernel.init(MixtureModel(Poisson(), DirichletProcess()), [[0], [1], [40], [41]], seed=0)
    >>> [info.step for info in islice(steps(kernel, state), 3)]
    [1, 2, 3]
    """
    while True:
        yield kernel.step(state)


def advance(kernel: Kernel, state: Any, n_steps: int, *, rule: Callback | None = None) -> Info | None:
    """Make up to `n_steps` steps without a record; stop where the kernel has converged.

    Starts and other kernels use it for their inner runs. `sample` records the steps and calls back.

    Parameters
    ----------
    kernel, state : Kernel and State
        The state is moved in place.
    n_steps : int
        Largest number of steps.
    rule : callable, optional
        Called as ``rule(info, state)`` after each step; a true result ends the run.

    Returns
    -------
    Info or None
        Numbers of the last step; None if no step was made.
    """
    info, is_done = None, _end_of(kernel)
    for _ in range(n_steps):
        info = kernel.step(state)
        if (rule is not None and rule(info, state)) or is_done(state):
            break
    return info


def _end_of(kernel):
    """Return the function of the state that tells whether a kernel has converged."""
    return getattr(kernel, "is_done", lambda state: False)  # the protocol of kernels does not have it


def sample(
    kernel: Kernel,
    state: Any,
    n_steps: int,
    *,
    callbacks: Sequence[Callback] = (),
    trace: Trace | None = None,
    keep_every: int | None = None,
    max_kept: int = 100,
    n_warmup: int = 0,
) -> Trace:
    """Run a kernel and record its steps in a trace.

    Parameters
    ----------
    kernel : Kernel
    state : State
        Moved in place.
    n_steps : int
        Maximal number of steps; the run ends earlier if the kernel has converged.
    callbacks : sequence of callable
        Called as ``callback(info, state)`` after each step; a true result ends the run. Callbacks with a method `close`
        are closed at the end, also after an error.
    trace : Trace, optional
        Trace of an earlier run to continue. It has its own `keep_every`, `max_kept` and `n_warmup`; the next three
        parameters are then not used.
    keep_every : int, optional
        Number of steps from one kept partition to the next; None keeps no partitions.
    max_kept : int
        Maximal number of kept partitions; when one more is due, every second one is dropped.
    n_warmup : int
        Number of leading steps that are a warm-up. They are made and recorded, but no partition is kept in them and no
        summary of the trace counts them.

    Returns
    -------
    Trace
        ``interrupted`` is True if the user pressed Ctrl-C. The trace then ends with the last complete step, and the
        labels of the state include the moves made since.

    Raises
    ------
    ValueError
        `n_steps` is negative or no integer.

    Examples
    --------
    >>> from expfam import DirichletProcess, MixtureModel, Poisson
    >>> from expfam.samplers import CollapsedGibbs, sample
    >>> kernel, model = CollapsedGibbs(), MixtureModel(Poisson(shape=1.0, rate=0.05), DirichletProcess())
    >>> state = kernel.init(model, [[0], [1], [90], [91]], seed=0)
    >>> trace = sample(kernel, state, 20)
    >>> len(trace), state.n_clusters
    (20, 2)
    """
    if n_steps < 0 or n_steps != int(n_steps):
        raise ValueError(f"n_steps must be a non-negative integer; got {n_steps!r}")
    trace = Trace(keep_every=keep_every, max_kept=max_kept, n_warmup=n_warmup) if trace is None else trace
    running, is_done = steps(kernel, state), _end_of(kernel)
    try:
        for _ in range(int(n_steps)):
            info = next(running)._replace(step=len(trace) + 1)  # a cycle counts the steps of each of its kernels
            trace.append(info, state)
            # all callbacks are called, also after one has asked to end the run
            answers = [callback(info, state) for callback in callbacks]
            if any(answers) or is_done(state):
                break
    except KeyboardInterrupt:
        trace.interrupted = True
    finally:
        close_all(callbacks)
    return trace
