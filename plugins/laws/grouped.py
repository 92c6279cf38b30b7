"""Laws of families under rows in groups, the number of clusters given and unknown."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from expfam import GroupedMixture
from expfam.model.enumeration import canonical
from expfam.plugins.laws.data_case import dense, law, statistics
from expfam.plugins.laws.visits import check_visits

if TYPE_CHECKING:
    from expfam.plugins.laws.grouped_case import GroupedCase

GROUPED_LAWS: dict = {}

_STEPS = 12
_ROUNDING = 1e-9
_SUMS = 1e-6  # of repeated rows, whose numbers are added in another order


@law(among=GROUPED_LAWS)
def sums_follow_every_move(case: GroupedCase) -> None:
    """After sweeps, splits and merges, statistics and counts of groups are those of the labels."""
    for words, kernel, make in case.chains():
        state = make()
        for step in range(_STEPS):
            kernel.step(state)
            try:
                state.check()
            except Exception as error:
                raise AssertionError(f"{words}: after step {step}: {error}") from error


@law(among=GROUPED_LAWS)
def seeds_decide_groups(case: GroupedCase) -> None:
    """Equal seeds give equal labels, and a restored chain continues like the original."""
    for words, kernel, make in case.chains():
        first, second, restored = make(), make(), make()
        for step in range(_STEPS):
            kernel.step(first)
            kernel.step(second)
            assert np.array_equal(first.labels, second.labels), f"{words}: two chains of one seed differ"
            if step == _STEPS // 2:
                restored.from_arrays(first.to_arrays())
            elif step > _STEPS // 2:
                kernel.step(restored)
                same = np.array_equal(first.labels, restored.labels)
                assert same, f"{words}: a restored chain continues with other labels"


@law(among=GROUPED_LAWS)
def clusters_follow_the_posterior(case: GroupedCase) -> None:
    """A chain over few rows visits each partition by its enumerated probability."""
    for words, few in case.few.items():
        place = {partition: row for row, partition in enumerate(few.exact)}
        state = few.kernel.init(few.model, few.data, seed=case.seed, start="one")
        rows = np.empty(case.n_moves, dtype=np.intp)
        for t in range(case.n_moves):
            few.kernel.step(state)
            rows[t] = place[canonical(state.labels)]
        check_visits(rows, np.array(list(few.exact.values())), f"{words}: the clusters of a long chain")


@law(among=GROUPED_LAWS)
def weights_of_new_groups_sum_to_one(case: GroupedCase) -> None:
    """Weights sum to 1, are those of the prior for an empty group, and depend on no other group."""
    for words, mixture in case.fits.items():
        rest = {"rest": True} if case.numbers[words] is None else {}
        whole = mixture.transform(case.X, groups=case.groups + 1, **rest)  # group 0 has no rows
        _equal(whole.sum(axis=1), 1.0, f"{words}: weights of a group do not sum to 1")
        prior = [*mixture.beta_, mixture.rest_] if rest else mixture.alpha_ / mixture.alpha_.sum()
        _equal(whole[0], prior, f"{words}: a group without rows has other weights than the prior")
        _equal(mixture.group_weights_.sum(axis=1), 1.0, f"{words}: `group_weights_` do not sum to 1")
        for g in range(whole.shape[0] - 1):
            alone = mixture.transform(case.X[case.groups == g], groups=np.zeros((case.groups == g).sum(), int), **rest)
            _equal(alone[0], whole[g + 1], f"{words}: a group alone has other weights than among others")


@law(among=GROUPED_LAWS)
def scores_are_sums_over_clusters(case: GroupedCase) -> None:
    """A density is the sum over clusters of weights times exp(A(n + 1, S + phi) - A(n, S))."""
    family, phi = case.family, statistics(case.family, case.X)
    base = np.asarray(family.log_base(case.X))
    for words, mixture in case.fits.items():
        n, S = np.asarray(mixture.n_), dense(mixture.S_)
        if case.numbers[words] is None:  # and a cluster without rows
            n, S = np.append(n, 0.0), np.vstack([S, np.zeros_like(S[:1])])
            weights = mixture.transform(case.X, groups=case.groups, rest=True)
        else:
            weights = mixture.transform(case.X, groups=case.groups)
        before = family.log_marginal(n, S)
        after = np.stack([family.log_marginal(n + 1.0, S + row) for row in phi])
        scores = np.log(weights[case.groups]) + after - before
        expected = np.logaddexp.reduce(scores, axis=1) + base
        _equal(mixture.score_samples(case.X, case.groups), expected, f"{words}: score_samples", 1e-7)
        listed = scores[:, : len(mixture.n_)]
        p = np.exp(listed - np.logaddexp.reduce(listed, axis=1)[:, None])
        _equal(mixture.predict_proba(case.X, groups=case.groups), p, f"{words}: predict_proba", 1e-7)


@law(among=GROUPED_LAWS)
def files_keep_the_groups(case: GroupedCase) -> None:
    """A loaded mixture gives new groups the weights, labels and scores of the saved one."""
    for words, mixture in case.fits.items():
        with tempfile.TemporaryDirectory() as folder:
            mixture.save(Path(folder) / "model")
            loaded = GroupedMixture.load(Path(folder) / "model", trust=True)
        for method in ("transform", "predict", "score_samples"):
            first, second = (getattr(each, method)(case.X, groups=case.groups) for each in (mixture, loaded))
            assert np.array_equal(first, second), f"{words}: {method} of a loaded mixture differs"


@law("variational", among=GROUPED_LAWS)
def weights_are_repeats_in_groups(case: GroupedCase) -> None:
    """Variational inference of rows with whole weights is that of the rows repeated."""
    times = np.where(np.arange(case.X.shape[0]) % 3 == 0, 2, 1)
    rows = np.repeat(np.arange(len(times)), times)
    start = case.rng("start").integers(0, 3, len(times))

    def fitted(chosen, **options):
        given = case.case.given  # what is bound is resolved again, with the weights
        mixture = GroupedMixture(given, 3, sampler="variational", start=start[chosen], n_steps=3, random_state=0)
        return case.fit(mixture, case.X[chosen], case.groups[chosen], **options)

    weighted, repeated = fitted(np.arange(len(times)), sample_weight=times.astype(np.float64)), fitted(rows)
    for name in ("n_", "S_", "alpha_", "group_weights_"):
        first, second = (dense(getattr(each, name)) for each in (weighted, repeated))
        _equal(first, second, f"{name} of weighted rows is not that of repeated ones", _SUMS)


def _equal(found, expected, what, rounding=_ROUNDING):
    """Raise where numbers differ by more than rounding, relative to the largest."""
    found, expected = np.broadcast_arrays(np.asarray(found, dtype=np.float64), np.asarray(expected, dtype=np.float64))
    gap = np.abs(found - expected)
    worst = np.unravel_index(int(np.argmax(np.where(np.isnan(gap), np.inf, gap))), gap.shape)
    limit = rounding * max(1.0, float(np.abs(expected).max()))
    assert gap[worst] <= limit, f"{what}: {found[worst]:.6g}, expected {expected[worst]:.6g}"
