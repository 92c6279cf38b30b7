"""Several chains of a mixture: their seeds, starts and threads, and what they disagree on.

Each chain is a fit of its own in a thread. Chain 0 is the fit with one chain, bit for bit. The others begin from other
numbers of clusters, with other seeds, once chain 0 has learned its hyper-parameters. Where these are drawn together
with the partition, each chain draws its own and begins at some distance from those of chain 0. Otherwise all chains
take those of chain 0: with others they would sample another posterior.
"""

from __future__ import annotations

import copy
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from expfam.amounts import counted
from expfam.errors import CapabilityError
from expfam.estimators.automatic import BestDraw, automatic_phases, has_small_clusters
from expfam.estimators.drawn_hyper import kernel_of_draws
from expfam.families.base import Family
from expfam.model.assignment import extended_labels
from expfam.params import is_auto
from expfam.samplers.chain.agreement import (
    LEAST_ESS,
    MOST_RHAT,
    Diagnostics,
    PartitionRecorder,
    StepRecord,
    choose_pairs,
)
from expfam.samplers.chain.callbacks import Progress, close_all
from expfam.samplers.hyper.record import HyperRecorder, prior_of_updates, spread_hyper
from expfam.samplers.hyper.slice import UpdateHyper
from expfam.samplers.starts.rules import default_n_clusters
from expfam.samplers.uncollapsed.em import ExpectationState
from expfam.samplers.warm_starts.sample_rows import search_rows
from expfam.structures.ground.rng import generator
from expfam.structures.ground.threads import resolve_n_threads
from expfam.user_warnings import warn

if TYPE_CHECKING:
    import numpy.typing as npt

    from expfam.estimators.endings import Ending
    from expfam.model.data import Dataset
    from expfam.model.mixture import MixtureModel
    from expfam.samplers.chain.kernel import Kernel
    from expfam.samplers.chain.trace import Trace

_SPREAD = (1, 1 / 4, 4, 1, 1 / 2, 2)  # of the number of clusters at the start, chain by chain
_EXACT_RULES = ("tree", "tree_point")  # starts that cannot have more clusters than distinct rows
_WAKE_SECONDS = 0.1  # in which the main thread sees Ctrl-C


class ChainRun(NamedTuple):
    """What one chain has made.

    Attributes
    ----------
    state : State
        As the last step left it.
    trace : Trace
    best : BestDraw
        Of the steps that count.
    phases : list of Phase
    name : str or None
        Start that a search has chosen.
    start : (N,) ndarray of int, or None
        Labels of that start.
    recorder : PartitionRecorder or None
    hyper : HyperRecorder or None
        Where draws are kept and hyper-parameters are drawn with them.
    ending : Ending or None
        Where the run was taken uphill after its last step.
    highest : BestDraw or None
        Of all steps.
    """

    state: Any
    trace: Trace
    best: BestDraw
    phases: list
    name: str | None
    start: Any
    recorder: PartitionRecorder | None = None
    hyper: HyperRecorder | None = None
    ending: Ending | None = None
    highest: BestDraw | None = None

    def others(self) -> list[npt.NDArray[np.integer]]:
        """Return the partitions on the way of the run to which its end is compared."""
        found = [None if self.highest is None else self.highest.labels, self.best.labels, self.start]
        return [labels for labels in found if isinstance(labels, np.ndarray)]


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
    >>> from expfam.estimators.several_chains import starts_of_chains
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


def check_chains(kernel: Kernel, n_chains: int) -> None:
    """Refuse several chains of a sampler that has no hard labels."""
    kind = getattr(kernel, "state_type", None)
    if n_chains > 1 and kind is not None and (hasattr(kind, "soft_partition") or issubclass(kind, ExpectationState)):
        raise CapabilityError(
            f"Mixture: n_chains={n_chains}: {type(kernel).__name__} makes no draws of a partition; it keeps the best of"
            f" several starts: use n_init: write Mixture(n_init={n_chains})"
        )


def is_in_numpy(family: Family) -> bool:
    """Tell whether the kernels of a family hold the interpreter, so that chains take turns."""
    return type(family).components is Family.components


def n_rounds(n_chains: int, n_threads: int | None, family: Family) -> int:
    """Return how many chains run one after the other, as long as all chains are counted."""
    return n_chains if is_in_numpy(family) else -(-n_chains // resolve_n_threads(n_threads))


def seed_of_chain(seed: int, chain: int) -> int:
    """Return the seed of a chain: that of the fit for chain 0.

    Examples
    --------
    >>> from expfam.estimators.several_chains import seed_of_chain
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

    def publisher(self, *, is_learning: bool) -> Callable[[Any, Any, bool], None]:
        """Return what chain 0 calls as a phase begins.

        Its hyper-parameters are final after the phases that learn them.
        """
        has_learned = not is_learning

        def entered(kernel, state, is_last):
            nonlocal has_learned
            learns = any(isinstance(part, UpdateHyper) for part in getattr(kernel, "kernels", (kernel,)))
            has_learned |= learns
            if not self.begun.is_set() and (is_last or (has_learned and not learns)):
                self.model = state.model
                self.begun.set()

        return entered

    @property
    def is_over(self) -> bool:
        return self.has_stopped or self.is_interrupted


def run_chains(
    mixture: Any, model: MixtureModel, data: Dataset, family: Family, starts: Sequence[Any], *, seed: int
) -> list[ChainRun]:
    """Run all chains of a mixture.

    Parameters
    ----------
    mixture : Mixture
    model : MixtureModel
    data : Dataset
    family : Family
        As the user gave it, which tells what is learned.
    starts : sequence
        One for each chain.
    seed : int

    Returns
    -------
    list of ChainRun
        Of the chains that have begun, chain 0 first.

    Raises
    ------
    KeyboardInterrupt
        Ctrl-C was pressed before chain 0 had made a step.
    """
    n_chains, n_threads = len(starts), resolve_n_threads(mixture.n_threads)
    n_rights = 1 if is_in_numpy(model.family) else min(n_chains, n_threads)
    callbacks = list(mixture.callbacks or ())
    callbacks += [Progress()] if mixture.verbose else []
    group = _Group(callbacks, n_rights)
    is_own = any(start is not mixture.start for start in starts)

    def work(chain):
        one = _one_chain(mixture, group, chain, starts[chain], n_threads=max(1, n_threads // n_chains))
        try:
            with group.turns.held():
                if chain == 0:
                    return one._run_chain(model, data, family, seed, group=group)
                return _other_chain(one, group, chain, model, data, family, seed, is_own=is_own)
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


def _one_chain(mixture, group, chain, start, *, n_threads):
    """Return the mixture as one chain sees it."""
    one = copy.copy(mixture)
    one.start, one.n_threads, one.verbose = start, n_threads, 0
    one.callbacks, one._of_all_steps = [group.watch(chain)], (group.pause,)
    if not chain:
        one._entered = group.publisher(is_learning=bool(one._learned(one._family())))
    return one


def _other_chain(one, group, chain, model, data, family, seed, *, is_own):
    """Run a chain after chain 0 has learned; return None if the run is over before.

    It begins with other hyper-parameters than those of chain 0 if it draws its own.
    """
    with group.turns.left():
        group.begun.wait()
    if group.is_over or group.model is None:
        return None
    model, seed = group.model, seed_of_chain(seed, chain)
    kernel = one._kernel_of_rows(model, data)
    learned = one._learned(family)
    prior = prior_of_updates(kernel_of_draws(kernel, learned, n_draws=one._most_draws(data)), model)
    if prior is None:
        one.learn_hyper, learned = False, []
    else:
        model = spread_hyper(prior, model, seed=seed)
    rule, n_clusters = _spread_start(one.start, kernel, model, data, 0 if is_own else chain)
    K = model.weights.max_components
    rows = search_rows(data.n_rows, K, seed) if one._follows_rule() and isinstance(rule, str) else None
    splits = True
    if rows is not None:  # as chain 0 does: most steps on a sample
        part = data.take(rows)
        state = kernel.init(model, part, seed=seed, start=rule, n_clusters=n_clusters)
        one._run_on_sample(state, automatic_phases(kernel, learned, part.n_rows, is_open=K is None))
        model = state.model
        splits = not has_small_clusters(state.partition, part.n_rows)
        rule, n_clusters = extended_labels(model, part, state.partition, data, n_threads=one.n_threads), None
        if data.known is not None:
            rule = data.known.agreeing(rule, limit=K)
    phases = one._phases(kernel, family, data, is_sampled=rows is not None, splits=splits)
    state = kernel.init(model, data, seed=seed, start=rule, n_clusters=n_clusters)
    return one._run_phases(state, phases, chain=chain, group=group)


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


# ---- what chains disagree on -----------------------------------------------------------------------------------------


def warn_of_disagreement(mixture: Any, diagnostics: Diagnostics, steps: StepRecord, *, n_warmup: int) -> None:
    """Warn where several chains have not agreed; the warning names what to change.

    Parameters
    ----------
    mixture : Mixture
    diagnostics : Diagnostics
    steps : StepRecord
    n_warmup : int
        Steps of the warm-up of chain 0.
    """
    if diagnostics.n_chains < 2 or diagnostics.have_agreed:
        return
    rhats, ess = diagnostics.rhats, diagnostics.scalars["log_joint"].bulk_ess
    values = ", ".join(
        f"{name} {rhats[key]:.2f}"
        for key, name in (("pairs", "of pair agreements"), ("log_joint", "log joint"), ("n_clusters", "K"))
        if not np.isnan(rhats[key])
    )
    low, high = diagnostics.widest
    wide = ""
    if high - low >= 0.1:
        wide = f"; two rows together with probability {low:.2f} or {high:.2f}, as the chain is"
    short = f"; {counted(ess, 'effective draw', spec='.0f')} of the log joint (want {LEAST_ESS * diagnostics.n_chains})"
    is_apart = any(rhats[key] > MOST_RHAT for key in ("pairs", "log_joint", "n_clusters"))
    begin = "disagree" if is_apart else "are too short"
    warn(
        f"Mixture: {counted(diagnostics.n_chains, 'chain')} {begin}: R-hat {values} (want <= {MOST_RHAT}){wide}"
        f"{short if diagnostics.is_short else ''}. Try {_remedy(mixture, diagnostics, steps, n_warmup)};"
        " posterior_.diagnostics has the rest",
        ConvergenceWarning,
    )


def _remedy(mixture, diagnostics, steps, n_warmup):
    """Return the settings to change, and their values."""
    rhats, log_joint = diagnostics.rhats, steps.scalars["log_joint"]
    n_chains, n_steps = np.shape(log_joint)
    warm = f"n_warmup={4 * max(n_warmup, 25)}"
    splits = is_auto(mixture.sampler) or "split" in str(mixture.sampler).lower()
    if rhats["log_joint"] > MOST_RHAT and _still_rises(log_joint):
        return warm
    if rhats["log_joint"] > MOST_RHAT or rhats["n_clusters"] > MOST_RHAT or rhats["pairs"] > MOST_RHAT:
        return f"{warm} or n_steps={4 * n_steps}" if splits else f'{warm} or sampler="split_merge"'
    factor = LEAST_ESS * n_chains / diagnostics.scalars["log_joint"].bulk_ess
    return f"n_steps={_rounded_up(n_steps * factor)}"


def _still_rises(log_joint):
    """Return whether second halves of chains lie above first ones by half a deviation."""
    half = log_joint.shape[1] // 2
    gain = log_joint[:, -half:].mean(axis=1) - log_joint[:, :half].mean(axis=1)
    within = log_joint[:, -half:].std(axis=1).mean()
    return bool(gain.mean() > 0.5 * within)


def _rounded_up(value):
    """Return the next number with two leading digits."""
    unit = 10 ** max(0, int(np.log10(max(value, 1))) - 1)
    return int(-(-value // unit) * unit)
