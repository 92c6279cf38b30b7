"""The plan of a mixture's fit: its settings, checked, and what "auto" stands for in them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from expfam.estimators.base import check_learn_hyper, follows_rule, step_numbers
from expfam.fitting.chains import check_chains, starts_of_chains
from expfam.fitting.known_rows import kernel_of_rows
from expfam.fitting.plan import LOSSES, PARTITIONS, Plan, n_automatic_draws
from expfam.fitting.weighted_rows import check_weights, start_of_counted
from expfam.model.mixture import MixtureModel
from expfam.params import Integer, check_value, is_auto
from expfam.samplers.named import load_sampler
from expfam.stages import asked_callbacks

if TYPE_CHECKING:
    from expfam.families.base import Family
    from expfam.model.data import Dataset


def plan_of(mixture: Any, whole: Dataset, family: Family) -> Plan:
    """Return the plan for rows to which the family is bound."""
    asked = mixture._asked(family)
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


__all__ = ["most_draws", "plan_of"]
