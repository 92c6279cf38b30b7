"""Checks of the invariants of a cover tree in plain NumPy.

The checks read the arrays of a tree and share no code with the compiled tree.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from expfam.amounts import counted


def check_cover_tree(arrays: dict[str, npt.NDArray[Any]]) -> None:
    """Assert every invariant of a cover tree, given as the arrays of `CoverTree.to_arrays`.

    The invariants are covering, nesting and separation of siblings; see Beygelzimer, Kakade and Langford 2006, section
    2. The message of the AssertionError names the invariant and the cell.
    """
    tree = _Reader(arrays)
    seen = []
    for c in tree.cells():
        tree.check_cell(c)
        if tree.is_leaf(c):
            tree.check_leaf(c)
            seen.append(tree.block(c))
    ids = np.concatenate(seen)
    held = np.sort(ids[ids >= 0])
    n_alive = arrays["counts"][2]
    assert len(held) == n_alive == arrays["alive"][0], (
        f"{counted(len(held), 'datum', 'data')} in leaves, {n_alive} promised"
    )
    assert np.all(np.diff(held) > 0), "a datum lies in two leaves"
    assert len(ids) == arrays["size"][0], "sizes do not count what leaves hold"


class _Reader:
    """Arrays of a cover tree with a few derived numbers."""

    def __init__(self, arrays):
        self.a = arrays
        self.base = float(arrays["base"])
        self.leaf, _, _, _, _, self.is_compact, self.is_bound = (int(count) for count in arrays["counts"])
        self.is_updated = not self.is_compact
        self.eps = (min(arrays["points"].shape[1], 4096) + 16) * 2.0**-23

    def is_leaf(self, c):
        return self.a["child"][c] < 0

    def children(self, c):
        found, child = [], self.a["child"][c]
        while child >= 0:
            found.append(int(child))
            child = self.a["next"][child]
        return found

    def cells(self):
        """Return all cells, parents first."""
        order, waiting = [], [0]
        while waiting:
            c = waiting.pop()
            order.append(c)
            waiting += self.children(c)
        assert sorted(order) == list(range(len(self.a["lo"]))), "cells that the root does not reach"
        return order

    def block(self, c):
        lo = self.a["lo"][c]
        return self.a["ids"][lo : lo + self.a["size"][c]]

    def positions(self, c):
        """Return the positions of all vectors below a cell."""
        if self.is_compact or self.is_leaf(c):
            return np.arange(self.a["lo"][c], self.a["lo"][c] + self.a["size"][c])
        return np.concatenate([self.positions(child) for child in self.children(c)])

    def distance(self, p, qs):
        points = self.a["points"]
        return np.sqrt(np.sum((points[qs].astype(float) - points[p].astype(float)) ** 2, axis=1))

    def near(self, x, y):
        return abs(x - y) <= self.eps * (abs(x) + abs(y))

    def check_cell(self, c):
        a = self.a
        positions = self.positions(c)
        assert len(positions) == a["size"][c], f"cell {c}: size"
        assert np.sum(a["ids"][positions] >= 0) == a["alive"][c], f"cell {c}: alive"
        assert a["lo"][c] in positions, f"cell {c}: its centre is not below it"
        farthest = self.distance(a["lo"][c], positions).max()
        assert farthest <= a["radius"][c] * (1 + self.eps), f"cell {c}: a member beyond the radius"
        if not self.is_bound:
            assert self.near(farthest, a["radius"][c]), f"cell {c}: radius {a['radius'][c]}, farthest {farthest}"
        bound = self.base ** float(a["level"][c]) * (1 + self.eps)
        if self.is_updated:  # members were inserted through children: their distances add up over all lower levels
            bound *= self.base / (self.base - 1)
        assert a["radius"][c] <= bound or a["radius"][c] == 0, f"cell {c}: radius beyond its level"
        if not self.is_leaf(c):
            self.check_children(c)

    def check_children(self, c):
        a, children = self.a, self.children(c)
        level = a["level"][children[0]]
        assert a["lo"][children[0]] == a["lo"][c], f"cell {c}: no self-child"
        assert a["pdist"][children[0]] == 0, f"cell {c}: distance of the self-child"
        assert np.all(a["parent"][children] == c), f"cell {c}: a child names another parent"
        assert np.all(a["level"][children] == level), f"cell {c}: children at several levels"
        assert level < a["level"][c], f"cell {c}: nesting"
        if not self.is_updated:
            assert len(children) > 1, f"cell {c}: a level without a split"
            lo = np.cumsum(np.append(a["lo"][c], a["size"][children]))
            assert np.array_equal(lo[:-1], a["lo"][children]), f"cell {c}: ranges of its children"
        centres = a["lo"][children]
        distances = self.distance(a["lo"][c], centres)
        assert np.all(np.abs(distances - a["pdist"][children]) <= self.eps * distances), f"cell {c}: pdist"
        assert np.all(distances <= self.base ** (level + 1.0) * (1 + self.eps)), f"cell {c}: covering"
        for k in range(1, len(centres)):
            apart = self.distance(centres[k], centres[:k]).min()
            assert apart > self.base ** float(level) * (1 - self.eps), f"cell {c}: separation at level {level}"

    def check_leaf(self, c):
        a = self.a
        positions, limit = self.positions(c), self.leaf * (2 if self.is_updated else 1)
        small = len(positions) <= limit or a["radius"][c] == 0 or a["flags"][c] & 1
        assert small, f"leaf {c}: {counted(len(positions), 'member')}, at most {limit} are allowed"
        distances = self.distance(a["lo"][c], positions)
        assert np.all(np.abs(distances - a["dist"][positions]) <= self.eps * distances), f"leaf {c}: distances"
        assert np.all(a["ids"][positions[1:]] >= 0), f"leaf {c}: a hole among its members"
