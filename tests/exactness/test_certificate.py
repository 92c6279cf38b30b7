"""Certificates: each wrong sampler fails by the check that is meant to find it, and its right twin passes."""

import numpy as np
import pytest
from wrong_samplers import (
    AdaptsForEver,
    OtherWeights,
    PlainGibbs,
    PlainMetropolis,
    PlainSplitMerge,
    PriorDraws,
    SizesForgotten,
    StaleStatistics,
    Still,
    mass_of_one_more_cluster,
    own_row_left_in,
    tempered,
)

from expfam import DiagonalGaussian, DirichletProcess, Mixture, MixtureModel, PitmanYor, Poisson, SymmetricDirichlet
from expfam.evaluation.certificate import check_model
from expfam.evaluation.quantities import OF_DATA
from expfam.samplers import (
    CollapsedGibbs,
    Cycle,
    FastEx,
    SplitMerge,
    UncollapsedGibbs,
    UncollapsedMetropolis,
    UpdateHyper,
)

RNG = np.random.default_rng(0)
COUNTS = RNG.poisson(RNG.choice([1.0, 6.0], size=(60, 1)), size=(60, 2)).astype(float)
ALIKE = RNG.poisson(RNG.choice([1.0, 3.0], size=(60, 1)), size=(60, 1)).astype(float)
REAL = RNG.normal(RNG.choice([-2.0, 2.0], size=(60, 1)), 1.0, size=(60, 2))
ONE_CLOUD = RNG.normal(size=(60, 4))
POISSON = Poisson(shape=1.5, rate=0.4)
GAUSSIAN = DiagonalGaussian(mean=0.0, mean_strength=0.3, shape=2.0, rate=1.0)
DP, PY, FINITE = DirichletProcess(0.9), PitmanYor(0.9, 0.3), SymmetricDirichlet(4, 0.5)


def certificate(kernel, checks, n_replicates, *, weights=DP, family=POISSON, X=COUNTS, **options):
    return check_model(
        MixtureModel(family, weights),
        X,
        sampler=kernel,
        checks=checks,
        n_replicates=n_replicates,
        **{"n_rows": 30, "random_state": 1} | options,
    )


def failed(found):
    return {(row.check, row.quantity) for row in found.table if row.status == "failed"}


# name: (wrong sampler, its right twin, check that must fail, replicates, other arguments)
FAULTS = {
    "alpha times 1.4, by ranks": (OtherWeights(strength=1.4), OtherWeights(), "truth", 400, {}),
    "alpha times 1.4, by enumeration": (OtherWeights(strength=1.4), OtherWeights(), "rows", 100, {}),
    "a Pitman-Yor process, by ranks": (OtherWeights(discount=0.15), OtherWeights(), "truth", 400, {}),
    "a Pitman-Yor process, by enumeration": (OtherWeights(discount=0.15), OtherWeights(), "rows", 100, {}),
    "own row left in": (
        PlainGibbs(fault=own_row_left_in),
        PlainGibbs(),
        "rows",
        100,
        {"family": GAUSSIAN, "X": ONE_CLOUD},
    ),
    "mass of one more cluster, Pitman-Yor": (
        PlainGibbs(fault=mass_of_one_more_cluster),
        PlainGibbs(),
        "rows",
        60,
        {"weights": PY},
    ),
    "mass of one more cluster, finite": (
        PlainGibbs(fault=mass_of_one_more_cluster),
        PlainGibbs(),
        "rows",
        40,
        {"weights": FINITE},
    ),
    "sign of the proposal": (PlainMetropolis(sign=-1.0), PlainMetropolis(), "rows", 20, {}),
    "published proposal": (FastEx(mode="published"), FastEx(mode="removed"), "rows", 600, {"weights": FINITE}),
    "rho forgotten": (PlainSplitMerge(forgets=True), PlainSplitMerge(), "rows", 30, {}),
    "statistics out of date": (
        StaleStatistics(),
        CollapsedGibbs(),
        "truth",
        40,
        {"family": GAUSSIAN, "X": REAL},
    ),
    "adaptation without end": (AdaptsForEver(), CollapsedGibbs(), "data", 300, {}),
    "alpha drawn without the sizes": (
        Cycle(CollapsedGibbs(), SizesForgotten()),
        Cycle(CollapsedGibbs(), UpdateHyper()),
        "truth",
        60,
        {},
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_wrong_sampler_fails_and_its_twin_passes(name):
    wrong, right, check, n_replicates, options = FAULTS[name]
    found = certificate(wrong, [check], n_replicates, **options)
    assert not found.passed
    assert not found.is_exact
    assert found.verdict.startswith(f"NOT EXACT: check {check!r}")
    found = certificate(right, [check], n_replicates, **options)
    assert found.passed, found.verdict


def test_a_sampler_of_the_prior_fails_by_quantities_of_the_data_alone():
    found = failed(certificate(PriorDraws(), ["truth"], 200))
    assert found
    assert found <= {("truth", name) for name in OF_DATA}


def test_statistics_out_of_date_are_named():
    found = certificate(StaleStatistics(), ["truth"], 40, family=GAUSSIAN, X=REAL)
    assert ("truth", "statistics of the state") in failed(found)
    assert "statistics of the state: they are not those of its labels" in found.verdict


def test_a_sampler_that_raises_is_not_exact():
    found = certificate(StaleStatistics(), ["rows"], 100)  # counts are taken out where they never were
    assert failed(found) == {("rows", "no error is raised")}
    assert "the sampler raised an error" in found.verdict


def test_a_right_kernel_that_does_not_arrive_is_exact_but_not_converged():
    mixture = Mixture(
        POISSON, weights=DP, sampler=CollapsedGibbs(), n_warmup=0, n_steps=1, start="one", learn_hyper=False
    )
    found = check_model(mixture, COUNTS, n_replicates=60, n_rows=30)
    assert found.is_exact
    assert not found.has_converged
    assert not found.passed
    assert {check for check, _ in failed(found)} == {"cold"}
    assert found.verdict.startswith("exact, not converged: check 'cold'")
    assert "0 + 1 steps are too few here: try n_warmup=100 and n_steps=100" in found.verdict


def test_a_chain_that_stands_still_is_exact_and_its_intervals_are_too_short():
    found = certificate(Still(), ["rows", "truth", "data", "cold"], 50)
    assert found.is_exact
    assert ("cold", "interval of clusters") in failed(found)
    assert {check for check, _ in failed(found)} == {"cold"}


@pytest.mark.parametrize("weights", [DP, PY, FINITE], ids=repr)
@pytest.mark.parametrize(
    "kernel",
    [
        CollapsedGibbs(),
        SplitMerge(n_moves=4),
        SplitMerge(every=5),
        FastEx(mode="crossfit", n_blocks=3),
        UncollapsedGibbs(),
        UncollapsedMetropolis(),
    ],
    ids=repr,
)
def test_right_samplers_pass(kernel, weights):
    found = certificate(kernel, ["rows", "truth", "data"], 40, weights=weights)
    assert found.passed, str(found)


# ---- long runs -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rows", "truth", "data", "cold"])
def test_right_samplers_fail_at_most_once_in_a_hundred_runs(name):
    n_failed = sum(
        not certificate(CollapsedGibbs(), [name], 100, random_state=seed, n_rows=20).passed for seed in range(200)
    )
    assert n_failed <= 2


@pytest.mark.slow
def test_alpha_times_1_1_is_found_by_ranks_of_a_thousand_replicates():
    """Of data that leave the number of clusters open: a factor on alpha moves it by log(factor) of its variance."""
    options = {"weights": DirichletProcess(5.0), "X": ALIKE, "n_rows": 60}
    found = failed(certificate(OtherWeights(strength=1.1), ["truth"], 1000, **options))
    assert ("truth", "clusters") in found
    assert certificate(OtherWeights(), ["truth"], 1000, **options).passed


@pytest.mark.slow
def test_a_predictive_tempered_by_three_per_cent_is_found_by_enumeration():
    found = certificate(PlainGibbs(fault=tempered), ["rows"], 1000)
    assert any(quantity.startswith("log joint") for _, quantity in failed(found))
    assert certificate(PlainGibbs(), ["rows"], 1000).passed


@pytest.mark.slow
def test_all_faults_are_found_by_whole_certificates():
    for wrong, right, check, _, options in FAULTS.values():
        assert not certificate(wrong, [check], 1000, **options).passed
        assert certificate(right, [check], 1000, **options).passed
