"""The plan of a mixture's fit: its settings, checked, and what "auto" stands for in them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from expfam.estimators.base import check_learn_hyper, follows_rule, step_numbers
from expfam.estimators.family_estimator import compared_rows
from expfam.estimators.lines import line_of
from expfam.estimators.loaded import names_of_fit
from expfam.fitting.chains import check_chains, n_rounds, starts_of_chains
from expfam.fitting.known_rows import kernel_of_rows, known_rows
from expfam.fitting.phases import planned_phases, step_range
from expfam.fitting.plan import LOSSES, PARTITIONS, Asked, Plan, n_automatic_draws
from expfam.fitting.slow_fits import warn_of_slow_fit
from expfam.fitting.weighted_rows import check_weights, start_of_counted
from expfam.model.data import Dataset
from expfam.model.mixture import MixtureModel, checked_weights
from expfam.model.weights import DirichletProcess, SymmetricDirichlet
from expfam.params import Integer, check_value, is_auto
from expfam.samplers.named import load_sampler
from expfam.stages import asked_callbacks

if TYPE_CHECKING:
    from expfam.families.base import Family


def planned_fit(mixture: Any, X: Any, y: Any, sample_weight: Any, links: Any) -> Plan:
    """Return the plan of a fit; all that can be refused is refused here."""
    given = None if is_auto(mixture.family) else mixture._family()
    read, weights = mixture._validate(X, reset=True, family=given), partial(weights_of, mixture)
    X = compared_rows(mixture, X, read, weights, sample_weight)
    family = mixture._family() if given is None else given
    if family.is_bound and family.allows_missing:
        family = family.bind(X)  # other missing cells than those of its own data may open it
    known, mixture.classes_ = known_rows(type(mixture).__name__, mixture.labels, y, links, X.shape[0])
    options = {"names": names_of_fit(mixture), "n_threads": mixture.n_threads}
    whole = Dataset(X, family, weight=sample_weight, known=known, **options)
    plan = plan_of(mixture, whole, family)
    most = mixture._check_run(
        plan.model,
        plan.data,
        planned_phases(plan),
        kernel=plan.kernel,
        forecast=partial(plan.forecast, is_copy=plan.data is not whole),
        start=plan.starts[0],
        seed=plan.seed,
        n_rounds=n_rounds(mixture.n_chains, mixture.n_threads, plan.model.family),
        n_steps=step_range(plan),
    )
    run = {"seed": plan.seed, "start": plan.starts[0], "n_chains": mixture.n_chains}
    warn_of_slow_fit(plan.kernel, plan.model, plan.data, most, **run)
    return plan.with_spread_ties()


def asked_of(mixture: Any, family: Family) -> Asked:
    """Return what is asked of a fit, whatever its data."""
    line = partial(line_of, mixture)
    settings = (mixture.n_components, mixture.learn_hyper, mixture.n_threads, line, type(mixture).__name__)
    return Asked(family, weights_of(mixture, family), *settings)


def weights_of(mixture: Any, family: Family | None = None) -> Any:
    """Return the prior of the mixture weights.

    One of `n_components` depends on the family: the mixture's own unless it is given.
    """
    K = mixture._check_components()
    if mixture.weights is not None:
        checked_weights(mixture.weights, owner="Mixture", n_components=K)
        if K is not None and mixture.weights.max_components != K:
            raise ValueError(
                f"n_components={K} and weights={mixture.weights!r} disagree; give one of them: write"
                f" Mixture(n_components={K})"
            )
        return mixture.weights
    if K is None:
        return DirichletProcess()
    # alpha of 1/K prefers empty clusters, which on real values costs clusters that are there
    family = mixture._family() if family is None else family
    return SymmetricDirichlet(K) if family.is_discrete else SymmetricDirichlet(K, 1.0)


def plan_of(mixture: Any, whole: Dataset, family: Family) -> Plan:
    """Return the plan for rows to which the family is bound."""
    asked = asked_of(mixture, family)
    model = MixtureModel(whole.family, asked.weights)
    kernel = kernel_of_rows(mixture.sampler, model, whole, n_threads=mixture.n_threads)
    settings: dict[str, Any] = {"sampler": mixture.sampler, "owner": asked.owner, "line": asked.line}
    check_weights(kernel, model, whole, others=partial(_samplers_with_weights, model), **settings)
    check_value("Mixture: n_chains", mixture.n_chains, (Integer(1),))
    check_chains(kernel, mixture.n_chains, mixture.start)
    starts = [start_of_counted(whole, start) for start in starts_of_chains(mixture.start, mixture.n_chains)]
    n_steps, n_warmup = step_numbers(mixture)
    check_learn_hyper(mixture)
    check_value("Mixture: partition", mixture.partition, PARTITIONS)
    data = whole.counted()  # rows of weight 0 have no part in the fit
    return Plan(
        asked,
        model,
        whole=whole,
        data=data,
        seen=data,
        sampler=mixture.sampler,
        kernel=kernel,
        n_chains=mixture.n_chains,
        starts=tuple(starts),
        has_own_starts=any(start is not mixture.start for start in starts),
        seed=mixture._seed(),
        n_steps=n_steps,
        n_warmup=n_warmup,
        is_automatic=is_auto(mixture.sampler),
        has_rule=follows_rule(mixture),
        is_warmup_left=is_auto(mixture.n_warmup),
        partition=mixture.partition,
        n_draws=most_draws(mixture, data.n_rows),
        callbacks=asked_callbacks(mixture.callbacks),
    )


def most_draws(mixture: Any, n_rows: int) -> int:
    """Return how many draws are kept at most."""
    check_value("Mixture: n_draws", mixture.n_draws, ("auto", Integer(0)))
    has_loss = mixture.partition in LOSSES
    if is_auto(mixture.n_draws):
        return n_automatic_draws(n_rows, mixture.n_components) if has_loss or mixture.n_chains > 1 else 0
    if not mixture.n_draws and (has_loss or mixture.n_chains > 1):
        needs = f"partition={mixture.partition!r}" if has_loss else f"n_chains={mixture.n_chains}"
        raise ValueError(f"Mixture: {needs} needs draws; got n_draws=0: write Mixture({needs}, n_draws='auto')")
    return int(mixture.n_draws)


def _samplers_with_weights(model):
    is_open = model.weights.max_components is None
    return {name: load_sampler(name) for name in (("variational", "em") if is_open else ("em", "variational"))}
