"""The only loop over steps: an iterator, and a driver that records and calls back."""

import numpy as np

from expfam.samplers.chain.callbacks import close_all
from expfam.samplers.chain.trace import Trace


def steps(kernel, state):
    """Endless iterator over the steps of a kernel; each yields the Info of a step that has just moved the state.

    Parameters
    ----------
    kernel : Kernel
    state : State

    Yields
    ------
    Info
    """
    while True:
        yield kernel.step(state)


def sample(kernel, state, n_steps, *, callbacks=(), trace=None, keep_every=None, max_kept=100, n_warmup=0):
    """Run a kernel and record what it did.

    Parameters
    ----------
    kernel : Kernel
    state : State
        Moved in place.
    n_steps : int
        At most: a kernel that has converged ends the run.
    callbacks : sequence of callable
        Called as ``callback(info, state)`` after each step; a true result ends the run. Those with a method `close` are
        closed at the end, whatever happened.
    trace : Trace, optional
        One to go on with. It has its own `keep_every`, `max_kept` and `n_warmup`, and the three that follow are then
        not used.
    keep_every : int, optional
        Keep the partition of every so many steps.
    max_kept : int
        Partitions kept at most; beyond that every second one is dropped.
    n_warmup : int
        How many of the steps, from the first one, are a warm-up: they are made and recorded, but no partition is kept
        in them and no summary of the trace counts them.

    Returns
    -------
    Trace
        With ``interrupted`` set if the user pressed Ctrl-C; state and trace are then those of the last whole step,
        the labels those of the moves made so far.
    """
    if n_steps < 0 or n_steps != int(n_steps):
        raise ValueError(f"n_steps must be a non-negative integer; got {n_steps!r}")
    trace = Trace(keep_every=keep_every, max_kept=max_kept, n_warmup=n_warmup) if trace is None else trace
    running = steps(kernel, state)
    is_done = getattr(kernel, "is_done", lambda state: False)  # kernels need no more than the protocol
    try:
        for _ in range(int(n_steps)):
            info = next(running)
            trace.append(info, state)
            # every callback is called, also after one has said stop
            stopped = any(np.fromiter((bool(callback(info, state)) for callback in callbacks), dtype=bool))
            if stopped or is_done(state):
                break
    except KeyboardInterrupt:
        trace.interrupted = True
    finally:
        close_all(callbacks)
    return trace
