"""What is known of a partition before a fit: classes of rows, and rows that belong together.

The posterior is conditioned on it: p(partition | data), restricted to the partitions that agree with what is known.
No penalty and no weight is involved. Rows are free or held: kernels of single rows visit the free ones.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment

from expfam.amounts import counted
from expfam.errors import DataError
from expfam.model.partitions import by_first_appearance
from expfam.params import check_value

KINDS = ("clusters", "classes")


class Known:
    """Classes and links of rows, checked against each other.

    Parameters
    ----------
    classes : (N,) array_like of int, optional
        Class of each row, 0, 1, ...; -1 where it is not known.
    kind : {"clusters", "classes"}
        "clusters": the rows of a class are one cluster, and rows of two classes are in two. "classes": a cluster holds
        known rows of at most one class; a class may hold several clusters.
    links : (N,) array_like of int, optional
        Rows with an equal number of at least 0 are in one cluster; -1 for rows without a link.
    n_classes : int, optional
        Number of classes, where more may exist than these rows have.
    class_names : (C,) array_like, optional
        Names of the classes, for messages.

    Attributes
    ----------
    classes : (N,) int32 ndarray or None
        A row that is linked to a known one has its class.
    n_classes : int
    free : (M,) intp ndarray
        Rows that move one by one, ascending.
    groups : list of (m,) intp ndarrays
        Rows of each link group that moves as one; groups of one row are free rows.
    grouped_rows : (R,) intp ndarray
        Rows of all groups, one group after the other.
    group_starts : (len(groups) + 1,) intp ndarray
        Place of the first row of each group in `grouped_rows`, and R.

    Raises
    ------
    DataError
        Two rows of one link group have different classes.

    Examples
    --------
    >>> from expfam.model.known import Known
    >>> known = Known([0, -1, 1, -1, -1], links=[-1, 7, -1, 7, -1])
    >>> known.free.tolist(), [group.tolist() for group in known.groups]
    ([4], [[1, 3]])
    """

    def __init__(
        self,
        classes: npt.ArrayLike | None = None,
        kind: Literal["clusters", "classes"] = "clusters",
        *,
        links: npt.ArrayLike | None = None,
        n_classes: int | None = None,
        class_names: npt.ArrayLike | None = None,
    ) -> None:
        check_value("labels", kind, KINDS)
        if classes is None and links is None:
            raise ValueError("nothing is known: give classes, links or both")
        self.kind = kind
        self.class_names = None if class_names is None else np.asarray(class_names)
        self.links = None if links is None else _checked(links, "links")
        self.classes = None if classes is None else _checked(classes, "y")
        known = self.classes if self.classes is not None else self.links
        self.n_rows = len(known)  # type: ignore[arg-type]
        if self.links is not None and self.classes is not None:
            if len(self.links) != len(self.classes):
                raise DataError(f"y has {counted(len(self.classes), 'row')}, links {len(self.links)}")
            self.classes = self._spread()
        self.n_classes = max(n_classes or 0, 0 if self.classes is None else int(self.classes.max(initial=-1)) + 1)
        held = np.zeros(self.n_rows, dtype=bool)
        if self.classes is not None and self.fixes_rows:
            held |= self.classes >= 0
        self.groups = []
        if self.links is not None:
            for rows in _groups_of(self.links):
                if len(rows) > 1 and not held[rows[0]]:
                    self.groups.append(rows)
                    held[rows] = True
        self.free = np.flatnonzero(~held)
        self.grouped_rows = np.concatenate([*self.groups, np.empty(0, dtype=np.intp)]).astype(np.intp)
        self.group_starts = np.cumsum([0, *map(len, self.groups)], dtype=np.intp)

    @property
    def fixes_rows(self) -> bool:
        """Return whether known rows never move."""
        return self.classes is not None and self.kind == "clusters"

    @property
    def masks_rows(self) -> bool:
        """Return whether known rows move among the clusters of their class."""
        return self.classes is not None and self.kind == "classes" and self.n_classes > 0

    @property
    def needs(self) -> list[str]:
        """Return what a kernel must take: "clusters" or "classes", and "links"."""
        return ([self.kind] if self.classes is not None else []) + (["links"] if self.groups else [])

    @property
    def stays(self) -> npt.NDArray[np.bool_]:
        """Return which rows may not change their cluster by themselves: known ones and linked ones."""
        stays = np.ones(self.n_rows, dtype=bool)
        stays[self.free] = False
        return stays if self.classes is None else stays | (self.classes >= 0)

    def part(self, rows: npt.NDArray[np.integer]) -> Known:
        """Return what is known of some of the rows."""
        classes = None if self.classes is None else self.classes[rows]
        links = None if self.links is None else self.links[rows]
        return Known(classes, self.kind, links=links, n_classes=self.n_classes, class_names=self.class_names)

    def _class_of(self, row):
        """Return the name of the class of a known row, or its number, as text."""
        place = int(self.classes[row])
        is_named = self.class_names is not None and place < len(self.class_names)
        return repr(self.class_names[place : place + 1].tolist()[0]) if is_named else str(place)

    def _spread(self):
        """Give the rows of a link group the class of its known rows; refuse two classes."""
        classes, links = self.classes.copy(), self.links
        known = np.flatnonzero((links >= 0) & (classes >= 0))
        pair = _first_pair(links[known], classes[known], known)
        if pair:
            classes_of_pair = " and ".join(map(self._class_of, pair))
            raise DataError(
                f"rows {pair[0]} and {pair[1]} are linked, and are of the classes {classes_of_pair}: write"
                f" links[{pair[1]}] = -1, or give both the same class in y"
            )
        of_group = np.full(int(links.max(initial=-1)) + 2, -1, dtype=np.int32)
        of_group[links[known]] = classes[known]
        return np.where(classes < 0, of_group[links], classes).astype(np.int32)  # links of -1 read the last place

    # ---- partitions --------------------------------------------------------------------------------------------------

    def agrees(self, labels: npt.ArrayLike) -> bool:
        """Return whether a partition agrees with all that is known."""
        return self.fault(labels) is None

    def fault(self, labels: npt.ArrayLike) -> str | None:
        """Return in words which two rows a partition has wrong; None if it agrees."""
        labels = np.asarray(labels)
        if self.links is not None:
            linked = np.flatnonzero(self.links >= 0)
            apart = _first_pair(self.links[linked], labels[linked], linked)
            if apart:
                return f"rows {apart[0]} and {apart[1]} are linked and lie in two clusters"
        if self.classes is None:
            return None
        known = np.flatnonzero(self.classes >= 0)
        mixed = _first_pair(labels[known], self.classes[known], known)
        if mixed:
            names = f"{self._class_of(mixed[0])} and {self._class_of(mixed[1])}"
            return f"rows {mixed[0]} and {mixed[1]} are of two classes, {names}, and lie in one cluster"
        apart = _first_pair(self.classes[known], labels[known], known) if self.fixes_rows else None
        if apart is None:
            return None
        return f"rows {apart[0]} and {apart[1]} are of one class, {self._class_of(apart[0])}, and lie in two clusters"

    def agreeing(self, labels: npt.ArrayLike, *, limit: int | None = None) -> npt.NDArray[np.int32]:
        """Return labels near to the given ones that agree with what is known.

        Each class takes the cluster that suits most of its known rows, no two the same one; with kind "classes" the
        other clusters take the class of most of their known rows. Known rows move to a cluster of their class, and link
        groups to the cluster of most of their rows.

        Parameters
        ----------
        labels : (N,) array_like of non-negative int
        limit : int, optional
            Most clusters. Where classes need new clusters beyond it, the smallest clusters without a class are joined
            to the largest cluster.

        Returns
        -------
        (N,) int32 ndarray
            Renumbered by first appearance.
        """
        n_clusters, near = by_first_appearance(labels)
        if self.classes is not None and (self.classes >= 0).any():
            near = self._with_classes(near, n_clusters, limit)
        for rows in self.groups:  # known ones lie in clusters of their class already
            found, counts = np.unique(near[rows], return_counts=True)
            near[rows] = found[counts.argmax()]
        return by_first_appearance(near)[1]

    def numbered_by_class(self, labels: npt.NDArray[np.int32], n_clusters: int = 0) -> npt.NDArray[np.int32]:
        """Return labels in which cluster j is that of class j, where a class is one cluster.

        Parameters
        ----------
        labels : (N,) int32 ndarray
            They agree with what is known.
        n_clusters : int
            Number of clusters, where some may be empty; classes without a row then take empty ones if they can.

        Returns
        -------
        (N,) int32 ndarray
            Other clusters follow in the order of their numbers.
        """
        if self.classes is None or not self.fixes_rows:
            return labels
        number = np.full(max(int(labels.max()) + 1, n_clusters, self.n_classes), -1, dtype=np.int32)
        rows = np.flatnonzero(self.classes >= 0)
        number[labels[rows]] = self.classes[rows]
        left = np.setdiff1d(np.arange(len(number), dtype=np.int32), number)
        first = np.searchsorted(left, self.n_classes)
        number[number < 0] = np.concatenate([left[first:], left[:first]])
        return number[labels]

    def _with_classes(self, labels, n_clusters, limit):
        known = np.flatnonzero(self.classes >= 0)
        present, classes_of_rows = np.unique(self.classes[known], return_inverse=True)
        C = len(present)
        limit = None if limit is None else limit - (self.n_classes - C)  # other classes need clusters later
        counts = np.zeros((max(n_clusters, C), C))
        np.add.at(counts, (labels[known], classes_of_rows), 1.0)
        home = np.empty(C, dtype=np.int32)
        clusters, classes = linear_sum_assignment(counts, maximize=True)
        home[classes] = clusters
        of_cluster = np.where(counts.max(axis=1) > 0, counts.argmax(axis=1), -1)
        if self.fixes_rows:
            of_cluster[:] = -1
        of_cluster[home] = np.arange(C)
        stays = of_cluster[labels[known]] == classes_of_rows
        labels[known] = np.where(stays, labels[known], home[classes_of_rows])
        sizes = np.bincount(labels, minlength=len(counts))
        if limit is not None and (sizes > 0).sum() > limit:
            has_class = np.zeros(len(counts), dtype=bool)
            has_class[labels[known]] = True
            spare = np.flatnonzero((sizes > 0) & ~has_class)
            drop = spare[np.argsort(sizes[spare], kind="stable")][: (sizes > 0).sum() - limit]
            sizes[drop] = 0
            labels[np.isin(labels, drop)] = sizes.argmax()
            if (sizes > 0).sum() > limit:  # one cluster a class remains
                of_row = of_cluster[labels]
                labels = np.where(of_row >= 0, home[of_row], home[0])
        return labels


def _checked(values: Any, name: str) -> npt.NDArray[np.int32]:
    found = np.asarray(values)
    if found.ndim != 1 or found.dtype.kind not in "iu":
        hint = _remedy_of_links(found) if name == "links" else ""
        raise DataError(
            f"{name} must be a one-dimensional array of integers, -1 for rows that are not known; got"
            f" {found.dtype} of shape {found.shape}{hint}"
        )
    bad = np.flatnonzero(found < -1)
    if bad.size:
        raise DataError(f"{name} must be at least -1; row {bad[0]} holds {found[bad[0]]}")
    result = np.full(len(found), -1, dtype=np.int32)
    if name == "links":  # any numbers: users take ids of their own
        result[found >= 0] = by_first_appearance(found[found >= 0])[1] if (found >= 0).any() else -1
    else:
        result[:] = found
    return result


def _remedy_of_links(found):
    """Return the line that makes links of what was given in their place."""
    if found.ndim == 2:
        return ": of pairs, use link_groups: write links=link_groups(pairs, n_rows=X.shape[0])"
    if found.ndim == 1 and found.dtype.kind in "OUS":
        return ": of names, write links=pandas.factorize(links)[0], which makes missing ones -1"
    if found.ndim == 1 and found.dtype.kind == "f" and (np.isnan(found) | (found == np.floor(found))).all():
        return ": of whole numbers and NaN, write links=np.nan_to_num(np.asarray(links, float), nan=-1).astype(int)"
    return ": of pairs of rows, use link_groups(pairs, n_rows)"


def _groups_of(links):
    """Return the rows of each link group, in the order of their numbers."""
    linked = np.flatnonzero(links >= 0)
    order = linked[np.argsort(links[linked], kind="stable")]
    return np.split(order, np.flatnonzero(np.diff(links[order])) + 1) if len(order) else []


def _first_pair(keys, values, rows):
    """Return the first two rows with equal keys and different values, or None."""
    if not len(keys):
        return None
    order = np.argsort(keys, kind="stable")
    starts = np.flatnonzero(np.diff(keys[order], prepend=-2))
    first = np.repeat(order[starts], np.diff(np.append(starts, len(order))))
    wrong = np.flatnonzero(values[order] != values[first])
    if not wrong.size:
        return None
    at = wrong[np.argmin(rows[order[wrong]])]
    return int(rows[first[at]]), int(rows[order[at]])
