"""Cells of topic chains and grouped chains of the page of certificates: samplers, data, pseudo-counts and faults."""

import sys
from pathlib import Path

import numpy as np
from scipy import sparse

sys.path.append(str(Path(__file__).resolve().parents[2] / "tests" / "support"))  # the wrong samplers stand there

import wrong_admixture_samplers as wrong

from expfam import AdmixtureModel, Multinomial, check_model
from expfam.model.grouped_simulation import draw_clusters, draw_words
from expfam.model.simulation import draw_rows
from expfam.samplers import GroupedGibbs, TopicGibbs

TOPIC_SAMPLERS = {
    "topic_gibbs": TopicGibbs(learn_alpha=False),
    "topic_gibbs_alpha": TopicGibbs(),
    "topic_gibbs_alpha_eta": TopicGibbs(learn_eta=True),
}
GROUP_SAMPLERS = {
    "grouped_gibbs": GroupedGibbs(learn_alpha=False),
    "grouped_gibbs_random_order": GroupedGibbs(order="random", learn_alpha=False),
    "grouped_gibbs_alpha": GroupedGibbs(),
}
TOPIC_DATA = ("words", "seeded words")
ALPHA = {"equal": np.full(3, 0.5), "unequal": np.array([0.5, 0.3, 0.9])}
LINKS = ("free", "linked")  # rows, each for its own, or some of them linked
N_UNITS, N_GROUPS = 60, 8
_ETA, _WORDS = 0.6, 6

_INTRODUCTION = """Topic models with equal and unequal pseudo-counts of topics, and mixtures of rows in groups, free
and with some rows linked. Samplers named with `alpha` or `eta` draw these pseudo-counts; "truth" draws them from their
prior."""

# name: (sampler, data, pseudo-counts or links, check that must fail)
WRONG = {
    "topics, alpha times 1.1": (wrong.OtherTopics(alpha=1.1), "words", "unequal", "rows"),
    "topics, eta times 0.9": (wrong.OtherTopics(eta=0.9), "words", "unequal", "rows"),
    "topics, mass of one more": (wrong.PlainSweep(fault=wrong.mass_of_one_more), "words", "unequal", "rows"),
    "topics, counts of the last sweep": (wrong.PlainSweep(is_stale=True), "words", "unequal", "rows"),
    "topics, statistics out of date": (wrong.StaleTopics(), "words", "unequal", "truth"),
    "groups, alpha times 1.1": (wrong.OtherGroups(alpha=1.1), "poisson", "free", "rows"),
    "groups, mass of one more": (wrong.PlainSweep(fault=wrong.mass_of_one_more), "poisson", "free", "rows"),
}


def all_cells(families):
    """Names (sampler, data, pseudo-counts or links) of all cells."""
    topics = [(sampler, data, alpha) for sampler in TOPIC_SAMPLERS for data in TOPIC_DATA for alpha in ALPHA]
    return [
        *topics,
        *((sampler, family, links) for sampler in GROUP_SAMPLERS for family in families for links in LINKS),
    ]


def sampler_of(name):
    """The sampler of a name."""
    return (TOPIC_SAMPLERS | GROUP_SAMPLERS)[name]


def certificate_of(sampler, data, variant, families, **settings):
    """The certificate of a sampler on data drawn from its model."""
    rng = np.random.default_rng(0)
    groups = np.sort(rng.integers(0, N_GROUPS, N_UNITS))
    if data in TOPIC_DATA:
        seeds = sparse.csr_array(2 * np.eye(_WORDS, 3, dtype=int)) if data == "seeded words" else None
        model = AdmixtureModel(Multinomial(_ETA), 3, ALPHA[variant], seeds).bind(np.ones((1, _WORDS)))
        topics = draw_clusters(ALPHA[variant], groups, rng)
        X = np.zeros((N_GROUPS, _WORDS))
        np.add.at(X, (groups, draw_words(np.full(_WORDS, _ETA), topics, rng, seeds=seeds)), 1)
        return check_model(model, X, sampler=sampler, **settings)
    family, rows = families[data]
    links = np.full(N_UNITS, -1)
    if variant == "linked":
        links[[0, 1, 30]], links[[10, 50]] = 0, 1
    model = AdmixtureModel(family, 3, ALPHA["unequal"]).bind(rows)
    labels = draw_clusters(ALPHA["unequal"], groups, rng, links=links)
    X = draw_rows(model.family, labels, rng)
    given = {"links": links} if variant == "linked" else {}
    return check_model(model, X, groups=groups, sampler=sampler, **given, **settings)


def section(stored, shown):
    """Lines of the page for what has been made; none before the first cell."""
    cells = stored.get("grouped", {})
    if not cells:
        return []
    lines = ["## Topics, and rows in groups", "", _INTRODUCTION]
    lines += ["", f"{len(cells)} cells have been made.", "", "| sampler | data | variant | p |", "|---|---|---|---|"]
    lines += [f"| {' | '.join(name.split(','))} | {shown(found)} |" for name, found in cells.items()]
    return [*lines, ""]
