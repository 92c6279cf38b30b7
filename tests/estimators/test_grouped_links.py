"""Links of rows in groups: linked rows have one cluster, whatever their groups."""

import numpy as np
import pytest

from expfam import GroupedMixture, Known, link_groups
from expfam.errors import CapabilityError, DataError

RNG = np.random.default_rng(0)
TRUTH = RNG.integers(0, 3, 240)
MEANS = np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 3.0]])
X = MEANS[TRUTH] + RNG.normal(size=(240, 2))
GROUPS = np.arange(240) % 6
COUNTS = RNG.poisson(np.array([[2.0, 9.0, 4.0], [9.0, 2.0, 4.0], [5.0, 5.0, 9.0]])[TRUTH])
LINKS = np.where(np.arange(240) < 120, TRUTH * 20 + np.arange(240) // 12, -1)  # rows of one cluster, of several groups
DATA = {"gaussian_diag": X, "gaussian": X, "poisson": COUNTS, "multinomial": COUNTS}


@pytest.mark.parametrize("family", DATA)
def test_linked_rows_are_in_one_cluster(family):
    mixture = GroupedMixture(family, 3, n_steps=20, random_state=0)
    linked = mixture.fit(DATA[family], groups=GROUPS, links=LINKS)
    assert Known(links=LINKS).agrees(linked.labels_)
    assert linked.labels_.shape == (240,)
    assert linked.n_.sum() == pytest.approx(240)
    again = GroupedMixture(family, 3, n_steps=20, random_state=0).fit(DATA[family], groups=GROUPS, links=LINKS)
    np.testing.assert_array_equal(again.labels_, linked.labels_)


def test_links_tell_clusters_that_rows_alone_do_not():
    def share(links):
        labels = (
            GroupedMixture("gaussian_diag", 3, n_steps=40, random_state=1).fit(X, groups=GROUPS, links=links).labels_
        )
        table = np.zeros((3, 3))
        np.add.at(table, (labels[:120], TRUTH[:120]), 1)
        return table.max(axis=0).sum() / 120

    assert share(LINKS) > share(None)
    assert share(LINKS) > 0.97


def test_links_of_pairs_and_groups_with_names():
    links = link_groups([(0, 1), (1, 2)], 240)
    mixture = GroupedMixture("gaussian_diag", 3, n_steps=5, random_state=0)
    labels = mixture.fit(X, groups=np.char.mod("g%d", GROUPS), links=links).labels_
    assert labels[0] == labels[1] == labels[2]
    with pytest.raises(DataError, match="links has 3 values, X has 240 rows"):
        mixture.fit(X, groups=GROUPS, links=links[:3])


def test_links_and_classes_together():
    y = np.full(240, -1)
    y[[0, 5]] = TRUTH[[0, 5]]
    mixture = GroupedMixture("gaussian_diag", 3, labels="clusters", n_steps=5, random_state=0)
    labels = mixture.fit(X, y, groups=GROUPS, links=LINKS).labels_
    assert set(mixture.classes_[labels[LINKS[0] == LINKS]].tolist()) == {TRUTH[0]}
    assert Known(links=LINKS).agrees(labels)


def test_a_start_of_labels_must_agree_with_the_links():
    mixture = GroupedMixture("gaussian_diag", 3, start=np.arange(240) % 3, n_steps=2, random_state=0)
    with pytest.raises(DataError, match="are linked and lie in two clusters"):
        mixture.fit(X, groups=GROUPS, links=LINKS)


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_the_line_of_the_message_uses_the_links(method):
    mixture = GroupedMixture("poisson", 3, sampler="variational", n_steps=3, random_state=0)
    with pytest.raises(CapabilityError, match="cannot use links") as raised:
        getattr(mixture, method)(COUNTS, groups=GROUPS, links=LINKS)
    line = str(raised.value).partition("write ")[2]
    names = {"GroupedMixture": GroupedMixture, "X": COUNTS, "groups": GROUPS, "links": LINKS}
    made = eval(line, names)  # the line of a message, which is ours
    fitted = (
        made if method == "partial_fit" else made.set_params(family="poisson").fit(COUNTS, groups=GROUPS, links=LINKS)
    )
    assert Known(links=LINKS).agrees(fitted.labels_)
