"""`check_model`: what it takes, refuses, skips and says."""

import json
import sys

import numpy as np
import pytest
from arviz_groups import groups_of, skip_without_arviz
from scipy import sparse
from wrong_samplers import OtherModel, OtherWeights

import expfam as ef
from expfam.errors import CapabilityError, DataError
from expfam.evaluation.certificate import Certificate, CheckedQuantity, check_model
from expfam.evaluation.exactness import Ranks, started
from expfam.evaluation.quantities import NAMES, Quantities, distances_to_others
from expfam.evaluation.ranks import frequencies_p, least_shift, least_variation, rank_of_truth, uniform_p
from expfam.samplers import CollapsedGibbs, Cycle, FastEx, UncollapsedGibbs, UpdateHyper
from expfam.samplers.named import load_sampler

RNG = np.random.default_rng(0)
X = RNG.poisson(RNG.choice([1.0, 5.0], size=(40, 1)), size=(40, 2)).astype(float)
MODEL = ef.MixtureModel(ef.Poisson(shape=1.5, rate=0.4), ef.DirichletProcess())
FEW = {"n_replicates": 20, "n_rows": 12}


def test_a_mixture_that_is_not_fitted_is_fitted_and_left_alone():
    mixture = ef.Mixture("poisson", 2, random_state=0)
    found = check_model(mixture, X, **FEW)
    assert not hasattr(mixture, "model_")
    assert found.passed
    assert {row.check for row in found.table} == {"rows", "truth", "data", "cold"}
    assert "SplitMerge" in found.sampler


def test_a_fitted_mixture_is_checked_with_its_own_hyper_parameters():
    mixture = ef.Mixture("poisson", 2, random_state=0).fit(X)
    assert repr(mixture.model_) == check_model(mixture, X, checks="rows", **FEW).model


def test_the_sampler_may_be_another_one():
    found = check_model(ef.Mixture("poisson", 2, sampler="em"), X, sampler="gibbs", checks=["rows"], **FEW)
    assert found.sampler == repr(CollapsedGibbs())


@pytest.mark.parametrize("n_threads", [None, 2])
def test_the_same_seed_gives_the_same_certificate(n_threads):
    once = check_model(MODEL, X, sampler="gibbs", **FEW)
    again = check_model(MODEL, X, sampler="gibbs", n_threads=n_threads, **FEW)
    assert [(r.check, r.quantity, r.p) for r in once.table] == [(r.check, r.quantity, r.p) for r in again.table]
    other = check_model(MODEL, X, sampler="gibbs", random_state=5, **FEW)
    assert [r.p for r in once.table] != [r.p for r in other.table]


def test_json_repeats_the_verdict_from_its_settings(tmp_path):
    found = check_model(MODEL, X, sampler="gibbs", checks=["truth"], **FEW)
    read = json.loads(found.to_json(tmp_path / "c.json"))
    assert read == json.loads((tmp_path / "c.json").read_text())
    settings = {name: value for name, value in read["settings"].items() if name != "version"}
    again = check_model(MODEL, X, sampler="gibbs", **settings)
    assert again.verdict == read["verdict"]
    assert [row["p"] for row in read["table"]] == [row.p for row in again.table]


def test_what_is_printed_holds_every_quantity_and_the_verdict():
    text = str(check_model(MODEL, X, sampler="gibbs", **FEW))
    assert all(name in text for name in NAMES)
    assert "truth: are single steps exact on data drawn from the prior?\n  20 replicates, " in text
    assert "p: probability of so large a difference if the sampler is right" in text
    assert "verdict: no error found by rows, truth, data, cold. Nine times in ten" in text


# ---- skips -----------------------------------------------------------------------------------------------------------


def reasons(found):
    return {row.check: row.note for row in found.table if row.status == "skipped"}


def test_optimisers_are_no_samplers():
    for sampler in ("em", "stochastic_em", "variational"):
        found = check_model(ef.Mixture("poisson", 2, sampler=sampler), X, **FEW)
        assert not found.passed
        assert found.is_exact is None
        assert found.has_converged is None
        name = type(load_sampler(sampler)).__name__
        assert found.verdict.startswith(f"NOTHING CHECKED: {name} is no sampler: it looks for one good fit")
        assert str(found).count(name) == 2  # what it is, and the reason once


def test_a_kernel_that_keeps_no_partition_says_so(monkeypatch):
    monkeypatch.setattr("expfam.evaluation.certificate.can_be_certified", lambda state: False)
    found = check_model(MODEL, X, sampler="gibbs", **FEW)
    assert "CollapsedGibbs keeps no single partition of the rows" in found.verdict


def test_sticks_cannot_be_enumerated():
    found = check_model(MODEL, X, sampler=UncollapsedGibbs(truncation=30), checks=["rows", "truth", "data"], **FEW)
    assert set(reasons(found)) == {"rows", "data"}
    assert "30 numbered sticks" in reasons(found)["rows"]
    assert found.is_exact


def test_a_proposal_that_is_frozen_to_its_start_is_left_out():
    model = ef.MixtureModel(ef.Poisson(shape=1.5, rate=0.4), ef.SymmetricDirichlet(3))
    found = check_model(model, X, sampler=FastEx("table", mode="frozen"), checks=["rows", "truth"], **FEW)
    assert set(reasons(found)) == {"rows", "truth"}
    assert "mode 'frozen'" in reasons(found)["truth"]


def test_rows_that_leave_nothing_open_say_nothing():
    far = np.array([[0.0], [1e4], [1e6], [1e8]])
    model = ef.MixtureModel(ef.Poisson(shape=1.0, rate=0.001), ef.DirichletProcess())
    found = check_model(model, far, sampler="gibbs", checks=["rows"], **FEW)
    assert "leaves no two partitions open" in reasons(found)["rows"]


def test_a_prior_that_draws_impossible_data_falls_back_to_the_data():
    vague = ef.MixtureModel(ef.Poisson(shape=0.01, rate=1e-20), ef.DirichletProcess())
    found = check_model(vague, X, sampler="gibbs", checks=["truth", "data"], **FEW)
    assert "the check 'data' draws them given rows" in reasons(found)["truth"]


@pytest.mark.parametrize("family", [ef.Multinomial(concentration=0.5), ef.Categorical(concentration=0.5)])
def test_sparse_and_missing_data(family):
    counts = np.array([[1, 0, 2], [0, 1, 0], [2, 2, 0], [0, 0, 1], [1, 1, 1]] * 3)
    rows = sparse.csr_array(counts) if family.name == "multinomial" else np.where(counts == 2, -1, counts)
    found = check_model(ef.MixtureModel(family, ef.DirichletProcess()), rows, sampler="gibbs", **FEW)
    assert found.is_exact


def test_a_time_limit_takes_replicates_to_a_hundred_at_the_least():
    found = check_model(MODEL, X, sampler="gibbs", checks=["rows"], n_replicates=900, time_limit=1e-9)
    assert found.settings["n_replicates"] == 100
    assert check_model(MODEL, X, sampler="gibbs", checks=["rows"], time_limit=1e9, **FEW).settings["n_replicates"] == 20


# ---- hyper-parameters ------------------------------------------------------------------------------------------------

LEARNS = Cycle(CollapsedGibbs(), UpdateHyper())


def names_of(found, check):
    return {row.quantity for row in found.table if row.check == check}


def test_a_kernel_that_redraws_hyper_parameters_is_checked_with_their_prior():
    found = check_model(MODEL, X, sampler=LEARNS, **FEW)
    drawn = {"hyper-parameter shape", "hyper-parameter rate", "hyper-parameter alpha"}
    for check in ("truth", "cold"):
        assert names_of(found, check) >= {*NAMES, *drawn, "log joint by these hyper-parameters"}
    assert not any("hyper-parameter" in name for check in ("rows", "data") for name in names_of(found, check))
    assert "at fixed hyper-parameters" in str(found)
    assert "hyper-parameters from their prior: shape, rate, alpha" in str(found)
    assert found.is_exact


def test_the_discount_of_a_pitman_yor_process_is_one_of_them():
    model = ef.MixtureModel(ef.Poisson(shape=1.5, rate=0.4), ef.PitmanYor(1.0, 0.3))
    found = check_model(model, X, sampler=Cycle(CollapsedGibbs(), UpdateHyper(family=False)), checks="truth", **FEW)
    assert {name for name in names_of(found, "truth") if name.startswith("hyper")} == {
        "hyper-parameter alpha",
        "hyper-parameter discount",
    }
    assert found.is_exact


def test_a_mixture_that_learns_is_checked_with_its_update_of_hyper_parameters():
    mixture = ef.Mixture("poisson", 2, learn_hyper=True, sampler="gibbs", n_warmup=4, n_steps=4, random_state=0).fit(X)
    found = check_model(mixture, X, checks=["truth", "cold"], **FEW)
    assert names_of(found, "truth") - names_of(found, "cold") >= {"hyper-parameter shape", "hyper-parameter rate"}
    assert "hyper-parameter alpha" not in names_of(found, "truth")  # a mixture learns those of its family


def test_sticks_of_a_process_whose_weights_are_redrawn_are_left_out():
    kernel = Cycle(UncollapsedGibbs(truncation=20), UpdateHyper())
    found = check_model(MODEL, X, sampler=kernel, checks=["truth"], **FEW)
    assert "redraws the weights of the process that is not cut off" in reasons(found)["truth"]


# ---- ArviZ -----------------------------------------------------------------------------------------------------------


def test_ranks_become_even_numbers_for_arviz():
    skip_without_arviz()
    tree = check_model(MODEL, X, sampler="gibbs", checks=["rows", "truth", "data"], **FEW).to_arviz()
    assert groups_of(tree) == {"prior_sbc", "posterior_sbc"}
    numbers = tree["prior_sbc"]["log_joint"].values
    assert numbers.shape == (1, 20)
    assert ((numbers >= 0) & (numbers < 1)).all()
    assert len(np.unique(numbers)) == 20  # no ties
    assert "distance_to_k_means" in tree["posterior_sbc"]
    assert tree["prior_sbc"].attrs["inference_library"] == "expfam"


def test_arviz_without_ranks_or_without_the_library(monkeypatch):
    with pytest.raises(ValueError, match="no check has ranks: 'truth' and 'data' rank the truth"):
        check_model(MODEL, X, sampler="gibbs", checks="rows", **FEW).to_arviz()
    ranks = {"truth": Ranks(("log joint",), np.zeros((3, 1), dtype=np.int64), 20)}
    monkeypatch.setitem(sys.modules, "arviz_base", None)
    monkeypatch.setattr("expfam.evaluation.arviz._reads_no_trees", lambda: False)
    with pytest.raises(ImportError, match=r'to_arviz needs ArviZ: pip install "expfam\[arviz\]"'):
        Certificate("s", "m", (), ranks=ranks).to_arviz()


# ---- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"checks": ["rows", "all"]}, ValueError, "checks must be some of 'rows', 'truth', 'data', 'cold'"),
        ({"checks": []}, ValueError, "checks must be some of"),
        ({"n_replicates": 5}, ValueError, "n_replicates must be"),
        ({"n_rows": 2}, ValueError, "n_rows must be"),
        ({"time_limit": 0}, ValueError, "time_limit must be a positive number of seconds or None; got 0"),
        ({"sampler": "nope"}, ValueError, "sampler must be"),
        ({"sampler": UpdateHyper()}, CapabilityError, "moves no labels: put it into a Cycle"),
        ({"random_state": -1}, ValueError, "random_state"),
    ],
)
def test_wrong_arguments_are_refused(options, error, message):
    with pytest.raises(error, match=message):
        check_model(MODEL, X, **options)


def test_wrong_models_and_data_are_refused():
    with pytest.raises(TypeError, match=r"model must be a Mixture, .* or AdmixtureModel; got str"):
        check_model("poisson", X)
    with pytest.raises(DataError, match="X has 2 rows; at least 3 are needed"):
        check_model(MODEL, X[:2])


# ---- parts -----------------------------------------------------------------------------------------------------------


def test_quantities_are_those_of_their_names():
    model = MODEL.bind(X[:5])
    labels = np.array([[0, 0, 1, 2, 0], [0, 1, 1, 1, 1]])
    table = dict(zip(NAMES, Quantities(model, X[:5]).values(labels).T))
    assert table["clusters"].tolist() == [3, 2]
    assert table["largest cluster"].tolist() == [3, 4]
    assert table["single rows"].tolist() == [2, 1]
    assert table["rows 0 and 1"].tolist() == [1, 0]
    assert table["rows 0 to 2"].tolist() == [1, 1]
    np.testing.assert_allclose(table["sum of squared sizes"], [11 / 25, 17 / 25])
    np.testing.assert_allclose(table["log joint"], [model.log_joint(X[:5], z) for z in labels])
    priors = [model.weights.log_prior(np.bincount(z)) for z in labels]
    np.testing.assert_allclose(table["log evidence"], table["log joint"] - priors)
    alone = model.log_joint(X[:1], [0])
    np.testing.assert_allclose(table["predictive of row 0"][1], alone)
    assert distances_to_others(labels[[0, 0]]).tolist() == [0.0, 0.0]


def test_ranks_break_ties_at_random_and_even_ranks_pass():
    rng = np.random.default_rng(0)
    ranks = np.array([rank_of_truth(np.zeros(1), np.zeros((19, 1)), rng) for _ in range(2000)])
    assert uniform_p(ranks, 20)[0] > 1e-3
    assert rank_of_truth(np.array([2.0]), np.array([[1.0], [3.0], [0.0]]), rng).tolist() == [2]
    assert uniform_p(np.minimum(ranks + 2, 19), 20)[0] < 1e-6  # a shift
    assert uniform_p(np.where(ranks % 2, 0, 19), 20)[0] < 1e-6  # a mean that is right


def test_power_is_what_is_said():
    n, level = 500, 1e-5
    rng, variation = np.random.default_rng(0), least_variation(500, 1e-5)
    law = np.full(10, 0.1) + 0.2 * variation * np.repeat([1, -1], 5)
    found = [
        uniform_p(2 * rng.choice(10, size=(n, 1), p=law[rng.permutation(10)]), 20)[0] < 2 * level for _ in range(200)
    ]
    assert np.mean(found) == pytest.approx(0.9, abs=0.08)
    assert least_shift(100, 1e-4) == pytest.approx((3.891 + 1.282) / 10, abs=1e-3)


def test_frequencies_of_rare_cells_are_added_up():
    statistic, freedom = frequencies_p(np.array([50, 44, 3, 3]), np.array([0.5, 0.44, 0.03, 0.03]))
    assert (round(statistic, 12), freedom) == (0.0, 2)


def row(check, status, p=0.5):
    return CheckedQuantity(check, "clusters", p, status, 300, 0, 1.0, "note")


def test_the_two_verdicts_are_kept_apart():
    wrong = Certificate("s", "m", (row("rows", "passed"), row("truth", "failed", 1e-9), row("cold", "failed", 1e-9)))
    assert wrong.verdict == "NOT EXACT: check 'truth', clusters: p = 1.0e-09 in 300 replicates (seed 0)."
    short = Certificate("s", "m", (row("rows", "passed"), row("cold", "failed", 1e-9)), advice="Try more.")
    assert short.verdict == "exact, not converged: check 'cold', clusters: p = 1.0e-09 in 300 replicates (seed 0)." + (
        " Try more."
    )
    alone = Certificate("s", "m", (row("cold", "failed", 1e-9),), advice="Try more.")
    assert alone.verdict.startswith("not converged (exactness was not checked)")
    assert not any(each.passed for each in (wrong, short, alone))


# ---- tables, and what has no certificate -----------------------------------------------------------------------------


def table_of(n_rows=40):
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    columns = {"u": rng.normal(size=n_rows), "kind": rng.choice(["a", "b"], n_rows), "n": rng.poisson(3, n_rows)}
    return pd.DataFrame(columns)


@pytest.mark.parametrize("is_fitted", [False, True])
@pytest.mark.parametrize("library", ["pandas", "polars", "arrow"])
def test_a_table_has_a_certificate(is_fitted, library):
    table = table_of()
    if library == "polars":
        table = pytest.importorskip("polars").DataFrame(table.to_dict("list"))
    elif library == "arrow":
        table = pytest.importorskip("pyarrow").table(table.to_dict("list"))
    mixture = ef.Mixture(n_components=2, random_state=0)
    found = check_model(mixture.fit(table) if is_fitted else mixture, table, **FEW)
    assert found.is_exact
    assert {row.check for row in found.table if row.p is not None} == {"rows", "truth", "data", "cold"}


def test_a_table_with_holes_and_a_model_of_a_table():
    table = table_of()
    table.loc[3, "u"] = None
    table.loc[5, "kind"] = None
    mixture = ef.Mixture(n_components=2, random_state=0).fit(table)
    once = check_model(mixture, table, checks=["rows", "data"], **FEW)
    assert once.is_exact
    again = check_model(mixture.model_, table, sampler="auto", checks=["rows", "data"], **FEW)
    assert [row.p for row in again.table] == [row.p for row in once.table]
    numbers = check_model(ef.Mixture("gaussian_diag", 2, random_state=0), table[["n"]], checks="rows", **FEW)
    assert numbers.passed


@pytest.mark.filterwarnings("ignore::expfam.errors.DataWarning")
@pytest.mark.parametrize("is_fitted", [True, False])
@pytest.mark.parametrize("kind", ["texts", "tokens"])
@pytest.mark.parametrize("estimator", [ef.Mixture, ef.TopicModel, ef.GroupedMixture])
def test_texts_have_the_certificate_of_their_counts(estimator, kind, is_fitted):
    texts = ["sun sea", "sea sand", "tax rent", "sun sand sea"] * 4
    texts = texts if kind == "texts" else [text.split() for text in texts]
    family = () if estimator is ef.TopicModel else ("multinomial",)
    settings = {"random_state": 0, "n_steps": 3, "n_warmup": 3}
    given = {"groups": np.arange(16) // 4} if estimator is ef.GroupedMixture else {}
    model = estimator(*family, 2, **settings)
    fitted = estimator(*family, 2, **settings).fit(texts, **given)
    plain = estimator(*family, 2, **settings).fit(fitted.vectorizer_.transform(texts), **given)
    found = check_model(fitted if is_fitted else model, texts, checks=["rows"], **given, **FEW)
    counts = check_model(plain, fitted.vectorizer_.transform(texts), checks=["rows"], **given, **FEW)
    assert [row.p for row in found.table] == [row.p for row in counts.table]


@pytest.mark.parametrize("labels", ["clusters", "classes"])
def test_known_rows_are_not_left_out_without_a_word(labels):
    with pytest.raises(CapabilityError, match=f"was made with labels='{labels}', and the checks draw rows of which"):
        check_model(ef.Mixture("poisson", 2, labels=labels), X, **FEW)
    y = np.where(np.arange(40) < 6, np.arange(40) % 2, -1)
    fitted = ef.Mixture("poisson", 2, labels=labels, random_state=0).fit(X, y)
    with pytest.raises(CapabilityError, match=r"check_model\(mixture\.model_, X, sampler=mixture\.sampler\)"):
        check_model(fitted, X, **FEW)
    assert check_model(fitted.model_, X, sampler=fitted.sampler, checks="rows", **FEW).passed
    linked = ef.Mixture("poisson", 2, random_state=0).fit(X, links=np.where(np.arange(40) < 2, 0, -1))
    with pytest.raises(CapabilityError, match="was made with links of rows"):
        check_model(linked, X, **FEW)


@pytest.mark.parametrize(
    ("estimator", "said"),
    [
        (
            ef.BayesianHierarchy(),
            r"certificate of a BayesianHierarchy: it merges greedily.*check_model\(Mixture\(family",
        ),
    ],
)
def test_other_estimators_say_why_there_is_none_and_what_to_do(estimator, said):
    with pytest.raises(TypeError, match=said):
        check_model(estimator, X, **FEW)


@pytest.mark.parametrize("checks", ["rows", "truth", "data", "cold"])
def test_a_kernel_that_begins_with_another_model_is_no_short_run(checks):
    found = check_model(MODEL, X, sampler=OtherModel(), checks=checks, **FEW)
    assert not found.passed
    assert "OtherModel.init has put another model into the state: its weights" in found.verdict
    assert "too few" not in found.verdict


@pytest.mark.parametrize("name", ["gibbs", "fastex", "split_merge", "uncollapsed_gibbs", "canopy"])
def test_own_kernels_begin_with_the_model_that_they_get(name):
    bound = MODEL.bind(X)
    state = started(load_sampler(name), bound, X, seed=0)
    assert state.model.weights == bound.weights


def test_the_verdict_says_that_rows_finds_what_ranks_do_not():
    small = OtherWeights(strength=1.1)
    by_ranks = check_model(MODEL, X, sampler=small, checks="truth", n_replicates=60, n_rows=30)
    assert by_ranks.passed
    assert 'or checks=["rows"]: it compares with the enumerated posterior' in by_ranks.verdict
    assert not check_model(MODEL, X, sampler=small, checks="rows", n_replicates=250).passed
    assert "enumerated" not in check_model(MODEL, X, sampler="gibbs", checks="rows", **FEW).verdict
