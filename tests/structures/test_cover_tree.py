"""The cover tree against brute force, its promises after random updates, and the same bits for any thread count."""

import json
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from instruction_sets import output_under

from expfam.structures import CoverTree, CoverTreeWarning
from expfam.structures.cover_tree.check import check_cover_tree

EPS = 2.0**-20  # distances are sums of few float32 squares


def lattice(n, d, high, seed):
    """Whole numbers: distances are exact, ties and duplicates abound."""
    return np.random.default_rng(seed).integers(0, high, (n, d)).astype(float)


def clusters(n, d, k, seed, dtype=np.float64):
    rng = np.random.default_rng(seed)
    return (3 * rng.normal(size=(k, d))[rng.integers(k, size=n)] + rng.normal(size=(n, d))).astype(dtype)


def brute_squares(X, Q):
    return ((np.asarray(Q, float)[:, None] - np.asarray(X, float)[None]) ** 2).sum(axis=2)


def brute_knn(X, Q, k, ids=None):
    squares = brute_squares(X, Q)
    ids = np.arange(len(X)) if ids is None else np.asarray(ids)
    order = np.lexsort((np.broadcast_to(ids, squares.shape), squares), axis=1)[:, :k]
    return np.sqrt(np.take_along_axis(squares, order, axis=1)), ids[order]


def same(one, other):
    """Whether two trees are the same bits."""
    a, b = one.to_arrays(), other.to_arrays()
    return a.keys() == b.keys() and all(a[key].tobytes() == b[key].tobytes() for key in a)


# ---- searches --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("base", [1.1, 1.3, 2.0])
@pytest.mark.parametrize("leaf", [1, 16])
def test_neighbours_and_ranges_with_ties_and_duplicates_are_those_of_brute_force(base, leaf):
    X, Q = lattice(400, 3, 5, 0), lattice(60, 3, 7, 1)
    tree = CoverTree(X, base=base, leaf=leaf)
    tree.invariants()
    for k in (1, 2, 17, 400):
        distance, index = tree.knn(Q, k)
        expected, ids = brute_knn(X, Q, k)
        np.testing.assert_array_equal(index, ids)
        np.testing.assert_array_equal(distance, expected)
    for r in (0.0, 1.0, np.sqrt(3.0), 2.5, 100.0):
        indptr, index = tree.range(Q, r)
        inside = np.sqrt(brute_squares(X, Q)) <= r
        np.testing.assert_array_equal(np.diff(indptr), inside.sum(axis=1))
        np.testing.assert_array_equal(index, np.nonzero(inside)[1])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("d", [1, 5, 40])
def test_neighbours_of_real_data(dtype, d):
    X, Q = clusters(3000, d, 10, 2, dtype), clusters(50, d, 10, 3, dtype)
    tree = CoverTree(X)
    distance, index = tree.knn(Q, 5)
    expected, _ = brute_knn(X, Q, 5)
    scale = 2.0**-23 * np.abs(X).max() * np.sqrt(d)  # rows are rounded once
    np.testing.assert_allclose(distance, expected, rtol=EPS, atol=2 * scale)
    found = np.sqrt(((X[index].astype(float) - Q[:, None]) ** 2).sum(axis=2))
    np.testing.assert_allclose(found, expected, rtol=EPS, atol=2 * scale)


def test_three_points_whose_nearest_lies_beyond_a_nearer_parent():
    # On a line: root 0 with children at -4 and 4.6; the query 2.4 is nearer to the root's own point at 0 than its
    # nearest child centre is to anything but itself. A greedy search, or one that forgets the self-child, answers
    # with a neighbour of the wrong branch. By hand: |2.4 - 4.6| = 2.2 < |2.4 - 0| = 2.4 < |2.4 + 4| = 6.4.
    X = np.array([[0.0], [-4.0], [4.6]])
    for base in (1.1, 1.3, 2.0):
        for order in ([0, 1, 2], [1, 0, 2], [2, 1, 0], [1, 2, 0]):
            tree = CoverTree(X[order], base=base, leaf=1)
            tree.invariants()
            distance, index = tree.knn([[2.4], [2.2], [-2.1]], 3)
            assert [[order[i] for i in row] for row in index] == [[2, 0, 1], [0, 2, 1], [1, 0, 2]]
            np.testing.assert_allclose(distance[0], [2.2, 2.4, 6.4], rtol=EPS)


# Two near points and one far from both, and two queries whose neighbours are point 1, the far one and point 0: rebuilt,
# up to a reflection, from the distances of a public report against another tree. It answered with the far point, as a
# search does when that is the root, point 0 the centre of the pair, and the bound of the pair's cell stays zero.
PAIR_AND_ONE = np.array([[0.991673, -0.398563], [0.491743, 0.200003], [-2.293300, -0.836334]])
THEIR_QUERIES = np.array([[-0.944485, 0.116473], [-0.931471, 0.781848]])
THEIR_DISTANCES = np.array([[1.438655, 1.651407, 2.003489], [1.537557, 2.114969, 2.256513]])


@pytest.mark.parametrize("order", list(permutations(range(3))))
@pytest.mark.parametrize("base", [1.1, 1.3, 2.0])
def test_a_neighbour_below_a_centre_farther_than_another_point(order, base):
    X = PAIR_AND_ONE[list(order)]
    far = 1e3 + 50.0 * lattice(40, 2, 100, 23)
    grown = CoverTree(far, base=base, leaf=1)  # large enough that single rows are inserted, not built anew
    batch = CoverTree(X, base=base, leaf=1)
    for row in X:
        grown.insert(row[None])
    for tree, shift in ((batch, 0), (grown, 40)):
        tree.invariants()
        for k in (1, 2, 3):
            distance, index = tree.knn(THEIR_QUERIES, k)
            # coordinates to six digits; beside points at 1e3 they are stored to 2**-24 of that range
            np.testing.assert_allclose(distance, THEIR_DISTANCES[:, :k], atol=1e-3 if shift else 3e-6)
            assert [[order[i - shift] for i in row] for row in index] == [[1, 2, 0][:k]] * 2


def test_a_bound_of_zero_would_cut_that_neighbour_off():
    rows = np.concatenate([PAIR_AND_ONE, PAIR_AND_ONE[2:] - 9.0])
    tree = CoverTree(rows, base=2.0, leaf=2)
    arrays = tree.to_arrays()
    pair = int(np.flatnonzero((arrays["alive"] == 2) & np.isin(arrays["ids"][arrays["lo"]], [0, 1]))[0])
    np.testing.assert_allclose(tree.knn(THEIR_QUERIES, 1)[0], THEIR_DISTANCES[:, :1], atol=3e-6)
    if arrays["ids"][arrays["lo"][pair]] == 1:  # point 0 is to be the centre
        lo = arrays["lo"][pair]
        arrays["ids"][lo : lo + 2], arrays["points"][lo : lo + 2] = [0, 1], arrays["points"][[lo + 1, lo]]
        d = np.linalg.norm(arrays["points"][lo] - arrays["points"][0])
        arrays["pdist"][pair] = d
    arrays["radius"][pair] = 0.0
    wrong = CoverTree.from_arrays(arrays).knn(THEIR_QUERIES, 1)
    assert wrong[1].tolist() == [[2], [2]]
    np.testing.assert_allclose(wrong[0], THEIR_DISTANCES[:, 1:2], atol=3e-6)


def test_noise_is_read_in_one_pass_with_the_same_bits():
    rng = np.random.default_rng(5)
    X, Q = rng.normal(size=(3000, 16)), rng.normal(size=(70, 16))
    tree = CoverTree(X)
    tree.remove(np.arange(0, 3000, 7))  # some of them are centres, whose vectors stay
    together = tree.knn(Q, 9)
    alone = [tree.knn(q[None], 9) for q in Q]  # a query on its own is always answered by cells
    for part in range(2):
        np.testing.assert_array_equal(together[part], np.concatenate([each[part] for each in alone]))
    left = np.setdiff1d(np.arange(3000), np.arange(0, 3000, 7))
    np.testing.assert_array_equal(np.isin(together[1], left), True)
    np.testing.assert_allclose(together[0], brute_knn(X[left], Q, 9)[0], rtol=1e-5)


def test_cells_answer_where_they_save_distances_and_a_pass_where_not():
    """Distances to centres that are wrong hide data from cells, not from a pass over all data."""
    rng = np.random.default_rng(5)
    noise = rng.normal(size=(3000, 80))  # more columns than boxes are made for
    apart = 200.0 * rng.normal(size=(30, 80))[rng.integers(30, size=3000)] + noise
    for X, is_pass in ((noise, True), (apart, False)):
        arrays = CoverTree(X).to_arrays()
        arrays["dist"][arrays["ids"] < 64] = 1e6
        nearest = CoverTree.from_arrays(arrays).knn(X[:64], 1)[1][:, 0]
        is_centre = np.isin(np.arange(64), arrays["ids"][arrays["lo"]])
        hidden = ~is_centre & (nearest != np.arange(64))
        assert hidden[:4].any()
        assert bool(hidden[4:].any()) is not is_pass


@pytest.mark.parametrize("d", [1, 3, 17, 64])
@pytest.mark.parametrize("n", [1024, 1025, 4096, 5000])
def test_boxes_find_what_cells_find_to_the_bit(n, d):
    for X in (clusters(n, d, 9, n), lattice(n, d, 3, n), np.zeros((n, d)), 1e-20 + 1e15 * clusters(n, d, 2, d)):
        Q = np.concatenate([X[::41], X[:20] * 1.01 + 0.01, -9.0 * X[:3]])
        tree, other = CoverTree(X), CoverTree(X)
        for k in (1, 2, 17, 40):
            found = tree.knn(Q, k)
            cells = [other.knn(Q[i : i + 8], k) for i in range(0, len(Q), 8)]  # too few queries for boxes
            for part in range(2):
                np.testing.assert_array_equal(found[part], np.concatenate([each[part] for each in cells]))
        if n == 1024:
            assert tree.knn(Q, n)[1].tolist() == other.knn(Q, n)[1].tolist()


@pytest.mark.parametrize("d", [1, 13, 32, 64])
@pytest.mark.parametrize("shape", ["noise", "rounded", "copies", "lengths", "far apart"])
def test_products_of_all_rows_find_what_cells_find_to_the_bit(shape, d):
    """Boxes leave out few of these rows: most queries are compared with all rows, 32 at a time."""
    rng = np.random.default_rng(d)
    X = rng.normal(size=(2000, d))
    if shape == "rounded":
        X = np.round(X)
    elif shape == "copies":
        X[1000:] = X[:1000]
    elif shape == "lengths":
        X *= np.exp(3.0 * rng.normal(size=(2000, 1)))
    elif shape == "far apart":
        X[:1000] += 1e4
    Q = np.concatenate([X[:70], rng.normal(size=(30, d))])
    together, alone = CoverTree(X), CoverTree(X)
    for k in (1, 5, 62, 63, 2000):  # of more than 62, 32 answers are more than the data
        found = together.knn(Q, k)
        cells = [alone.knn(Q[i : i + 8], k) for i in range(0, len(Q), 8)]  # too few queries for boxes
        for part in range(2):
            np.testing.assert_array_equal(found[part], np.concatenate([each[part] for each in cells]))


def test_boxes_forget_data_that_change():
    X = clusters(2000, 3, 9, 1)
    tree = CoverTree(X)
    before = tree.knn(X, 2)
    tree.remove(before[1][:3, 1])
    new = tree.insert(X[:3] + 1e-3)
    distance, index = tree.knn(X, 2)
    assert not np.isin(index, before[1][:3, 1]).any()
    assert index[:3, 1].tolist() == new.tolist()
    left = np.setdiff1d(np.arange(2000), before[1][:3, 1])
    np.testing.assert_allclose(distance, brute_knn(np.concatenate([X[left], X[:3] + 1e-3]), X, 2)[0], atol=1e-5)


def test_more_neighbours_than_data():
    distance, index = CoverTree(lattice(5, 2, 9, 4)).knn([[0.0, 0.0]], 50)
    assert distance.shape == index.shape == (1, 5)
    assert sorted(index[0]) == list(range(5))


def test_one_point_and_all_points_equal():
    one = CoverTree([[3.0, 4.0]])
    one.invariants()
    assert one.knn([[0.0, 0.0]], 3)[0].tolist() == [[5.0]]
    assert one.range([[0.0, 0.0]], 4.9)[1].size == 0
    assert one.range([[0.0, 0.0]], 5.0)[1].tolist() == [0]
    equal = CoverTree(np.full((1000, 3), 7.25), leaf=4)
    equal.invariants()
    assert equal.n_cells == 1
    assert equal.knn(np.full((1, 3), 7.25), 3)[1].tolist() == [[0, 1, 2]]
    assert equal.frontier(10).tolist() == [0]


@pytest.mark.parametrize("n", [600, 5000])
def test_thousands_of_columns(n):
    F = 4100 if n == 600 else 520  # beyond the float32 sums of one go; beyond tiles, with candidates and without
    rng = np.random.default_rng(24)
    X = (rng.normal(size=(12, F))[rng.integers(12, size=n)] + 0.05 * rng.normal(size=(n, F))).astype(np.float32)
    tree = CoverTree(X, n_threads=2)
    check = tree.to_arrays()
    assert same(tree, CoverTree(X))
    if n == 600:
        check_cover_tree(check)
    distance, index = tree.knn(X[:4], 3)
    np.testing.assert_array_equal(index[:, 0], np.arange(4))
    for i in range(4):
        squares = ((X - X[i]).astype(float) ** 2).sum(axis=1)
        np.testing.assert_allclose(distance[i], np.sqrt(np.sort(squares)[:3]), rtol=1e-5)


def test_small_structure_far_from_the_origin_survives():
    rng = np.random.default_rng(5)
    X = 1e3 + 1e-6 * lattice(300, 2, 3, 5) + 1e-9 * rng.random((300, 2))
    tree = CoverTree(X, leaf=2)
    tree.invariants()
    distance, _ = tree.knn(X[:40], 6)
    np.testing.assert_allclose(distance, brute_knn(X, X[:40], 6)[0], rtol=1e-4, atol=1e-11)
    assert tree.n_cells > 9


@pytest.mark.parametrize("isa", ["base", "avx2"])
def test_other_instructions_find_the_same_neighbours(isa):
    code = (
        "import json, numpy as np; from expfam.structures import CoverTree\n"
        "X = np.random.default_rng(0).integers(0, 5, (300, 19)).astype(float)\n"
        "t = CoverTree(X, leaf=3); t.invariants(); found = [t.knn(X[:20], 5)[1].tolist()]\n"
        "X = np.random.default_rng(0).integers(0, 5, (1500, 7)).astype(float)\n"
        "found.append(CoverTree(X).knn(X[:40], 5)[1].tolist())\n"
        "X = np.random.default_rng(0).integers(0, 9, (1500, 23)).astype(float)\n"
        "found.append(CoverTree(X).knn(X[:99], 5)[1].tolist()); print(json.dumps(found))"
    )
    cells, boxes, products = json.loads(output_under(isa, code))
    X = np.random.default_rng(0).integers(0, 5, (300, 19)).astype(float)
    assert cells == brute_knn(X, X[:20], 5)[1].tolist()
    X = np.random.default_rng(0).integers(0, 5, (1500, 7)).astype(float)
    assert boxes == brute_knn(X, X[:40], 5)[1].tolist()
    X = np.random.default_rng(0).integers(0, 9, (1500, 23)).astype(float)
    assert products == brute_knn(X, X[:99], 5)[1].tolist()


# ---- the build -------------------------------------------------------------------------------------------------------


def test_the_same_bits_for_any_number_of_threads():
    X = clusters(30000, 6, 40, 6)  # large cells, chunked passes and several tasks a level
    trees = [CoverTree(X, n_threads=n) for n in (1, 2, 3)]
    assert same(trees[0], trees[1])
    assert same(trees[0], trees[2])
    assert same(trees[0], CoverTree(np.asfortranarray(X)))
    answers = [tree.knn(X[:500], 4) for tree in trees]
    assert answers[0][0].tobytes() == answers[1][0].tobytes()
    assert answers[0][1].tobytes() == answers[2][1].tobytes()
    assert trees[0].range(X[:200], 2.0)[1].tobytes() == trees[1].range(X[:200], 2.0)[1].tobytes()


def assert_nearest_centres(tree):
    """Every member lies below the child whose centre is nearest to it, up to rounding."""
    a = tree.to_arrays()
    points = a["points"].astype(float)
    for c in np.flatnonzero(a["child"] >= 0):
        children = np.flatnonzero(a["parent"] == c)
        members = slice(a["lo"][c], a["lo"][c] + a["size"][c])
        squares = (points[members] ** 2).sum(1)[:, None] - 2 * points[members] @ points[a["lo"][children]].T
        squares += (points[a["lo"][children]] ** 2).sum(1)
        own = np.repeat(np.arange(len(children)), a["size"][children])
        excess = squares[np.arange(len(own)), own] - squares.min(axis=1)
        assert excess.max() <= 1e-5 * (1 + squares.max()), f"cell {c}"


@pytest.mark.parametrize(
    ("n", "d"), [(3000, 5), (9000, 5), (16000, 40), (14000, 3)], ids=["all", "sampled", "chunked", "low"]
)
@pytest.mark.parametrize("base", [1.3, 2.0])
def test_members_lie_below_the_nearest_centre(n, d, base):
    X = clusters(n, d, 30, 25)
    X[:: n // 40] *= 20.0  # a few members far out, which no sample need hold
    X[1::2] = X[1::2][np.argsort(X[1::2, 0])]
    tree = CoverTree(X, base=base)
    tree.invariants()
    assert_nearest_centres(tree)


def test_rows_that_come_in_a_period_are_split_like_others():
    labels = np.arange(40000) % 256
    rng = np.random.default_rng(26)
    X = 5 * rng.normal(size=(256, 8))[labels] + 0.01 * rng.normal(size=(40000, 8))
    for order in (np.arange(40000), np.argsort(labels, kind="stable")):
        tree = CoverTree(X[order])
        tree.invariants()
        cells = tree.frontier(200)
        assert len(cells) < 280
        of_one = [np.bincount(labels[order[tree.members(cell)]]).max() for cell in cells]
        assert sum(of_one) > 0.99 * 40000  # members between two centres may part from their cluster


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads the peak of resident memory as Linux gives it")
def test_a_tree_takes_little_more_than_its_copy_of_the_data():
    code = (
        "import re, numpy as np; from expfam.structures import CoverTree\n"
        "rng = np.random.default_rng(0)\n"
        "X = rng.standard_normal((120000, 64), dtype=np.float32)\n"
        "for lo in range(0, 120000, 1000):\n"
        "    X[lo : lo + 1000] += 3 * rng.standard_normal(64, dtype=np.float32)\n"
        "CoverTree(X[:2000])\n"
        "peak = lambda: 1024 * int(re.search('VmHWM:[ \\t]*([0-9]+)', open('/proc/self/status').read())[1])\n"
        "before = peak(); tree = CoverTree(X); print((peak() - before) / X.nbytes)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=sys.prefix, capture_output=True, text=True, check=True)
    assert 0.9 < float(done.stdout) < 1.6  # a second copy of the rows would be above 2


@pytest.mark.parametrize("d", [1, 2, 8])
def test_promises_hold_for_clustered_collinear_and_nested_data(d):
    rng = np.random.default_rng(7)
    for X in (
        clusters(1500, d, 20, 8),
        np.outer(rng.random(500), np.ones(d)),
        np.repeat(10.0 ** -rng.integers(0, 6, (300, 1)), d, axis=1) * rng.normal(size=(300, d)),
        np.repeat(rng.normal(size=(40, d)), 25, axis=0),
    ):
        for base, leaf in ((1.3, 16), (2.0, 1)):
            CoverTree(X, base=base, leaf=leaf).invariants()


@pytest.mark.parametrize(
    ("name", "change"),
    [("radius", 0.5), ("dist", 1.5), ("pdist", 1.5), ("level", 3), ("ids", None)],
)
def test_a_broken_promise_is_noticed(name, change):
    arrays = CoverTree(clusters(500, 3, 8, 9), leaf=4).to_arrays()
    check_cover_tree(arrays)
    if name == "ids":
        arrays["ids"][3] = arrays["ids"][4]
    else:
        at = np.argmax(arrays[name] if name != "level" else arrays["child"])
        arrays[name][at] = arrays[name][at] * change if isinstance(change, float) else arrays[name][at] + change
    with pytest.raises(AssertionError):
        check_cover_tree(arrays)


def test_noise_warns_and_stays_one_cell():
    X = np.random.default_rng(10).normal(size=(30000, 64)).astype(np.float32)
    with pytest.warns(CoverTreeWarning, match=r"30000 of 30000 points"):
        tree = CoverTree(X)
    assert tree.n_cells == 1
    tree.invariants()
    np.testing.assert_allclose(tree.knn(X[:5], 3)[0], brute_knn(X, X[:5], 3)[0], rtol=EPS, atol=1e-5)


def test_a_thousand_distant_clusters_are_not_noise():
    rng = np.random.default_rng(11)
    X = 3 * rng.normal(size=(1000, 32))[rng.integers(1000, size=100000)] + rng.normal(size=(100000, 32))
    cells = CoverTree(X, base=2.0).cells
    assert cells["size"][cells["child"] < 0].max() <= 16
    assert np.bincount(cells["parent"][1:]).max() > 512


# ---- levels ----------------------------------------------------------------------------------------------------------


def test_level_sets_are_nested_nets():
    X = lattice(500, 3, 9, 12)
    tree = CoverTree(X, leaf=1)
    above = np.zeros(0, dtype=int)
    for level in tree.levels:
        ids = tree.prototypes(level)
        assert set(above) <= set(ids)
        cells = tree.cells_at(level)
        group = tree.assign(cells)
        assert group.min() == 0
        assert np.array_equal(np.bincount(group), tree.cells["alive"][cells])
        centres = X[tree.prototypes(level)][group]
        # the sum over all levels below, whatever the path
        assert np.sqrt(((X - centres) ** 2).sum(axis=1)).max() <= tree.base**level * (1 + EPS)
        above = ids
    assert len(above) == len(np.unique(X, axis=0))
    assert len(tree.prototypes(tree.levels[0] + 5)) == 1


def way_to(tree, datum):
    """The cells that hold a datum, from its leaf up to the root."""
    leaves, parents = np.flatnonzero(tree.cells["child"] < 0), tree.cells["parent"]
    path = [leaves[tree.assign(leaves)[datum]]]
    while parents[path[-1]] >= 0:
        path.append(parents[path[-1]])
    return path


def test_frontier_and_members_agree():
    X = clusters(2000, 3, 15, 13)
    tree = CoverTree(X)
    cells = tree.frontier(100)
    group, records = tree.assign(cells), tree.cells
    assert np.all(records["size"][cells] <= 100)
    assert np.all(records["size"][records["parent"][cells]] > 100)
    for t in (0, len(cells) // 2, len(cells) - 1):
        members = tree.members(cells[t])
        assert set(members) == set(np.flatnonzero(group == t))
        for datum in members[:5]:
            path = way_to(tree, datum)
            assert path[-1] == 0
            assert cells[t] in path
            assert datum in tree.members(path[0])


def test_descending_goes_to_the_nearest_child():
    X = clusters(1000, 2, 12, 14)
    tree = CoverTree(X)
    arrays, x = tree.to_arrays(), np.array([0.3, -0.7])
    path = tree.descend(x)
    assert path[0] == 0
    assert arrays["child"][path[-1]] < 0
    points = arrays["points"].astype(float) + arrays["center"]
    for parent, child in pairwise(path):
        children = np.flatnonzero(arrays["parent"] == parent)
        distances = np.sqrt(((points[arrays["lo"][children]] - x) ** 2).sum(axis=1))
        assert distances[children == child] <= distances.min() * (1 + EPS)


# ---- inserts and removals --------------------------------------------------------------------------------------------

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("insert"), st.lists(st.tuples(*[st.integers(-6, 6)] * 2), min_size=1, max_size=6)),
        st.tuples(st.just("far"), st.integers(1, 400)),
        st.tuples(st.just("copy"), st.integers(0, 10**6)),
        st.tuples(st.just("remove"), st.lists(st.integers(0, 10**6), min_size=1, max_size=8)),
    ),
    min_size=1,
    max_size=25,
)


@settings(max_examples=120, deadline=None, derandomize=True)
@given(STEPS, st.sampled_from([1, 3, 8]), st.sampled_from([1.3, 2.0]), st.sampled_from([1, 12, 60]))
def test_promises_and_searches_after_random_inserts_and_removals(steps, leaf, base, n):
    X = lattice(n, 2, 5, 15)
    tree = CoverTree(X, leaf=leaf, base=base)
    held = dict(enumerate(X))
    for kind, what in steps:
        if kind == "remove":
            chosen = sorted({sorted(held)[i % len(held)] for i in what}) if held else []
            tree.remove(chosen)
            for i in chosen:
                del held[i]
        else:
            if kind == "insert":
                rows = np.array(what, float)
            elif kind == "far":
                rows = np.array([[what, -what]], float)
            else:
                rows = np.repeat([held[sorted(held)[what % len(held)]] if held else [1.0, 1.0]], 3, axis=0)
            for i, row in zip(tree.insert(rows), rows):
                assert i not in held
                held[int(i)] = row
        tree.invariants()
        assert len(tree) == len(held)
    if held:
        ids = sorted(held)
        left = np.array([held[i] for i in ids])
        Q = lattice(8, 2, 7, 16)
        distance, index = tree.knn(Q, 7)
        expected, expected_ids = brute_knn(left, Q, 7, ids)
        np.testing.assert_array_equal(index, expected_ids)
        np.testing.assert_array_equal(distance, expected)
        _, index = tree.range(Q, 3.0)
        inside = np.sqrt(brute_squares(left, Q)) <= 3.0
        np.testing.assert_array_equal(index, np.array(ids)[np.nonzero(inside)[1]])
        np.testing.assert_array_equal(tree.vectors(ids), left)
        assert set(ids) <= set(tree.members(0).tolist())
    assert same(tree, pickle.loads(pickle.dumps(tree)))


def test_a_thousand_updates_of_a_larger_tree():
    rng = np.random.default_rng(17)
    X = clusters(3000, 4, 12, 18)
    tree = CoverTree(X)
    held = dict(enumerate(X))
    for step in range(500):
        row = rng.normal(size=(1, 4)) * rng.choice([0.1, 3.0, 30.0])
        held[int(tree.insert(row)[0])] = row[0]
        gone = int(rng.choice(list(held)))
        tree.remove(gone)
        del held[gone]
        if step % 100 == 99:
            tree.invariants()
    ids = sorted(held)
    left = np.array([held[i] for i in ids])
    expected, _ = brute_knn(left, X[:50], 9, ids)
    np.testing.assert_allclose(tree.knn(X[:50], 9)[0], expected, rtol=EPS, atol=1e-5)


def test_removing_everything_and_starting_again():
    tree = CoverTree(lattice(20, 2, 5, 19), leaf=2)
    tree.remove(np.arange(20))
    assert len(tree) == 0
    assert tree.knn([[0.0, 0.0]], 3)[1].shape == (1, 0)
    assert tree.range([[0.0, 0.0]], 9.0)[1].size == 0
    assert tree.insert([[1.0, 1.0]]).tolist() == [20]
    tree.invariants()
    assert tree.knn([[0.0, 1.0]], 3)[1].tolist() == [[20]]


# ---- state and errors ------------------------------------------------------------------------------------------------


def test_arrays_and_pickles_keep_every_bit():
    tree = CoverTree(clusters(800, 3, 9, 20), base=2.0, leaf=5)
    assert same(tree, CoverTree.from_arrays(tree.to_arrays()))
    copy = pickle.loads(pickle.dumps(tree))
    row = np.full((1, 3), 2.5)
    assert copy.insert(row) == tree.insert(row)
    assert same(tree, copy)


@pytest.mark.parametrize(
    "damage",
    [{"lo": 10**6}, {"child": 10**6}, {"next": 0}, {"ids": 10**6}, {"parent": 1}, {"size": 10**6}],
)
def test_arrays_that_would_lead_out_of_bounds_are_refused(damage):
    arrays = CoverTree(clusters(200, 2, 5, 21), leaf=4).to_arrays()
    ((name, value),) = damage.items()
    arrays[name][len(arrays[name]) - 1] = value
    with pytest.raises(ValueError):
        CoverTree.from_arrays(arrays)


@pytest.mark.parametrize(
    ("X", "options", "words"),
    [
        (np.zeros((0, 2)), {}, "at least one row"),
        (np.zeros(3), {}, "two dimensions"),
        ([[1.0, np.nan]], {}, "column 1"),
        ([[1.0], [np.inf]], {}, "column 0"),
        ([[0.0], [1e19]], {}, "rescale"),
        ([[0.0], [1e-20]], {}, "rescale"),
        ([[0.0]], {"base": 1.0}, "base"),
        ([[0.0]], {"leaf": 0}, "leaf"),
        ([[0.0]], {"max_children": 4}, "max_children"),
    ],
)
def test_bad_data_and_options_are_refused(X, options, words):
    with pytest.raises(ValueError, match=words):
        CoverTree(X, **options)


def test_bad_queries_are_refused():
    tree = CoverTree(lattice(30, 2, 5, 22))
    with pytest.raises(ValueError, match="3 columns; the tree was built from 2"):
        tree.knn(np.zeros((1, 3)), 1)
    with pytest.raises(ValueError, match="k must"):
        tree.knn(np.zeros((1, 2)), 0)
    with pytest.raises(ValueError, match="row 1 is not finite"):
        tree.range([[0.0, 0.0], [np.nan, 0.0]], 1.0)
    with pytest.raises(ValueError, match="r must"):
        tree.range(np.zeros((1, 2)), np.nan)
    with pytest.raises(KeyError, match="nothing was removed"):
        tree.remove([3, 99])
    with pytest.raises(KeyError, match="twice"):
        tree.remove([3, 3])
    assert len(tree) == 30
    with pytest.raises(IndexError):
        tree.members(10**6)


def test_integers_and_read_only_rows_are_taken():
    X = np.arange(12).reshape(6, 2)
    Y = X.astype(float)
    Y.flags.writeable = False
    assert same(CoverTree(X), CoverTree(Y))


def test_threads_that_search_a_new_tree_at_once_find_the_same():
    X = np.random.default_rng(0).normal(size=(6000, 4)).astype(np.float32)
    parts, wanted = np.split(np.arange(len(X)), 6), CoverTree(X).knn(X, 5)[1]
    for _ in range(10):
        tree = CoverTree(X)
        with ThreadPoolExecutor(6) as pool:
            found = np.vstack(list(pool.map(lambda rows, tree=tree: tree.knn(X[rows], 5)[1], parts)))
        assert np.array_equal(found, wanted)
