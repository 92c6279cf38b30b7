"""Units that an admixture clusters: tokens of documents, or rows in groups.

A check needs the same of both: units of the user's data that lie near each other, groups of units as large as the
user's, values drawn from the model, the log evidence of clusters, and the data that a kernel reads.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.special import gammaln, psi

from expfam.evaluation.quantities import coordinates
from expfam.families.support import dense_rows
from expfam.model.admixture import AdmixtureModel
from expfam.model.data import Dataset
from expfam.model.grouped_simulation import MOST_STATES, draw_words, link_blocks
from expfam.model.groups import Groups
from expfam.model.known import Known
from expfam.model.simulation import draw_rows

_OF_A_GROUP = 3  # units of one group among few units
_CANDIDATES = 1000  # rows among which near ones are looked for


@dataclass(frozen=True)
class Units:
    """Units to cluster, in any order.

    Attributes
    ----------
    groups : (N,) intp ndarray
        Group of each unit, or document of each token, from 0 on.
    values : (N,) intp ndarray or (N, V) matrix or None
        Words or rows; None before they are drawn.
    links : (N,) int ndarray or None
    """

    groups: npt.NDArray[np.intp]
    values: Any = None
    links: npt.NDArray[np.integer] | None = None

    @property
    def blocks(self) -> list[npt.NDArray[np.intp]]:
        """Return the units that move as one: link groups first, then each free unit."""
        linked = [] if self.links is None else link_blocks(self.links)
        is_linked = np.zeros(len(self.groups), dtype=bool)
        for rows in linked:
            is_linked[rows] = True
        return [*linked, *np.flatnonzero(~is_linked)[:, None]]

    def __len__(self) -> int:
        return len(self.groups)


class TokenUnits:
    """Tokens of the documents of the user.

    Parameters
    ----------
    X : (D, V) CSR
        Whole counts.
    """

    noun, group = "tokens", "documents"

    def __init__(self, X: Any) -> None:
        self.X = sparse.csr_array(X)
        self._columns = self.X.tocsc()
        self._lengths = np.asarray(self.X.sum(axis=1)).ravel().astype(np.int64)
        self.n_units = int(self._lengths.sum())

    def near(self, n_units: int, rng: np.random.Generator) -> Units:
        """Return some tokens of documents that share words.

        Parameters
        ----------
        n_units : int
            Largest number of tokens.
        rng : numpy Generator
        """
        doc = int(rng.choice(len(self._lengths), p=self._lengths / self.n_units))
        words = self._some(doc, _OF_A_GROUP, rng)
        found, docs = [(doc, word) for word in words], [doc]
        with_word = self._columns.indices[self._columns.indptr[words[0]] : self._columns.indptr[words[0] + 1]]
        others = [*rng.permutation(with_word), *rng.permutation(np.flatnonzero(self._lengths))[:n_units]]
        for other in dict.fromkeys(map(int, others)):
            if other in docs or len(found) >= n_units:
                continue
            docs.append(other)
            more = self._some(other, min(_OF_A_GROUP, n_units - len(found)), rng, first=words[0])
            found += [(other, word) for word in more]
        docs_of, words_of = np.array(found).T
        return Units(np.unique(docs_of, return_inverse=True)[1].astype(np.intp), words_of.astype(np.intp))

    def _some(self, doc, n, rng, first=None):
        """Return words of some tokens of a document; one is `first` if the document has it."""
        row = slice(self.X.indptr[doc], self.X.indptr[doc + 1])
        tokens = np.repeat(self.X.indices[row], self.X.data[row].astype(np.int64))
        tokens = rng.permutation(tokens)
        if first is not None:
            tokens = tokens[np.argsort(tokens != first, kind="stable")]
        return tokens[:n].tolist()

    def design(self, n_units: int, rng: np.random.Generator, *, one_link: bool = False) -> Units:
        """Return tokens without words: documents as long as those of the user.

        Parameters
        ----------
        n_units : int
            Number of tokens.
        rng : numpy Generator
        one_link : bool
            It is there for the same call as of `RowUnits`.
        """
        return Units(_groups_of_sizes(rng.permutation(self._lengths[self._lengths > 0]), n_units))

    def draw_values(self, model: Any, labels: Any, rng: np.random.Generator, given: Any = None) -> Any:
        """Draw the words of tokens; those of the first ones may be given.

        Parameters
        ----------
        model : AdmixtureModel
        labels : (N,) int32 ndarray
            Topic of each token.
        rng : numpy Generator
        given : (m,) int ndarray, optional
            Words of the first m tokens.

        Returns
        -------
        (N,) intp ndarray
        """
        return draw_words(
            model.family.pseudocounts()[0], labels, rng, seeds=model.seeds, given=() if given is None else given
        )

    def data(self, model: Any, units: Units, labels: npt.NDArray[np.int32]) -> tuple[Dataset, Units, Any]:
        """Return the documents, the tokens in the order of a chain, and their topics.

        Parameters
        ----------
        model : AdmixtureModel
        units : Units
            Tokens with words.
        labels : (N,) int32 ndarray
            Topic of each token.
        """
        order = np.lexsort((units.groups, units.values))  # by word, and within a word by document
        units = Units(units.groups[order], units.values[order])
        shape = (int(units.groups.max()) + 1, model.family.n_features_in_)
        X = sparse.csr_array((np.ones(len(units)), (units.groups, units.values)), shape=shape)
        X.sum_duplicates()
        return Dataset(X, model.family), units, labels[order]

    def log_evidence(self, model: Any, units: Units, labels: npt.NDArray[np.integer]) -> npt.NDArray[np.float64]:
        """Compute the log evidence of the words under (T, N) topics: (T,) nats."""
        _, prior, counts, sizes, of_row = self._counts(model, units, labels)
        found = np.zeros(len(labels))
        np.add.at(found, of_row, gammaln(prior + counts) - gammaln(prior))
        strength = self._strength(model)
        return found - (gammaln(strength + sizes) - gammaln(strength)).sum(axis=1)

    def slope(self, model: Any, units: Units, labels: npt.NDArray[np.integer]) -> npt.NDArray[np.float64]:
        """Compute the derivative of the log evidence by the logarithm of eta: (T,)."""
        eta, prior, counts, sizes, of_row = self._counts(model, units, labels)
        found = np.zeros(len(labels))
        np.add.at(found, of_row, eta * (psi(prior + counts) - psi(prior)))
        strength, total = self._strength(model), model.family.pseudocounts()[0].sum()
        return found - total * (psi(strength + sizes) - psi(strength)).sum(axis=1)

    def _counts(self, model, units, labels):
        """Return eta, prior and count of pairs (topic, word), sizes of topics, and rows of pairs."""
        T, K, V = len(labels), model.n_components, model.family.n_features_in_
        topics = np.arange(T)[:, None] * K + labels
        cells, counts = np.unique(topics * V + units.values, return_counts=True)
        places, words = np.divmod(cells, V)
        eta = model.family.pseudocounts()[0][words]
        seeds = 0.0 if model.seeds is None else np.asarray(model.seeds.tocsr()[words, places % K]).ravel()
        return eta, eta + seeds, counts, np.bincount(topics.ravel(), minlength=T * K).reshape(T, K), places // K

    def _strength(self, model):
        seeded = 0.0 if model.seeds is None else np.asarray(model.seeds.sum(axis=0)).ravel()
        return np.zeros(model.n_components) + model.family.pseudocounts()[0].sum() + seeded


class RowUnits:
    """The rows of the user, in groups, perhaps with links.

    Parameters
    ----------
    data : Dataset
        With groups; what is known of the rows has links alone.
    n_clusters : int
    """

    noun, group = "rows", "groups"

    def __init__(self, data: Dataset, n_clusters: int) -> None:
        self._data, self.n_units = data, data.n_rows
        self._most_links = 2 if n_clusters**2 <= MOST_STATES else 1
        self._groups: Any = data.groups
        self._links = None if data.known is None else data.known.links
        self._near = coordinates(data.family, data.X[:_CANDIDATES])

    def near(self, n_units: int, rng: np.random.Generator) -> Units:
        """Return some rows near each other, of few groups; of linked rows at least two."""
        first = int(rng.integers(len(self._near)))
        linked = self._linked(1, _OF_A_GROUP, rng)
        chosen = [*linked] or [first]
        n_rows = n_units + max(0, len(linked) - 1)
        order = self._order(chosen, rng)
        for most in (_OF_A_GROUP, n_rows):  # of a group; more where there are few groups
            for group in order:
                own = int((self._groups.of_row[chosen] == group).sum())
                room = min(most - own, n_rows - len(chosen))
                chosen += self._nearest(np.setdiff1d(self._rows(group), chosen), first, rng)[: max(0, room)]
        rows = rng.permutation(chosen)
        return replace(self._units(rows), values=self._data.X[rows])

    def design(self, n_units: int, rng: np.random.Generator, *, one_link: bool = False) -> Units:
        """Return rows without values: groups and links like the user's, or one link of two rows."""
        chosen = self._linked(*((1, 2) if one_link else (self._most_links, max(2, n_units // 6))), rng)
        most = len(chosen)
        for group in self._order(chosen, rng):
            if len(chosen) >= n_units:
                break
            rows = rng.permutation(np.setdiff1d(self._rows(group), chosen))
            chosen += rows[: min(-(-n_units // 3), n_units - len(chosen))].tolist()
        units = self._units(np.array(chosen[:n_units]))
        # rows that fill the groups are free, whatever their links: link groups would be too many to list
        return (
            units
            if units.links is None
            else replace(units, links=np.where(np.arange(len(units)) < most, units.links, -1))
        )

    def _nearest(self, rows, first, rng):
        """Return rows by their distance to a row; those that are no candidates come last."""
        rows = rng.permutation(rows)
        distance, inside = np.full(rows.size, np.inf), rows < len(self._near)
        distance[inside] = ((self._near[rows[inside]] - self._near[first]) ** 2).sum(axis=1)
        return rows[np.argsort(distance, kind="stable")].tolist()

    def _linked(self, n_groups, n_rows, rng):
        """Return rows of some link groups, at most `n_rows` of each."""
        if self._links is None:
            return []
        blocks = link_blocks(self._links)
        chosen = rng.permutation(len(blocks))[:n_groups]
        return [int(row) for place in chosen for row in rng.permutation(blocks[place])[:n_rows]]

    def _order(self, rows, rng):
        """Return groups with rows, those of some rows first."""
        others = rng.permutation(np.flatnonzero(self._groups.sizes))
        return list(dict.fromkeys([*self._groups.of_row[rows].tolist(), *others.tolist()]))

    def _rows(self, group):
        return self._groups.rows[self._groups.starts[group] : self._groups.starts[group + 1]]

    def _units(self, rows):
        groups = np.unique(self._groups.of_row[rows], return_inverse=True)[1].astype(np.intp)
        return Units(groups, links=None if self._links is None else self._links[rows])

    def draw_values(self, model: Any, labels: Any, rng: np.random.Generator, given: Any = None) -> Any:
        """Draw rows given their clusters; the first ones may be given.

        Parameters
        ----------
        model, labels, rng
            As of `TokenUnits.draw_values`; labels are clusters of rows.
        given : (m, V) ndarray or CSR, optional
            The first m rows.
        """
        return draw_rows(model.family, labels, rng, given=given)

    def data(self, model: Any, units: Units, labels: npt.NDArray[np.int32]) -> tuple[Dataset, Units, Any]:
        """Return the rows with their groups and links, and both arguments as they are."""
        known = None if units.links is None or not link_blocks(units.links) else Known(links=units.links)
        return Dataset(units.values, model.family, groups=Groups(units.groups), known=known), units, labels

    def log_evidence(self, model: Any, units: Units, labels: npt.NDArray[np.integer]) -> npt.NDArray[np.float64]:
        """Compute the log evidence of the rows under (T, N) clusters: (T,) nats."""
        T, N = labels.shape
        used, cells = np.unique(np.arange(T)[:, None] * model.n_components + labels, return_inverse=True)
        cells = cells.ravel()
        members = sparse.csr_array((np.ones(T * N), (cells, np.tile(np.arange(N), T))), shape=(used.size, N))
        phi = dense_rows(model.family.sufficient_statistics(units.values))
        n = np.bincount(cells, minlength=used.size).astype(np.float64)
        found = np.zeros(T)
        np.add.at(found, used // model.n_components, model.family.log_marginal_of_rows(n, members @ phi))
        return found


def log_prior(
    alpha: npt.NDArray[np.float64], groups: npt.NDArray[np.intp], labels: npt.NDArray[np.integer]
) -> npt.NDArray[np.float64]:
    """Compute the log prior of (T, N) clusters of units in groups: (T,) nats.

    Parameters
    ----------
    alpha : (K,) float64 ndarray
        Pseudo-count of each cluster.
    groups : (N,) intp ndarray
        Group of each unit.
    labels : (T, N) int ndarray
    """
    counts = group_counts(groups, labels, alpha.size)
    sizes, total = counts[0].sum(axis=1), alpha.sum()
    inner = (gammaln(alpha + counts) - gammaln(alpha)).sum(axis=(1, 2))
    return np.asarray(inner - (gammaln(total + sizes) - gammaln(total)).sum())


def slope_of_prior(
    alpha: npt.NDArray[np.float64], groups: npt.NDArray[np.intp], labels: npt.NDArray[np.integer]
) -> npt.NDArray[np.float64]:
    """Compute the derivative of the log prior by the logarithm of a factor on alpha: (T,).

    Parameters
    ----------
    alpha, groups, labels
        As in `log_prior`.
    """
    counts = group_counts(groups, labels, alpha.size)
    sizes, total = counts[0].sum(axis=1), alpha.sum()
    inner = (alpha * (psi(alpha + counts) - psi(alpha))).sum(axis=(1, 2))
    return np.asarray(inner - total * (psi(total + sizes) - psi(total)).sum())


def group_counts(
    groups: npt.NDArray[np.intp], labels: npt.NDArray[np.integer], n_clusters: int
) -> npt.NDArray[np.int64]:
    """Count the units of each group in each cluster: (T, G, K) for (T, N) clusters."""
    T, G = len(labels), int(groups.max()) + 1
    cells = (np.arange(T)[:, None] * G + groups) * n_clusters + labels
    return np.bincount(cells.ravel(), minlength=T * G * n_clusters).reshape(T, G, n_clusters)


def _groups_of_sizes(sizes, n_units):
    """Return groups with these sizes until there are `n_units`; none is above a third of them."""
    sizes = np.minimum(np.resize(sizes, n_units), -(-n_units // 3))
    return np.repeat(np.arange(n_units), sizes)[:n_units].astype(np.intp)


def some_clusters(model: AdmixtureModel, n_clusters: int, rng: np.random.Generator) -> AdmixtureModel:
    """Return a model with some of the clusters, at most `n_clusters` of them."""
    if model.n_components <= n_clusters:
        return model
    chosen = np.sort(rng.choice(model.n_components, size=n_clusters, replace=False))
    seeds = None if model.seeds is None else model.seeds.tocsc()[:, chosen]
    return AdmixtureModel(model.family, n_clusters, model.pseudocounts[chosen], seeds)


__all__ = [
    "MOST_STATES",
    "RowUnits",
    "TokenUnits",
    "Units",
    "group_counts",
    "log_prior",
    "slope_of_prior",
    "some_clusters",
]
