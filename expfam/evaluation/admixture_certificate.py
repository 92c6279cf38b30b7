"""What is certified of topic models and mixtures of rows in groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from expfam.errors import CapabilityError, DataError
from expfam.evaluation.admixture_checks import (
    AdmixtureProblem,
    ChainRun,
    PriorOfCounts,
    can_hold_clusters,
    check_cold_chains,
    check_few,
    check_given_units,
    check_true_clusters,
)
from expfam.evaluation.exactness import Found
from expfam.evaluation.given_rows import matrix_of
from expfam.evaluation.process_checks import ProcessProblem
from expfam.evaluation.process_checks import check_true_clusters as check_true_process
from expfam.evaluation.units import RowUnits, TokenUnits
from expfam.frames.frame import as_frame, is_frame
from expfam.model.admixture import AdmixtureModel
from expfam.model.data import Dataset
from expfam.model.groups import Groups, as_groups
from expfam.model.hierarchical import HierarchicalProcess
from expfam.model.known import Known
from expfam.params import is_auto
from expfam.samplers.chain.kernel import Cycle, Kernel
from expfam.samplers.named import find_sampler
from expfam.samplers.nonparametric.group_moves import GroupedProcessSplitMerge
from expfam.samplers.nonparametric.groups import GroupedProcessGibbs
from expfam.samplers.nonparametric.topic_moves import TopicProcessSplitMerge
from expfam.samplers.nonparametric.topics import TopicProcessGibbs
from expfam.samplers.topics.corpus import LEAST_ETA
from expfam.samplers.topics.document_gibbs import DocumentGibbs
from expfam.samplers.topics.gibbs import TopicGibbs

TOPICS, GROUPED = "topic_model", "grouped_mixture"  # kinds of estimators
_NAME = {TOPICS: "TopicModel", GROUPED: "GroupedMixture"}
_OF_GIVEN_NUMBERS = "not made where the number of clusters is unknown; the check 'truth' is"
_STEPS = 100  # of a run, where the estimator leaves them to a rule
_KERNEL_STEPS = 50  # of a run whose kernel is given alone, as many for the warm-up


class Certified(NamedTuple):
    """What is certified: kernel, model, checks and the cold run.

    Attributes
    ----------
    kernel : Kernel
        As it was given.
    model : object
    checks : dict of str to callable or str
        Function of (n_replicates, seed) of each check, or why nothing is checked.
    cold_run : object
        With `n_warmup` and `n_steps`.
    """

    kernel: Any
    model: Any
    checks: dict[str, Callable[[int, int], Found] | str]
    cold_run: Any


def certified_admixture(
    model: Any,
    X: Any,
    *,
    groups: Any,
    links: Any,
    sampler: Any,
    seed: int,
    n_units: int,
    n_threads: int | None,
) -> Certified:
    """Return what is certified of a topic model or of a mixture of rows in groups.

    Parameters
    ----------
    model : TopicModel, GroupedMixture or AdmixtureModel
        An estimator that is not fitted is fitted to the data first.
    X, groups, links, sampler
        As of `check_model`.
    seed, n_units, n_threads : int
    """
    estimator = None if isinstance(model, AdmixtureModel) else model
    kind = estimator.saved_kind if estimator is not None else TOPICS if groups is None else GROUPED
    _check_arguments(kind, estimator, groups, links)
    X, groups = _without_group_column(X, groups)
    given = {} if kind == TOPICS else {"groups": groups} | ({} if links is None else {"links": links})
    if estimator is None:
        fitted, bound = None, model.bind(matrix_of(X, model.family))
    else:
        fitted = _fitted(estimator, X, given, sampler, seed)
        bound = fitted._fitted_model()
    data = _data(kind, X, bound, fitted, groups, links)
    kernel = _kernel(kind, estimator, sampler, data)
    no_sampler = _no_sampler(kind, kernel)
    if not no_sampler:
        kernel.check(bound, data)
        no_sampler = _no_clusters(kernel, bound, data)
    units = None if no_sampler else TokenUnits(data.X) if kind == TOPICS else RowUnits(data, bound.n_components)
    every = AdmixtureProblem(bound, _in_every_step(kernel), units, n_units, n_threads, _prior_of(kernel))
    fixed = every._replace(kernel=_at_fixed_counts(every.kernel), prior=None)
    run = _cold_run(kind, estimator, kernel)
    functions: dict[str, Any] = {
        "rows": lambda n, seed: _noted(every, check_few(fixed, n, seed), is_fixed=True),
        "truth": lambda n, seed: _noted(every, check_true_clusters(every, n, seed)),
        "data": lambda n, seed: _noted(every, check_given_units(fixed, n, seed), is_fixed=True),
        "cold": lambda n, seed: _noted(every, check_cold_chains(every, run, n, seed)),
    }
    return Certified(kernel, bound, {name: no_sampler or made for name, made in functions.items()}, run)


def certified_process(
    model: Any,
    X: Any,
    *,
    groups: Any,
    links: Any,
    sampler: Any,
    seed: int,
    n_units: int,
    n_threads: int | None,
) -> Certified:
    """Return what is certified of topics, or of clusters of groups, whose number is unknown.

    The parameters are those of `certified_admixture`, with a `HierarchicalProcess` as the model alone.
    """
    estimator = None if isinstance(model, HierarchicalProcess) else model
    kind = estimator.saved_kind if estimator is not None else TOPICS if groups is None else GROUPED
    _check_arguments(kind, estimator, groups, links)
    _check_process(kind, estimator, model, links)
    kernel = _in_every_step(_process_kernel(kind, estimator, sampler))  # refused before a fit, not after it
    X, groups = _without_group_column(X, groups)
    if estimator is None:
        fitted, bound = None, model.bind(matrix_of(X, model.family))
    else:
        fitted = _fitted(estimator, X, {} if kind == TOPICS else {"groups": groups}, sampler, seed)
        bound = HierarchicalProcess(fitted.family_, fitted.concentration_, fitted.gamma_)
    data = _data(kind, X, bound, fitted, groups, None)
    kernel.check(bound, data)
    prior = _prior_of(kernel) or PriorOfCounts(False, False)
    units = TokenUnits(data.X) if kind == TOPICS else RowUnits(data, 1)
    problem = ProcessProblem(bound, kernel, units, n_units, n_threads, prior.alpha, prior.eta)
    checks: dict[str, Any] = dict.fromkeys(("rows", "truth", "data", "cold"), _OF_GIVEN_NUMBERS)
    checks["truth"] = _no_sampler(kind, kernel) or (lambda n, seed: check_true_process(problem, n, seed))
    return Certified(kernel, bound, checks, _cold_run(kind, estimator, kernel))


def _check_process(kind, estimator, model, links):
    """Refuse what is known of words and rows beside an unknown number."""
    owner = _NAME[kind] if estimator is not None else "HierarchicalProcess"
    is_known = model.n_known > 0 if estimator is None else kind == TOPICS and estimator.seeds is not None
    if is_known or links is not None:
        what = "links" if links is not None else "seeds" if kind == TOPICS else "known clusters"
        raise CapabilityError(
            f"check_model: the steps of a {owner} of unknown number are checked without {what}: write"
            f" check_model({owner}({'n_components=None' if estimator is not None else 'family'}), X"
            f"{', groups=groups' if kind == GROUPED else ''})"
        )


def _process_kernel(kind, estimator, sampler):
    """Return the kernel of an unknown number that is checked, with what it learns."""
    asked = sampler if sampler is not None else "auto" if estimator is None else estimator.sampler
    process = TopicProcessGibbs if kind == TOPICS else GroupedProcessGibbs
    parts = getattr(asked, "kernels", (asked,)) if isinstance(asked, Kernel) else ()
    is_exact = parts or find_sampler(asked, model=_NAME[kind]) in (None, find_sampler("gibbs", model=_NAME[kind]))
    if not is_exact or not all(isinstance(part, process) for part in parts):
        raise CapabilityError(
            f"check_model: an unknown number is checked with {process.__name__} and its moves; got {asked!r}: write"
            f" check_model(model, X, sampler={process.__name__}())"
        )
    if parts:
        return asked
    learned = {"learn_alpha": False, "learn_eta": False}
    if estimator is not None:
        by_default = is_auto(estimator.learn_hyper)
        learned["learn_alpha"] = is_auto(estimator.alpha)
        learned["learn_eta"] = getattr(estimator, "eta", 1.0) in (None, "auto") if by_default else estimator.learn_hyper
    if kind == GROUPED:
        return Cycle(GroupedProcessSplitMerge(), GroupedProcessGibbs(learn_alpha=learned["learn_alpha"]))
    return Cycle(TopicProcessSplitMerge(), TopicProcessGibbs(**learned))


def _noted(problem, found, *, is_fixed=False):
    """Return what was found, with a note on pseudo-counts that the kernel redraws."""
    if problem.prior is None:
        return found
    names = [name for name, is_drawn in zip(("alpha", "eta"), problem.prior) if is_drawn]
    note = "the kernel at fixed pseudo-counts" if is_fixed else f"pseudo-counts from their prior: {', '.join(names)}"
    return found._replace(notes=(*found.notes, note))


# ---- arguments -------------------------------------------------------------------------------------------------------


def _check_arguments(kind, estimator, groups, links):
    """Refuse groups that are missing or too many, and what is known of rows and is not given."""
    name = _NAME[kind] if estimator is not None else "AdmixtureModel"
    if kind == TOPICS and links is not None:
        raise CapabilityError(
            f"check_model: the tokens of a {name} have no links: write check_model(model, X), or for linked rows"
            " check_model(GroupedMixture(family, K), X, groups=groups, links=links)"
        )
    if kind == TOPICS and groups is not None:
        raise CapabilityError("check_model: the groups of a TopicModel are the rows of X: write check_model(model, X)")
    if kind == GROUPED and groups is None:
        raise ValueError(
            "check_model: a GroupedMixture needs groups=, the group of each row: write check_model(mixture, X,"
            " groups=groups)"
        )
    if kind != GROUPED or estimator is None:
        return
    if estimator.labels is not None or hasattr(estimator, "classes_"):
        raise CapabilityError(
            f"check_model: the GroupedMixture was made with labels={estimator.labels or 'clusters'!r}, and the checks"
            " draw rows of no known class: they would speak of another posterior. To check the steps without classes,"
            " write check_model(mixture._fitted_model(), X, groups=groups, sampler='gibbs'), or make the mixture"
            " without labels="
        )
    if hasattr(estimator, "n_known_") and links is None:
        raise CapabilityError(
            "check_model: the GroupedMixture was fitted with links of rows, and without them the checks would speak of"
            " another posterior: write check_model(mixture, X, groups=groups, links=links)"
        )


def _without_group_column(X, groups):
    """Return rows and groups; the name of a column of a frame becomes its cells."""
    if not isinstance(groups, str):
        return X, groups
    if not is_frame(X):
        raise DataError(
            f"check_model: groups={groups!r} names a column, and X has no names of columns: write"
            " check_model(mixture, X, groups=groups) with the group of each row"
        )
    frame = as_frame(X, owner="check_model")
    if groups not in frame.names:
        raise DataError(
            f"check_model: X has no column {groups!r}: write groups= with one of {', '.join(map(repr, frame.names))}"
        )
    column = frame.column(groups)
    values = column.values.tolist()
    cells = [column.levels[value] for value in values] if column.levels else values
    names = [None if lacks else cell for cell, lacks in zip(cells, column.missing.tolist())]
    return frame.without([groups]), Groups.of_names(names)


def _data(kind, X, model, estimator, groups, links):
    """Return the user's data as a kernel reads them."""
    X = matrix_of(X, model.family, estimator)
    if kind == TOPICS:
        return Dataset(X, model.family)
    n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
    known = None if links is None else Known(links=np.asarray(links))
    known = known if known is not None and known.groups else None
    return Dataset(X, model.family, groups=as_groups(groups, n_rows), known=known)


def _fitted(estimator, X, given, sampler, seed):
    """Return the estimator, or a fitted copy of one that is not fitted."""
    if hasattr(estimator, "alpha_"):
        return estimator
    settings = estimator.get_params(deep=False) | {"random_state": seed}
    if sampler is not None and not isinstance(sampler, Kernel):
        settings |= {"sampler": sampler}
    return type(estimator)(**settings).fit(X, **given)


# ---- kernels ---------------------------------------------------------------------------------------------------------


def _kernel(kind, estimator, sampler, data):
    """Return the kernel that is checked, with what it learns."""
    if isinstance(sampler, Kernel):
        return sampler
    asked = sampler if sampler is not None else "auto" if estimator is None else estimator.sampler
    found: Any = find_sampler(asked, model=_NAME[kind])
    if found is None:
        is_variational = kind == TOPICS and _is_fractional(data.X)
        found = find_sampler("variational" if is_variational else "gibbs", model=_NAME[kind])
    if not isinstance(found, type):
        return found
    learns = {"learn_alpha": False} if estimator is None else _learned(estimator)
    if kind == GROUPED:
        learns.pop("learn_eta", None)
    elif estimator is not None and issubclass(found, (TopicGibbs, DocumentGibbs)):
        learns |= _sampled_eta(estimator)
    return found(**learns)


def _learned(estimator):
    """Return what an estimator learns, by its `learn_hyper`."""
    by_default = is_auto(estimator.learn_hyper)
    return {
        f"learn_{name}": is_auto(getattr(estimator, name)) if by_default else bool(estimator.learn_hyper)
        for name in ("alpha", "eta")
        if hasattr(estimator, name)
    }


def _sampled_eta(estimator):
    """Return what a sampler learns of the pseudo-count of words that is left open."""
    is_open = estimator.eta is None and estimator.seeds is None
    learns = is_auto(estimator.learn_hyper) or estimator.learn_hyper
    return {"learn_eta": True, "least_eta": LEAST_ETA} if is_open and learns else {}


def _is_fractional(X):
    values = X.data if sparse.issparse(X) else np.asarray(X)
    return bool((values != np.floor(values)).any())


def _no_sampler(kind, kernel):
    """Return why a kernel has no posterior to be checked against, or an empty text."""
    if kernel.is_sampler:
        return ""
    return (
        f"{type(kernel).__name__} is no sampler: it looks for one good fit and does not draw from the posterior."
        f" The sampler that does is {_NAME[kind]}(sampler='gibbs')"
    )


def _no_clusters(kernel, model, data):
    """Return why the state of a kernel cannot be set to clusters, or an empty text."""
    if can_hold_clusters(kernel.init(model, data, seed=0, start="random")):
        return ""
    return f"{type(kernel).__name__} keeps no single cluster of each unit that a check could set and read"


def _with_settings(kernel, **settings):
    """Return a kernel, or each part of a composition, with those of the settings that it has."""
    if isinstance(kernel, Cycle):
        own = {name: value for name, value in kernel.get_params().items() if name != "kernels"}
        return type(kernel)(*(_with_settings(part, **settings) for part in kernel.kernels), **own)
    own = kernel.get_params()
    return type(kernel)(**own | {name: value for name, value in settings.items() if name in own})


def _in_every_step(kernel):
    """Return the kernel that draws its pseudo-counts in every step, which is as exact."""
    return _with_settings(kernel, learn_every=1)


def _at_fixed_counts(kernel):
    return _with_settings(kernel, learn_alpha=False, learn_eta=False)


def _prior_of(kernel):
    """Return the prior of the pseudo-counts that a kernel redraws, or None."""
    parts = kernel.kernels if isinstance(kernel, Cycle) else [kernel]
    alpha, eta = (any(getattr(part, name, False) for part in parts) for name in ("learn_alpha", "learn_eta"))
    least_eta = max(getattr(part, "least_eta", 0.0) for part in parts)
    return PriorOfCounts(alpha, eta, least_eta) if alpha or eta else None


def _cold_run(kind, estimator, kernel):
    """Return the run of a kernel with the steps and the start of an estimator."""
    if estimator is None:
        return ChainRun(kernel, "auto", n_warmup=_KERNEL_STEPS, n_steps=_KERNEL_STEPS)
    n_steps = _STEPS if is_auto(estimator.n_steps) else int(estimator.n_steps)
    n_warmup = min(n_steps, _STEPS) if is_auto(estimator.n_warmup) else int(estimator.n_warmup)
    start = estimator.start if isinstance(estimator.start, str) else "auto"
    if kind == TOPICS and start == "auto":
        start = "variational"
    return ChainRun(kernel, start, n_warmup=n_warmup, n_steps=n_steps)
