"""What a stored search for a hierarchy must hold before compiled code may go on with it.

The merges so far determine which clusters live, in which slots and with how many data. Queue, partners and scores are
compared with these. Any other fault of a list of candidates or of a score leads to another tree, and to no harm.
"""

from typing import Any

import numpy as np

from expfam.amounts import counted
from expfam.errors import ArchiveError
from expfam.structures.ground.stored import integers, numbers, offsets


class Forest:
    """Clusters and slots after stored merges of L leaves.

    `children` (M, 2) are the nodes of each merge; the new node takes the slot of the first. A merge of a node that does
    not exist or was joined before raises ArchiveError. `ids` (L,) is the node that each slot held last; `root` (L,) is
    the slot that holds the data of each slot now, where a live cluster is in its own slot; `is_live` (L,) is bool.
    """

    def __init__(self, children: np.ndarray, n_leaves: int) -> None:
        self.n_leaves, self.n_nodes = n_leaves, n_leaves + len(children)
        self.counts = np.zeros(n_leaves, dtype=np.int64)  # data of each live slot, once they are checked
        slot, ids, root = list(range(n_leaves)), list(range(n_leaves)), list(range(n_leaves))
        for node, (i, j) in enumerate(children.tolist(), start=n_leaves):
            if i == j or max(i, j) >= node or slot[i] < 0 or slot[j] < 0:
                raise ArchiveError(f"the merge of nodes {i} and {j} is impossible: the file was altered")
            root[slot[j]] = slot[i]
            slot.append(slot[i])
            slot[i] = slot[j] = -1
            ids[slot[node]] = node
        self.ids, self.root = np.array(ids, dtype=np.int64), np.array(root, dtype=np.int64)
        self.is_live = self.root == np.arange(n_leaves)
        self.root = _ends(self.root)


def check_forest(arrays: dict[str, Any], n_rows: int) -> Forest:
    """Check all that compiled code reads of a stored search; return its forest."""
    L = len(numbers(arrays, "leaf_weight", (None,)))
    leaf = integers(arrays, "leaf", (n_rows,), 0, L)
    children = integers(arrays, "children", (None, 2), 0, 2 * L)
    forest = Forest(children, L)
    counts = integers(arrays, "counts", (forest.n_nodes,), 1, n_rows + 1)
    below = np.concatenate([np.bincount(leaf, minlength=L), counts[children].sum(axis=1)])
    if not np.array_equal(counts, below):
        raise ArchiveError("the counts of the tree are not those of its leaves: the file was altered")
    if not np.array_equal(integers(arrays, "ids", (L,)), forest.ids):
        raise ArchiveError("the slots of the clusters are not those of the merges: the file was altered")
    numbers(arrays, "log_block", (forest.n_nodes,))
    numbers(arrays, "log_joint", ())
    integers(arrays, "counters", (2,))
    forest.counts = np.where(forest.is_live, counts[forest.ids], 0)
    _check_queue(arrays["queue"], forest)
    _check_scores(arrays["scores"], forest)
    return forest


def _check_queue(queue, forest):
    L, live = forest.n_leaves, forest.is_live
    n_items, n_kept, n_live, *_ = integers(queue, "counters", (6,)).tolist()
    if n_items != L or n_live != np.count_nonzero(live):
        raise ArchiveError("the queue has other clusters than the forest: the file was altered")
    ids = integers(queue, "id", (L,), -1, forest.n_nodes)
    if not np.array_equal(ids[live], forest.ids[live]) or (ids[~live] != -1).any():
        raise ArchiveError("the queue has other clusters than the forest: the file was altered")
    n_listed = integers(queue, "n_listed", (L,), 0, n_kept + 1)
    slot = integers(queue, "kept_slot", (L, n_kept), -1, L)
    known = integers(queue, "kept_id", slot.shape, -1, forest.n_nodes)
    scores, floor = (
        numbers(queue, name, shape, finite=False) for name, shape in (("kept_score", slot.shape), ("floor", (L,)))
    )
    if np.isnan(scores).any() or np.isnan(floor).any():
        raise ArchiveError("the queue holds scores that are NaN: the file was altered")
    is_listed = np.arange(n_kept) < n_listed[:, None]
    is_right = (slot >= 0) & (known >= 0) & (known < ids[:, None]) & (scores < np.inf)
    is_right[~live] = True  # what dead slots list is not read
    if not is_right[is_listed].all():
        raise ArchiveError("the queue lists pairs that cannot be merged: the file was altered")


def _check_scores(scores, forest):
    L = forest.n_leaves
    numbers(scores, "weight", (L,))
    count = integers(scores, "count", (L,))
    if not np.array_equal(count, forest.counts):
        raise ArchiveError("the scores are of clusters of other sizes: the file was altered")
    if "home" in scores:
        if not np.array_equal(integers(scores, "home", (L,), 0, L), forest.root):
            raise ArchiveError("the leaves are of other clusters than the forest's: the file was altered")
        return
    if "components" in scores:
        n = numbers(scores["components"], "n", (None,), low=0.0)
        if n.size < L or not np.array_equal(n[:L], forest.counts):
            raise ArchiveError("the statistics are of clusters of other sizes: the file was altered")
        return
    numbers(scores, "mass", (L,), low=0.0)
    numbers(scores, "rest", (L,))
    merged = integers(scores, "merged", (None,), 0, L)
    joined = np.flatnonzero(forest.is_live & (forest.ids >= L))
    if not np.array_equal(np.sort(merged), joined):
        raise ArchiveError("the merged clusters are not those of the forest: the file was altered")
    index = scores["index"]
    shape = integers(index, "shape", (2,))
    values = numbers(index, "values", (None,), low=0.0)
    integers(index, "terms", values.shape, 0, int(shape[1]))
    starts = offsets(index, "indptr", L, values.size)
    if shape[0] != L or np.diff(starts)[~forest.is_live].any():
        raise ArchiveError("the words are of other clusters than the forest's: the file was altered")


def check_partners(name: str, arrays: dict[str, Any], forest: Forest) -> None:
    """Refuse stored partners that do not fit the clusters of a forest.

    Parameters
    ----------
    name : {"AllPartners", "GraphPartners", "IndexPartners"}
        Class of the partners.
    arrays : dict of ndarrays
        What is stored of them.
    forest : Forest
        Result of `check_forest`.

    Raises
    ------
    ArchiveError
    """
    L = forest.n_leaves
    if name == "GraphPartners":
        home = integers(arrays, "home", (L,), 0, L)
        if not np.array_equal(_ends(home), forest.root):
            raise ArchiveError("the graph leads to other clusters than the forest's: the file was altered")
        targets = integers(arrays, "targets", (None,), 0, L)
        offsets(arrays, "starts", L, targets.size)
    elif name == "AllPartners":
        slots = integers(arrays, "slots", (None,), 0, L)
        ids = integers(arrays, "ids", slots.shape, 0, forest.n_nodes)
        integers(arrays, "n_named", (), forest.n_nodes, forest.n_nodes + 1)
        group = integers(arrays, "group", (L,), -1, L)
        is_loose = forest.is_live & (forest.ids < L)
        if (group[~is_loose] >= 0).any() or len(slots) > 2 * L or (np.diff(ids) <= 0).any():
            raise ArchiveError("the partners are not clusters of the forest: the file was altered")
    else:
        integers(arrays, "is_wide", (), 0, 2)


def check_index(arrays: dict[str, Any], n_terms: int) -> None:
    """Refuse stored words of another number of columns."""
    found = arrays["scores"].get("index", {})
    if found and int(found["shape"][1]) != n_terms:
        raise ArchiveError(
            f"the words are of {counted(int(found['shape'][1]), 'column')}, not {n_terms}: the file was altered"
        )


def _ends(home):
    """Where each chain of links ends; ArchiveError for one that goes round in circles."""
    for _ in range(len(home).bit_length() + 1):
        further = home[home]
        if np.array_equal(further, home):
            return home
        home = further
    raise ArchiveError("links of merged clusters go round in circles: the file was altered")
