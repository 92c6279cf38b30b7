"""How `TopicModel(None)` is fitted: by exact sampling, or by variational inference."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from expfam.errors import CapabilityError, DataError
from expfam.estimators.base import refuse_warmup, step_numbers
from expfam.estimators.lines import line_of
from expfam.estimators.topic_draws import draws_to_keep, refuse_draws
from expfam.estimators.topic_seeds import seed_matrix
from expfam.estimators.topic_words import documents_of, learns_eta, names_of_words
from expfam.estimators.unknown_numbers import (
    LONGEST_WARMUP,
    MeansBySweeps,
    StillFalling,
    concentration_of,
    falling_sizes,
    learns_concentrations,
    refuse_unknown,
    set_weights,
)
from expfam.families.counts.multinomial import Multinomial
from expfam.families.support import first_where, repeated
from expfam.fitting.phases import Phase
from expfam.fitting.topic_run import TopicPlan
from expfam.fitting.topic_starts import kept_start
from expfam.fitting.unknown_topic_starts import forecast_process, most_sampled_topics, process_start, sampled_start
from expfam.forecast.memory import forecast_topics
from expfam.model.admixture import AdmixtureModel
from expfam.model.data import Dataset
from expfam.model.hierarchical import HierarchicalProcess
from expfam.params import Integer, is_auto, refuse_unused
from expfam.samplers.chain.kernel import Cycle
from expfam.samplers.named import find_sampler
from expfam.samplers.nonparametric.topic_moves import TopicProcessSplitMerge
from expfam.samplers.nonparametric.topic_search import TopicProcessMerges
from expfam.samplers.nonparametric.topic_stream import TopicProcessStream
from expfam.samplers.nonparametric.topic_variational import TopicProcessVariational
from expfam.samplers.nonparametric.topics import TopicProcessGibbs
from expfam.samplers.topics.gibbs import TopicGibbs
from expfam.samplers.topics.variational import TopicVariational
from expfam.samplers.variational.learner import weight_of

if TYPE_CHECKING:
    from expfam.protocols import Floats

_SAMPLED = "TopicModel(None, sampler='gibbs')"
_EARLY = 20  # sweeps before the pseudo-count of words is learned
_LEARN_EVERY = 5  # sweeps from one draw of the pseudo-count of words to the next
_LEAST_WARMUP = 80  # sweeps before a rule ends the warm-up
_WORK = 0.1  # of splits and merges: more of them raises no score, and the search of the warm-up joins topics
_SHARES = 20  # topics among which pseudo-tokens of seeds are divided, or as many as have seeds
_SEARCH_EVERY = 10  # steps of the warm-up from one search for equal topics to the next


def planned_unknown(topics: Any, data: Dataset) -> TopicPlan:
    """Return the plan of a fit of an unknown number of topics."""
    n_steps, n_warmup = step_numbers(topics)
    _check_settings(topics)
    if not data.X.sum():
        raise DataError("TopicModel: the documents have no words, so there are no topics to be counted: give others")
    if _is_variational(topics, data):
        return _planned_variational(topics, data, n_steps)
    check_data(topics, data)
    kernel, seed = _kernel_of(topics), topics._seed()
    model = HierarchicalProcess(data.family, concentration_of(topics), seeds=_seeds_of(topics, data))
    start, kept = "variational" if is_auto(topics.start) else topics.start, draws_to_keep(topics, n_steps)
    given = AdmixtureModel(data.family, most_sampled_topics(model, data))
    forecast = partial(forecast_topics, data, kernel=kernel, model=given, start=start, kept=kept)
    phases = phases_of(topics, kernel, n_warmup, n_steps)
    topics._check_run(model, data, phases, kernel=kernel, forecast=forecast, start=start, seed=seed, has_labels=False)
    search = partial(kept_start, sampled_start, kernel, model, data, start, seed=seed)
    means = MeansBySweeps(_parts)
    run = (kernel, phases, start, seed, search if is_auto(topics.start) else None)
    return TopicPlan(model, data, *run, means=means, kept=kept, observed=observed_rules(phases))


def _is_variational(estimator, data):
    """Return whether the fit is variational; "auto" is for fractions and weights."""
    if isinstance(estimator.sampler, TopicProcessVariational):
        return True
    if _is_process(estimator.sampler):
        return False
    found = find_sampler(estimator.sampler, model="TopicModel")
    return found is TopicVariational or (found is None and (_is_weighted(data) or _is_fractional(data)))


def _is_weighted(data):
    return data.weight is not None and bool((data.weight != 1.0).any())


def _is_fractional(data):
    return first_where(data.X, lambda values: values != np.floor(values)) is not None


def _planned_variational(topics, data, n_steps):
    """Return the plan of variational inference."""
    _refuse_seeds(topics)
    refuse_warmup(topics, f"write {_SAMPLED}")
    refuse_draws(topics, "variational inference")
    kernel, seed, start = _variational_kernel(topics), topics._seed(), topics.start
    model, phases = HierarchicalProcess(data.family, concentration_of(topics)), [Phase(kernel, n_steps)]
    forecast = partial(forecast_process, data, kernel, start)
    topics._check_run(model, data, phases, kernel=kernel, forecast=forecast, start=start, seed=seed, has_labels=False)
    search = partial(kept_start, process_start, kernel, model, data, start, seed=seed, n_threads=topics.n_threads)
    return TopicPlan(model, data, kernel, phases, start, seed, search if is_auto(start) else None)


def adopt_unknown(topics: Any, state: Any, means: MeansBySweeps | None) -> None:
    """Keep the topics that a run has found, those with seeds first, then the others by size.

    Parameters
    ----------
    topics : TopicModel
    state : State
    means : MeansBySweeps or None
        Over the counted sweeps; None after variational inference.
    """
    if means is None:
        _adopt_variational(topics, state, weight_of(state.data))
        return
    (counts, sizes), pseudocounts, alpha, gamma = means.means(state)
    weights = (pseudocounts, alpha, gamma)
    adopt_found(topics, state, counts, sizes, weights, weight_of(state.data), state.model)
    topics.method_ = "gibbs"


def _adopt_variational(estimator, state, n_documents):
    """Set the results of a run that holds its documents, or of a stream."""
    counts, sticks = state.word_counts.T, state.sticks
    weights = (sticks.pseudocounts, sticks.alpha, sticks.gamma)
    adopt_found(estimator, state, counts, counts.sum(axis=1), weights, n_documents)
    estimator.method_ = state.settings.local_of(counts.shape[0])


# ---- chunks ----------------------------------------------------------------------------------------------------------


def chunk_kernel(estimator: Any) -> Any:
    """Return the kernel that learns chunks, with the settings of the estimator."""
    _check_settings(estimator)
    _refuse_seeds(estimator)
    return _variational_kernel(estimator)


def chunk_model(estimator: Any, X: Any, options: dict[str, Any], *, is_first: bool) -> HierarchicalProcess:
    """Return the model of a first chunk, or of the stream; a fit without one is refused."""
    if hasattr(estimator, "stream_"):
        return estimator.stream_.process
    if not is_first:
        raise CapabilityError(
            "TopicModel(None) does not go on from a fit of documents at once, which leaves nothing of each document:"
            f" with these in X and new ones in X2 write {line_of(estimator, sampler='variational')}.fit_chunks([X, X2])"
        )
    data = documents_of(estimator, X, **options)
    if not data.X.sum():
        raise DataError("TopicModel: the first chunk has no words, so there are no topics to begin with: give others")
    return HierarchicalProcess(data.family, concentration_of(estimator))


def adopt_stream(estimator: Any, stream: TopicProcessStream) -> None:
    """Set the results of a stream, the largest topics first."""
    _adopt_variational(estimator, stream, stream.total_weight + stream.wordless_weight)


def restored_stream(estimator: Any, arrays: dict[str, Any], kernel: Any, family: Multinomial) -> TopicProcessStream:
    """Return the stream of chunks that was stored."""
    process = HierarchicalProcess(family, estimator.concentration_, estimator.gamma_)
    return TopicProcessStream.from_arrays(process, kernel, arrays)


def _refuse_seeds(estimator):
    if estimator.seeds is not None:
        raise CapabilityError(
            f"TopicModel: variational inference of an unknown number takes no seeds: write {_SAMPLED}"
        )


def _variational_kernel(estimator):
    """Return the variational kernel that was given, or one with the settings of the estimator."""
    if isinstance(estimator.sampler, TopicProcessVariational):
        refuse_learn_hyper(estimator)
        return estimator.sampler
    learned = {"learn_alpha": learns_concentrations(estimator), "learn_eta": learns_eta(estimator)}
    return TopicProcessVariational(**learned, n_threads=estimator.n_threads)


def refuse_learn_hyper(estimator: Any) -> None:
    """Refuse `learn_hyper` beside a kernel."""
    why = "a kernel, which says itself what it learns,"
    refuse_unused(estimator, ["learn_hyper"], why=why, remedy="give the kernel learn_alpha and learn_eta")


def _seeds_of(estimator, data):
    """Return the seeds of the topics that have some: (V, C) CSR, or None."""
    if not isinstance(estimator.seeds, Mapping):
        return seed_matrix(estimator.seeds, estimator.seed_tokens, data.X, 1, None)
    numbers = [topic for topic in estimator.seeds if topic in Integer(0)]
    n_seeded = 1 + max(numbers, default=-1)
    names, shares = names_of_words(estimator, data.n_features), max(n_seeded, _SHARES)
    return seed_matrix(estimator.seeds, estimator.seed_tokens, data.X, max(n_seeded, 1), names, shares)


def _check_settings(estimator):
    """Refuse settings that need a given number of topics."""
    if _is_process(estimator.sampler) or isinstance(estimator.sampler, TopicProcessVariational):
        return
    found = find_sampler(estimator.sampler, model="TopicModel")
    if found not in (None, TopicGibbs, TopicVariational):
        name = found.__name__ if isinstance(found, type) else type(found).__name__
        refuse_unknown(
            "TopicModel",
            f"sampler={name}",
            "TopicModel(None, sampler='gibbs') or TopicModel(None, sampler='variational')",
        )


def _kernel_of(estimator):
    """Return the kernel that was given, or one with the settings of the estimator."""
    if _is_process(estimator.sampler):
        refuse_learn_hyper(estimator)
        return estimator.sampler
    learned = {"learn_alpha": learns_concentrations(estimator), "learn_eta": learns_eta(estimator)}
    return Cycle(TopicProcessSplitMerge(work=_WORK), TopicProcessGibbs(**learned, learn_every=_LEARN_EVERY))


def _is_process(kernel):
    """Return whether a kernel, or every one of a `Cycle`, samples topics of unknown number."""
    return all(isinstance(part, TopicProcessGibbs) for part in getattr(kernel, "kernels", (kernel,)))


def check_data(estimator: Any, data: Dataset) -> None:
    """Refuse fractional counts and weights of documents, with the line that takes them."""
    line = "TopicModel(None, sampler='variational')"
    if _is_weighted(data):
        raise CapabilityError(
            "TopicModel: Gibbs sampling cannot use sample_weight, for the tokens of each copy of a document have topics"
            f" of their own: write {line}.fit(X, sample_weight=sample_weight), or where all weights are whole numbers"
            f" {repeated('sample_weight')}"
        )
    if _is_fractional(data):
        raise DataError(
            "TopicModel: Gibbs sampling needs whole counts, which are numbers of tokens: round X, or write"
            f" {line}.fit(X)"
        )


def phases_of(estimator: Any, kernel: Any, n_warmup: int, n_steps: int) -> list[Phase]:
    """Return the phases of a run: eta waits for topics that are no longer nearly random.

    The warm-up of the default cycle searches for topics that are one every `_SEARCH_EVERY` steps, and not in its last
    ones.
    """
    has_rule = is_auto(estimator.n_warmup) and n_warmup > _LEAST_WARMUP
    n_warmup = _LEAST_WARMUP if has_rule else n_warmup
    early = min(_EARLY, n_warmup // 2)
    phases = [Phase(_without_eta(kernel), early), Phase(kernel, n_warmup - early)]
    if kernel is not estimator.sampler and isinstance(kernel, Cycle):
        phases = [part for phase in phases for part in _with_search(phase)]
    if has_rule:
        phases.append(Phase(kernel, LONGEST_WARMUP - n_warmup, StillFalling()))
    return [*phases, Phase(kernel, n_steps)]


def _without_eta(kernel):
    """Return a kernel that does not learn the pseudo-count of words."""
    if isinstance(kernel, Cycle):
        return type(kernel)(*map(_without_eta, kernel.kernels), **_settings(kernel, "kernels"))
    if not kernel.learn_eta:
        return kernel
    return type(kernel)(**kernel.get_params() | {"learn_eta": False})


def _settings(kernel, left_out):
    """Return the settings of a kernel but one."""
    return {name: value for name, value in kernel.get_params().items() if name != left_out}


def _with_search(phase):
    """Return a phase in parts, each of which but the last ends with a search for equal topics."""
    searching = Cycle(TopicProcessMerges(), *phase.kernel.kernels)
    found, left = [], phase.n_steps
    while left > _SEARCH_EVERY:
        found += [Phase(phase.kernel, _SEARCH_EVERY - 1), Phase(searching, 1)]
        left -= _SEARCH_EVERY
    return [*found, Phase(phase.kernel, left)]


def observed_rules(phases: list[Phase]) -> list[Any]:
    """Return callbacks that tell the rules of phases of the sweeps before."""
    return [_First(phase.rule) for phase in phases if phase.rule is not None]


class _First:
    """Callback that tells a rule of the sweeps before its phase."""

    def __init__(self, rule):
        self.rule, self.n_seen = rule, 0

    def __call__(self, info, state):
        self.n_seen += 1
        return self.rule.watch(info, state) if self.n_seen <= _LEAST_WARMUP else False


def _parts(state, slots):
    """Return counts of words in topics (k, V), and tokens of the topics (k,)."""
    counts = state.tokens.word_topics().tocsc()[:, slots].T.toarray().astype(np.float64)
    return [counts, state.tokens.topic_size[slots].astype(np.float64)]


def adopt_found(
    estimator: Any,
    state: Any,
    counts: Floats,
    sizes: Floats,
    weights: tuple[Floats, float, float],
    n_documents: float,
    seeded: HierarchicalProcess | None = None,
) -> None:
    """Set the results of a fit that has found the number of topics.

    Parameters
    ----------
    estimator, state
        A `TopicModel`, and what has the model, the pseudo-counts of words and the log joint.
    counts, sizes : (K, V) and (K,) float64 ndarrays
        Tokens of words in topics, without seeds, and of topics.
    weights : tuple
        Pseudo-counts of topics in documents (K,), and the concentrations of documents and of all topics.
    n_documents, seeded
        Their number, and the model with topics that come first, if there are such topics.
    """
    pseudocounts, alpha, gamma = weights
    n_known = 0 if seeded is None else seeded.n_known
    order = falling_sizes(sizes, n_known)
    eta = state.model.family.concentration
    estimator.eta_ = float(eta) if np.ndim(eta) == 0 else np.array(eta)
    estimator.__dict__.pop("seeds_", None)
    estimator.components_ = np.ascontiguousarray(counts[order] + state.eta)
    if seeded is not None and seeded.seeds is not None:
        estimator.seeds_ = seeded.seeds_of(len(order))
        estimator.components_[:n_known] += seeded.seeds.toarray().T
    estimator.sizes_ = sizes[order]
    set_weights(estimator, pseudocounts[order], alpha, gamma)
    estimator.log_joint_, estimator.n_documents_ = float(state.log_joint), float(n_documents)
    estimator._n_features_out = len(order)
