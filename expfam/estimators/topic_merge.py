"""Merges of topic models of disjoint documents: counts of words, and the bound.

Counts are sums over tokens, so the counts of all documents are sums of the counts of the parts. For that each topic of
one part needs its partner in every other part. Where the parts went on from common topics the partners are known. Else
the pairing with most evidence of the words is chosen. Documents are equally probable under every pairing only if all
topics have the same pseudo-count, so that topics may change places.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from scipy.optimize import linear_sum_assignment

from expfam.amounts import counted
from expfam.errors import CapabilityError
from expfam.samplers.topics.statistics import log_evidence_of_topics
from expfam.samplers.variational.schedules import Stochastic

_ROUNDING = 1e-9


def topic_difference(a: Any, b: Any) -> str:
    """Return in words why the counts of two topic models do not add up; empty where they do."""
    if len(a.components_) != len(b.components_):
        return f"another number of topics ({len(b.components_)}, not {len(a.components_)})"
    for name, what in (("alpha_", "topics in documents"), ("eta_", "words in topics")):
        mine, theirs = getattr(a, name), getattr(b, name)
        is_open = name == "eta_" and a.eta is None and b.eta is None  # each learned its own: see `_shared_eta`
        if not np.array_equal(mine, theirs) and not is_open:
            return (
                f"other pseudo-counts of {what} ({_shown(theirs)}, not {_shown(mine)}; give {name.rstrip('_')} a"
                " number, the same to every fit, so that none is learned)"
            )
    if not _same_seeds(a, b):
        return "other seeds: give the same seeds and a number as seed_tokens to every fit"
    return ""


def _same_seeds(a, b):
    mine, theirs = (getattr(model, "seeds_", None) for model in (a, b))
    if mine is None or theirs is None:
        return mine is theirs
    return mine.shape == theirs.shape and (mine != theirs).nnz == 0


def merged_topics(models: list, clusters: Literal["apart", "merged"], common: Any) -> Any:
    """Return the merged topic model: settings of the first one, and results.

    The models are alike, see `topic_difference`. `merge` adds what all kinds of models have.
    """
    everyone = models if common is None else [common, *models]
    if common is not None:
        parts = [_since(model, common, place) for place, model in enumerate(models)]
        counts = _counts(common) + sum(parts)
    else:
        counts = _paired(models, clusters)
    first = models[0]
    prior, learned = first._fitted_model(), _shared_eta(models)
    prior = prior.with_family(prior.family.with_hyper(concentration=learned))
    eta, seeds = prior.family.pseudocounts()[0], prior.seeds
    merged = type(first)(**first.get_params(deep=False))
    merged.components_ = np.ascontiguousarray((prior.seeded(counts) + eta[:, None]).T)
    if seeds is not None:
        merged.seeds_ = seeds
    merged.alpha_, merged.eta_ = first.alpha_.copy(), np.copy(learned)[()]
    merged.n_documents_ = _sum_since("n_documents_", models, common)
    merged.log_joint_ = np.nan
    if all(_knows_its_bound(model) for model in everyone):
        rest = [model.log_joint_ - _evidence(model) for model in everyone]
        documents = sum(rest) if common is None else sum(rest[1:]) - (len(models) - 1) * rest[0]
        merged.log_joint_ = float(documents + log_evidence_of_topics(counts, eta, seeds))
    merged.method_ = first.method_
    merged._n_features_out = len(merged.components_)
    return merged


def _shared_eta(models):
    """Return the pseudo-count of words of all parts: the mean by tokens of those learned."""
    etas = [model.eta_ for model in models]
    if all(np.array_equal(eta, etas[0]) for eta in etas):
        return etas[0]
    return float(np.average(etas, weights=[_counts(model).sum() for model in models]))


def _evidence(model):
    """Return the log evidence of the words of a model given the topics of its tokens."""
    prior = model._fitted_model()
    return log_evidence_of_topics(_counts(model), prior.family.pseudocounts()[0], prior.seeds)


def _counts(model):
    """Return the tokens of each word in each topic: (V, K)."""
    return model._word_counts()


def _sum_since(name, models, common):
    total = sum(getattr(model, name) for model in models)
    return float(total if common is None else total - (len(models) - 1) * getattr(common, name))


def _knows_its_bound(model):
    """Return whether `log_joint_` is the bound of the counts.

    It is neither the joint of one sample of topics nor an estimate then.
    """
    return model.method_ != "gibbs" and not _is_stochastic(model)


def _is_stochastic(model):
    learned_by = model.stream_ if hasattr(model, "stream_") else model.sampler
    return isinstance(getattr(learned_by, "schedule", None), Stochastic)


def _since(model, common, place):
    """Return the counts that a model has learned since the common one."""
    if hasattr(model, "stream_") and _is_stochastic(model):
        raise CapabilityError(
            f"model {place} learned under a stochastic schedule, which forgets: what it learned since `common` is no"
            " sum over documents. Let models go on under TopicVariational(schedule=Memoized())"
        )
    counts, before = _counts(model), _counts(common)
    if (counts < before - _ROUNDING * (1.0 + before)).any():
        raise CapabilityError(
            f"model {place} did not go on from `common`: its topics do not hold what those of `common` do. Models go on"
            " by loading it and partial_fit, under TopicVariational(schedule=Memoized())"
        )
    return counts - before


def _paired(models, clusters):
    """Return counts of all parts, topics paired so that the words have most evidence."""
    K, alpha = len(models[0].components_), models[0].alpha_
    if hasattr(models[0], "seeds_"):  # seeds name the topics: partners are known
        return sum(_counts(model) for model in models)
    if clusters == "apart" and len(models) > 1:
        raise CapabilityError(
            f"{len(models)} times {counted(K, 'topic')} side by side are more than the {K} of the model, "
            "and documents of one part could not have topics of another: take clusters='merged', which pairs the "
            "topics of the parts, or let the parts go on from one model by partial_fit and give that as common=; one "
            "fit to all documents in chunks is fit_chunks"
        )
    if len(models) > 1 and (alpha != alpha[0]).any():
        raise CapabilityError(
            "topics with pseudo-counts of their own (alpha) are not interchangeable, so those of several models cannot"
            " be paired: give alpha one number for all topics, or merge models that went on from a common one"
        )
    family = models[0]._fitted_model().family
    total = _counts(models[0])
    for model in models[1:]:
        counts = _counts(model)
        evidence = np.stack([_log_evidence(family, row + counts.T) for row in total.T])
        total = total + counts[:, linear_sum_assignment(evidence, maximize=True)[1]]
    return total


def _log_evidence(family, S):
    return family.log_marginal(S.sum(axis=1), S)


def _shown(value):
    return f"{float(value):g}" if np.ndim(value) == 0 else np.array2string(value, precision=3, threshold=6)
