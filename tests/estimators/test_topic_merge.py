"""Topic models of parts add up to the model of the whole, to rounding; what does not add up is refused by name."""

from itertools import permutations

import numpy as np
import pytest
from scipy.special import gammaln

from expfam import Mixture, TopicModel, merge
from expfam.errors import CapabilityError
from expfam.samplers import Memoized, Stochastic, TopicVariational

TOPICS = np.kron(np.eye(3), np.full(4, 0.25))  # twelve words, four a topic
FIXED = {"alpha": 0.5, "eta": 0.1, "random_state": 0}


def documents(seed, n=30, weights=((0.9, 0.1, 0.0), (0.0, 0.9, 0.1), (0.1, 0.0, 0.9))):
    rng = np.random.default_rng(seed)
    return np.array([rng.multinomial(20, np.asarray(weights[d % len(weights)]) @ TOPICS) for d in range(n)])


PARTS = [documents(seed) for seed in range(3)]


def counts_of(model):
    return model.components_ - model.eta_


@pytest.mark.parametrize("local", ["dense", "active", "tokens"])
def test_chunks_learned_apart_from_one_model_make_one_chunk(local, tmp_path):
    """Each chunk is visited once at the common topics, so its sums are those of a visit of all chunks together."""
    settings = FIXED | {"sampler": TopicVariational(local=local, schedule=Memoized(), n_restarts=0)}
    common = TopicModel(3, n_steps=5, **settings).partial_fit(PARTS[0])
    common.save(tmp_path / "common")
    models = [TopicModel.load(tmp_path / "common").partial_fit(part) for part in PARTS[1:]]
    whole = TopicModel.load(tmp_path / "common").partial_fit(np.concatenate(PARTS[1:]))
    merged = merge(models, common=common)
    np.testing.assert_allclose(merged.components_, whole.components_, rtol=1e-9)
    assert merged.n_documents_ == whole.n_documents_ == 90
    assert merged.log_joint_ == pytest.approx(whole.log_joint_, rel=1e-12)
    np.testing.assert_allclose(merged.transform(PARTS[0]), whole.transform(PARTS[0]), atol=1e-6)
    merged.save(tmp_path / "merged")
    loaded = TopicModel.load(tmp_path / "merged")
    np.testing.assert_array_equal(loaded.components_, merged.components_)
    assert loaded.partial_fit(PARTS[0]).components_.sum() == pytest.approx(4 * 600 + 3 * 12 * 0.1)
    # of a model that learned nothing since, nothing is added
    assert merge([common, common], common=common).log_joint_ == pytest.approx(common.log_joint_, rel=1e-12)


@pytest.mark.parametrize("sampler", ["gibbs", "variational"])
def test_topics_are_paired_so_that_the_words_have_most_evidence(sampler):
    models = [TopicModel(3, sampler=sampler, n_steps=8, **FIXED | {"random_state": s}).fit(PARTS[s]) for s in range(2)]
    merged = merge(models, clusters="merged")
    first, second = map(counts_of, models)
    best = max(
        (first + second[list(order)] for order in permutations(range(3))),
        key=lambda counts: (gammaln(counts + 0.1).sum(axis=1) - gammaln(counts.sum(axis=1) + 1.2)).sum(),
    )
    np.testing.assert_allclose(counts_of(merged), best, rtol=1e-12, atol=1e-9)
    assert merged.components_.sum() == pytest.approx(1200 + 3 * 12 * 0.1)
    assert merged.n_documents_ == 60
    # each topic has its own four words again, whatever places the topics have in the parts
    blocks = merged.top_words(4) // 4
    assert (blocks == blocks[:, :1]).all()
    assert sorted(blocks[:, 0]) == [0, 1, 2]
    assert np.isnan(merged.log_joint_) == (sampler == "gibbs")


def test_pseudo_counts_of_words_that_each_part_has_learned_are_averaged():
    settings = {"alpha": 0.5, "random_state": 0, "n_steps": 20}
    models = [TopicModel(3, **settings).fit(part) for part in (PARTS[0], np.concatenate(PARTS[1:]))]
    assert models[0].eta_ != models[1].eta_
    merged = merge(models, clusters="merged")
    assert merged.eta_ == pytest.approx((models[0].eta_ + 2 * models[1].eta_) / 3)
    assert counts_of(merged).sum() == pytest.approx(1800)
    assert merge([models[0]] * 2, clusters="merged").eta_ == models[0].eta_
    fixed = TopicModel(3, eta=0.1, **settings).fit(PARTS[1])
    with pytest.raises(CapabilityError, match="other pseudo-counts of words in topics"):
        merge([models[0], fixed], clusters="merged")


def test_the_bound_is_that_of_all_documents():
    """One topic leaves nothing to choose; documents of one topic each leave nothing in doubt."""
    single = [TopicModel(1, sampler=TopicVariational(local="dense"), n_steps=5, **FIXED).fit(part) for part in PARTS]
    whole = TopicModel(1, sampler=TopicVariational(local="dense"), n_steps=5, **FIXED).fit(np.concatenate(PARTS))
    merged = merge(single, clusters="merged")
    assert merged.log_joint_ == pytest.approx(whole.log_joint_, rel=1e-12)
    np.testing.assert_allclose(merged.components_, whole.components_, rtol=1e-12)
    pure = [documents(seed, weights=np.eye(3)) for seed in range(2)]
    parts = [TopicModel(3, sampler=TopicVariational(local="dense"), n_steps=50, **FIXED).fit(part) for part in pure]
    whole = TopicModel(3, sampler=TopicVariational(local="dense"), n_steps=50, **FIXED).fit(np.concatenate(pure))
    assert merge(parts, clusters="merged").log_joint_ == pytest.approx(whole.log_joint_, rel=1e-3)


def fitted(n_components=3, X=PARTS[0], **settings):
    return TopicModel(n_components, **FIXED | {"n_steps": 4} | settings).fit(X)


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (lambda: fitted(2), r"another number of topics .2, not 3."),
        (lambda: fitted(X=PARTS[0][:, :8]), r"another number of features .8, not 12."),
        (lambda: fitted(alpha=0.4), r"other pseudo-counts of topics in documents .*give alpha a number"),
        (lambda: fitted(alpha="auto"), r"other pseudo-counts of topics in documents"),
        (lambda: fitted(eta=0.2), r"other pseudo-counts of words in topics .0\.2, not 0\.1; give eta a"),
        (lambda: fitted(eta=np.full(12, 0.1) + np.arange(12)), r"other pseudo-counts of words in topics"),
    ],
)
def test_models_that_do_not_add_up_are_refused_with_what_differs(other, said):
    with pytest.raises(CapabilityError, match=f"model 1 has {said}"):
        merge([fitted(), other()], clusters="merged")


def test_what_has_no_exact_meaning_is_refused_with_what_to_do():
    model = fitted()
    with pytest.raises(CapabilityError, match=r"2 times 3 topics side by side .*'merged'.*partial_fit.*fit_chunks"):
        merge([model, model])
    assert merge([model]).components_ == pytest.approx(model.components_)
    own = fitted(alpha=[0.1, 0.2, 0.3])
    with pytest.raises(CapabilityError, match="not interchangeable"):
        merge([own, own], clusters="merged")
    noisy = TopicVariational(local="dense", schedule=Stochastic(30))
    common = TopicModel(3, sampler=noisy, **FIXED).partial_fit(PARTS[0])
    went_on = TopicModel(3, sampler=noisy, **FIXED).partial_fit(PARTS[0]).partial_fit(PARTS[1])
    with pytest.raises(CapabilityError, match="model 0 learned under a stochastic schedule"):
        merge([went_on], common=common)
    with pytest.raises(CapabilityError, match="model 1 did not go on from `common`"):
        merge([model, fitted(X=PARTS[1])], common=model)


def test_only_topic_models_are_taken_beside_topic_models():
    model = fitted()
    mixture = Mixture("poisson", 2, n_steps=2).fit(PARTS[0])
    for other in (mixture, None):
        with pytest.raises(TypeError, match=f"takes fitted TopicModels; got {type(other).__name__}"):
            merge([model, other])
    with pytest.raises(TypeError, match="takes fitted TopicModels; got Mixture"):
        merge([model], common=mixture)
    with pytest.raises(ValueError, match="'apart' or 'merged'"):
        merge([model], clusters="same")
