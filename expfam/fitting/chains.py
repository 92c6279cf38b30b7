"""Several chains of a mixture: their seeds, starts and threads.

Each chain is a fit of its own in a thread. Chain 0 is the fit with one chain, bit for bit. The others begin from other
numbers of clusters, with other seeds, once chain 0 has learned its hyper-parameters. Where these are drawn together
with the partition, each chain draws its own and begins at some distance from those of chain 0. Otherwise all chains
take those of chain 0: with others they would sample another posterior.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

import numpy as np

from expfam.amounts import counted
from expfam.errors import CapabilityError
from expfam.families.base import Family
from expfam.fitting.automatic import has_small_clusters, run_on_sample
from expfam.fitting.drawn_hyper import kernel_of_draws
from expfam.fitting.phases import automatic_phases, planned_phases
from expfam.fitting.run import ChainRun, run_chain, run_chain_phases
from expfam.fitting.steps import with_progress
from expfam.model.assignment import extended_labels
from expfam.samplers.chain.agreement import PartitionRecorder, choose_pairs
from expfam.samplers.chain.callbacks import close_all
from expfam.samplers.hyper.record import prior_of_updates, spread_hyper
from expfam.samplers.hyper.slice import UpdateHyper
from expfam.samplers.starts.rules import default_n_clusters
from expfam.samplers.warm_starts.sample_rows import search_rows
from expfam.structures.ground.rng import generator
from expfam.structures.ground.threads import resolve_n_threads

if TYPE_CHECKING:
    from expfam.fitting.plan import Plan
    from expfam.model.mixture import MixtureModel
    from expfam.samplers.chain.kernel import Kernel

_SPREAD = (1, 1 / 4, 4, 1, 1 / 2, 2)  # of the number of clusters at the start, chain by chain
_EXACT_RULES = ("tree", "tree_point")  # starts that cannot have more clusters than distinct rows
_WAKE_SECONDS = 0.1  # in which the main thread sees Ctrl-C


def starts_of_chains(start: Any, n_chains: int) -> list[Any]:
    """Return the start of each chain.

    Parameters
    ----------
    start : object
        A start of all chains, or a list or tuple with one of each: names, or labels as arrays.
    n_chains : int

    Returns
    -------
    list

    Raises
    ------
    ValueError
        The list has another length.

    Examples
    --------
    >>> from expfam.fitting.chains import starts_of_chains
    >>> starts_of_chains("auto", 2), starts_of_chains(["one", "random"], 2)
    (['auto', 'auto'], ['one', 'random'])
    """
    if not isinstance(start, (list, tuple)) or all(np.ndim(one) == 0 and not isinstance(one, str) for one in start):
        return [start] * n_chains
    if len(start) != n_chains:
        raise ValueError(
            f"Mixture: start is a list of {counted(len(start), 'start')}, and n_chains={n_chains}: give one a chain: "
            f"write n_chains={len(start)}"
        )
    return list(start)


def _one_start(start, n_chains):
    """Return the argument that takes the place of a list of starts."""
    return "" if starts_of_chains(start, n_chains)[0] is start else ", start='auto'"


def check_chains(kernel: Kernel, n_chains: int, start: Any = "auto") -> None:
    """Refuse several chains of a sampler that has no hard labels; `start` is what begins them."""
    if n_chains > 1 and not kernel.makes_draws:
        raise CapabilityError(
            f"Mixture: n_chains={n_chains}: {type(kernel).__name__} makes no draws of a partition; it begins with the"
            f" best of several starts: write Mixture(n_chains=1{_one_start(start, n_chains)})"
        )


def is_in_numpy(family: Family) -> bool:
    """Tell whether the kernels of a family hold the gil, so that chains run one after the other."""
    return not family.is_compiled


def n_rounds(n_chains: int, n_threads: int | None, family: Family) -> int:
    """Return in how many rounds all chains run; the chains of a round run together."""
    return n_chains if is_in_numpy(family) else -(-n_chains // resolve_n_threads(n_threads))


def seed_of_chain(seed: int, chain: int) -> int:
    """Return the seed of a chain: that of the fit for chain 0.

    Examples
    --------
    >>> from expfam.fitting.chains import seed_of_chain
    >>> seed_of_chain(7, 0), seed_of_chain(7, 1) == seed_of_chain(7, 2)
    (7, False)
    """
    return seed if chain == 0 else int(generator(seed, "chains", unit=chain).integers(0, 2**64, dtype=np.uint64))


class _Turns:
    """Right to work for some of many threads, handed on in the order in which they ask.

    A semaphore would do, but it lets the thread that gives a right back take it again at once.
    """

    def __init__(self, n_rights):
        self._lock, self._n_free, self._waiting = threading.Lock(), n_rights, deque()

    def take(self):
        with self._lock:
            if self._n_free:
                self._n_free -= 1
                return
            mine = threading.Event()
            self._waiting.append(mine)
        mine.wait()

    def give_back(self):
        with self._lock:
            if self._waiting:
                self._waiting.popleft().set()
            else:
                self._n_free += 1

    def hand_on(self):
        """Let the thread that has waited longest work first."""
        if self._waiting:
            self.give_back()
            self.take()

    @contextmanager
    def held(self):
        self.take()
        try:
            yield
        finally:
            self.give_back()

    @contextmanager
    def left(self):
        self.give_back()
        try:
            yield
        finally:
            self.take()


class _Group:
    """What the chains of a fit share: the user's callbacks, the end, and what chain 0 has found."""

    def __init__(self, callbacks, n_rights):
        self.callbacks, self.turns = callbacks, _Turns(n_rights)
        self.has_stopped, self.is_interrupted = False, False
        self.begun = threading.Event()  # chain 0 has its hyper-parameters
        self.model: MixtureModel | None = None
        self.pairs: Any = None
        self._lock = threading.Lock()

    def recorder(self, state: Any) -> PartitionRecorder:
        """Return what records the counted steps of a chain; pairs are those of the start of chain 0."""
        if self.pairs is None:
            self.pairs = choose_pairs(state.labels, seed=state.seed)
        return PartitionRecorder(self.pairs)

    def pause(self, info: Any, state: Any) -> bool:
        """Let other chains work after a step that nobody watches; return whether the run is over."""
        self.turns.hand_on()
        return self.is_over

    def watch(self, chain: int) -> Callable[[Any, Any], bool]:
        """Return the callback of a chain."""

        def watched(info, state):
            state.chain = chain
            with self._lock:  # a user's callback need not be written for threads
                if not self.is_interrupted:
                    try:
                        asked = [bool(callback(info, state)) for callback in self.callbacks]
                        self.has_stopped |= any(asked)
                    except KeyboardInterrupt:
                        self.is_interrupted = True
            return self.pause(info, state)

        return watched

    def entered(self, kernel: Any, state: Any, *, is_last: bool) -> None:
        """Take note of a phase that begins."""

    @property
    def is_over(self) -> bool:
        return self.has_stopped or self.is_interrupted


class _First:
    """What chain 0 shares: it tells the others its hyper-parameters.

    They are final after the phases that learn.
    """

    def __init__(self, group, *, is_learning):
        self._group, self._has_learned = group, not is_learning
        self.recorder, self.pause = group.recorder, group.pause

    def entered(self, kernel, state, *, is_last):
        learns = any(isinstance(part, UpdateHyper) for part in getattr(kernel, "kernels", (kernel,)))
        self._has_learned |= learns
        if not self._group.begun.is_set() and (is_last or (self._has_learned and not learns)):
            self._group.model = state.model
            self._group.begun.set()


def run_chains(plan: Plan) -> list[ChainRun]:
    """Run all chains of a plan.

    Parameters
    ----------
    plan : Plan

    Returns
    -------
    list of ChainRun
        Of the chains that have begun, chain 0 first.

    Raises
    ------
    KeyboardInterrupt
        Ctrl-C was pressed before chain 0 had made a step.
    """
    if plan.n_chains == 1:
        return [run_chain(plan)]
    n_chains, n_threads = plan.n_chains, resolve_n_threads(plan.n_threads)
    n_rights = 1 if is_in_numpy(plan.model.family) else min(n_chains, n_threads)
    callbacks = with_progress(plan.callbacks)
    group = _Group(callbacks, n_rights)

    def work(chain):
        own = plan.of_chain(chain, n_threads=max(1, n_threads // n_chains), callback=group.watch(chain))
        try:
            with group.turns.held():
                if chain == 0:
                    return run_chain(own, shared=_First(group, is_learning=bool(plan.learned)))
                return _run_other(own, group, chain, 0 if plan.has_own_starts else chain)
        except BaseException:
            group.has_stopped = True
            raise
        finally:
            if chain == 0:
                group.begun.set()

    try:
        with ThreadPoolExecutor(n_chains, thread_name_prefix="chain") as pool:
            # the context has NumPy's settings of floating-point errors
            futures = [pool.submit(copy_context().run, work, chain) for chain in range(n_chains)]
            _wait(futures, group)
    finally:
        close_all(callbacks)
    runs = [run for run in (future.result() for future in futures) if run is not None]
    if group.is_interrupted:
        for run in runs:
            run.trace.interrupted = True
    return runs


def _wait(futures, group):
    """Wait for all chains; Ctrl-C ends them after their present step."""
    waiting = set(futures)
    while waiting:
        try:
            waiting = wait(waiting, timeout=_WAKE_SECONDS).not_done
        except KeyboardInterrupt:
            if group.is_interrupted:
                raise
            group.is_interrupted = True


def _run_other(plan, group, chain, place):
    """Run a chain after chain 0 has learned; return None if the run is over before.

    It begins with other hyper-parameters than those of chain 0 if it draws its own. `place` says how far from the usual
    number of clusters it begins.
    """
    with group.turns.left():
        group.begun.wait()
    if group.is_over or group.model is None:
        return None
    model, seed, kernel = group.model, seed_of_chain(plan.seed, chain), plan.kernel
    prior = prior_of_updates(kernel_of_draws(kernel, plan.learned, n_draws=plan.n_draws), model)
    if prior is None:
        plan = plan.without_learning()
    else:
        model = spread_hyper(prior, model, seed=seed)
    data, n_threads = plan.seen, plan.n_threads
    start, n_clusters = _spread_start(plan.starts[0], kernel, model, data, place)
    K = model.weights.max_components
    rows = search_rows(data.n_rows, K, seed) if plan.has_rule and isinstance(start, str) else None
    splits = True
    if rows is not None:  # as chain 0 does: most steps on a sample
        part = data.take(rows)
        state = kernel.init(model, part, seed=seed, start=start, n_clusters=n_clusters)
        phases = automatic_phases(kernel, plan.learned, part.n_rows, is_open=K is None)
        run_on_sample(state, phases, (group.pause,))
        model = state.model
        splits = not has_small_clusters(state.partition, part.n_rows)
        start, n_clusters = extended_labels(model, part, state.partition, data, n_threads=n_threads), None
        if data.known is not None:
            start = data.known.agreeing(start, limit=K)
    phases = planned_phases(plan, is_sampled=rows is not None, splits=splits)
    state = kernel.init(model, data, seed=seed, start=start, n_clusters=n_clusters)
    return run_chain_phases(plan, state, phases, chain=chain, shared=group)


def _spread_start(start, kernel, model, data, chain):
    """Return the start of a chain, and the number of its clusters."""
    if not (isinstance(start, str) or callable(getattr(start, "labels", None))):
        return start, None
    if start == "sequential" and chain == 1 and data.family.is_discrete:
        start = "random"  # one pass over counts often ends in one cluster, from which chains hardly come back
    factor = _SPREAD[chain % len(_SPREAD)]
    if isinstance(start, str) and start in _EXACT_RULES:
        factor = min(factor, 1)
    limits = [data.n_rows, model.weights.max_components, kernel.max_clusters(model)]
    usual = min(default_n_clusters(model, data.n_rows), *(limit for limit in limits if limit is not None))
    wanted = max(1, round(usual * factor))
    return start, min(wanted, *(limit for limit in limits if limit is not None))
