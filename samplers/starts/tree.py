"""Starting labels from a cover tree, whose cells divide the data into exactly K pieces.

The lowest level with at most K cells is the beginning. Then cells are chosen at random, with probability proportional
to their size, and replaced by their children until there are K pieces. Surplus pieces are dropped at random, and their
data go to the nearest piece that is left. A leaf has no children: random further members of it become centres, and its
data go to the nearest centre. So any number of clusters up to the number of distinct rows can be made. The tree costs
O(c N log(spread)) distances, the choice O(K log K), and each datum without a piece O(K) distances.
"""

import heapq
import warnings

import numpy as np

from expfam.amounts import counted
from expfam.model.data import Dataset
from expfam.samplers.geometry.coordinates import Rows, nearest_of_all
from expfam.structures.cover_tree.tree import CoverTree, CoverTreeWarning
from expfam.structures.ground.rng import generator


def tree_labels(data: Dataset, K: int, *, seed: int, name: str, n_threads: int | None = None) -> np.ndarray:
    """Return the cluster of each datum, (N,) intp in the order of the tree; all K have data.

    Parameters
    ----------
    data : Dataset
    K : int
        Number of clusters.
    seed : int
        Seed of the chain, 64 bits.
    name : {"tree", "tree_point"}
        Labels name the cell that holds the datum, or the nearest of the cells' centres.
    n_threads : int or None
        Number of threads; the result does not depend on it.

    Raises
    ------
    ValueError
        There are fewer than K rows that are distinct in float32.

    Notes
    -----
    Zaheer, Kottur, Ahmed, Moura and Smola 2017, "Canopy: fast sampling with cover trees". Parameters made of the labels
    of "tree_point" are those of all data near a centre, where the paper takes the centre alone.
    """
    if data.n_rows < K:
        raise ValueError(_too_many(name, K, counted(data.n_rows, "row")))
    points = Rows(data, n_threads=n_threads).embedding(seed, n_threads)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CoverTreeWarning)  # cells left whole are divided here
        tree = CoverTree(points, n_threads=n_threads)
    rng = generator(seed, "start", unit=2)
    centres, labels = _pieces(tree, points, K, rng)
    if centres.size < K:
        raise ValueError(_too_many(name, K, counted(centres.size, "distinct row")))
    kept = np.sort(rng.permutation(centres.size)[:K])
    if name == "tree_point":
        labels = nearest_of_all(points, points[centres[kept]], n_threads)
    else:
        rank = np.full(centres.size, -1)
        rank[kept] = np.arange(K)
        labels = rank[labels]
        orphans = np.flatnonzero(labels < 0)
        labels[orphans] = nearest_of_all(points[orphans], points[centres[kept]], n_threads)
    labels[centres[kept]] = np.arange(K)  # two centres may be so near that rounding makes them one
    return labels


def _too_many(name, K, found):
    return (
        f"start={name!r} makes n_clusters = {counted(K, 'cluster')}, but the data have only {found}: ask for fewer "
        "clusters"
    )


def _pieces(tree, points, K, rng):
    """Return the centre of each piece, a datum, and the piece of each datum.

    There are at least K pieces, or as many as the distinct rows allow.
    """
    cells = tree.cells
    further = _divide(tree, cells, points, K, rng)
    tops = np.array(sorted(further, key=lambda c: cells["lo"][c]))
    labels = tree.assign(tops)
    centres = [_centre(tree, cells["child"], c) for c in tops]
    for piece, c in enumerate(tops):
        if further[c]:
            members = tree.members(c)
            names = np.array([piece, *range(len(centres), len(centres) + len(further[c]))])
            near = nearest_of_all(points[members], points[[centres[piece], *further[c]]], None)
            labels[members] = names[near]
            centres.extend(further[c])
    return np.array(centres), labels


def _divide(tree, cells, points, K, rng):
    """Return the cells that divide the data, each with further centres among its members.

    Each cell that can be divided gets an exponential waiting time, with its size as the rate. So the cell with the
    shortest time is any of them with probability proportional to size; a heap finds it.
    """
    further = {int(c): [] for c in _level(tree, K)}
    spare, clocks, n = {}, [], len(further)

    def wind(now, c):
        if cells["radius"][c] > 0:
            heapq.heappush(clocks, (now + rng.standard_exponential() / cells["size"][c], c))

    for c in further:
        wind(0.0, c)
    while n < K and clocks:
        now, c = heapq.heappop(clocks)
        if cells["child"][c] >= 0:
            del further[c]
            children = _children(cells, c)
            further |= {child: [] for child in children}
            n += len(children) - 1
            for child in children:
                wind(now, child)
            continue
        if c not in spare:
            spare[c] = _others(tree.members(c), points, rng)
        datum = next(spare[c], None)
        if datum is not None:
            further[c].append(datum)
            n += 1
            wind(now, c)
    return further


def _level(tree, K):
    """Return the cells of the lowest level that has at most K."""
    found = None
    for level in tree.levels:
        cells = tree.cells_at(level)
        if cells.size > K:
            break
        found = cells
    return found


def _children(cells, c):
    found, child = [], int(cells["child"][c])
    while child >= 0:
        found.append(child)
        child = int(cells["next"][child])
    return found


def _centre(tree, first_child, c):
    """Return the datum at the centre of a cell; the first child has the same one."""
    while first_child[c] >= 0:
        c = first_child[c]
    return int(tree.members(c)[0])


def _others(members, points, rng):
    """Yield members in random order, except those whose row occurred before."""
    seen = {_key(points[members[0]])}
    for i in rng.permutation(members[1:]):
        if (key := _key(points[i])) not in seen:
            seen.add(key)
            yield int(i)


def _key(row):
    return (row + np.float32(0)).tobytes()  # 0.0 and -0.0 are one number
