"""The first chunks, kept until they have the rows that a start needs.

A start from a few rows is poor, and passes hardly mend it. So learning begins again from a start among all kept rows
each time these have grown by half, and the chunks are let go when their rows suffice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import sparse

from expfam.model.groups import Groups, as_groups

if TYPE_CHECKING:
    from collections.abc import Sequence

_GROWTH = 1.5


class Chunk(NamedTuple):
    """Rows of a chunk, options of their `Dataset`, and the name under which they were learned."""

    X: Any
    options: dict[str, Any]
    name: int | str | None = None

    @property
    def n_rows(self) -> int:
        """Return the number of rows."""
        return int(self.X.shape[0])


class KeptChunks:
    """First chunks of a stream.

    Parameters
    ----------
    n_needed : int
        Rows from which on no more are kept.
    first : Chunk
        It has given a start already.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.fitting.kept_chunks import Chunk, KeptChunks
    >>> kept = KeptChunks(5, Chunk(np.zeros((2, 1)), {}))
    >>> kept.add(Chunk(np.ones((1, 1)), {}))
    >>> kept.is_due, kept.is_complete
    (True, False)
    """

    def __init__(self, n_needed: int, first: Chunk) -> None:
        self.n_needed, self.n_started = n_needed, first.n_rows
        self.chunks = [_copied(first)] if first.n_rows < n_needed else [first]

    def add(self, chunk: Chunk) -> None:
        """Keep one more chunk; it replaces an earlier one of its name."""
        names = [None if each.name is None else str(each.name) for each in self.chunks]
        if chunk.name is not None and str(chunk.name) in names:
            self.chunks[names.index(str(chunk.name))] = _copied(chunk)
        else:
            self.chunks.append(_copied(chunk))

    @property
    def n_rows(self) -> int:
        """Return the number of rows of all chunks."""
        return sum(chunk.n_rows for chunk in self.chunks)

    @property
    def is_complete(self) -> bool:
        """Tell whether the rows suffice for a start."""
        return self.n_rows >= self.n_needed

    @property
    def is_due(self) -> bool:
        """Tell whether the rows have grown enough for another start."""
        grown = min(_GROWTH * self.n_started, self.n_needed)
        return self.n_rows > self.n_started and self.n_rows >= grown

    def joined(self) -> Chunk:
        """Return the rows of all chunks as one, which is a start's sample from now on."""
        self.n_started = self.n_rows
        return joined_chunks(self.chunks)


def joined_chunks(chunks: Sequence[Chunk]) -> Chunk:
    """Return the rows of some chunks as one chunk, with groups numbered one after the other.

    Chunks are dense, or all of them are sparse.
    """
    if len(chunks) == 1:
        return chunks[0]
    parts = [chunk.X for chunk in chunks]
    X = sparse.vstack(parts, format="csr") if sparse.issparse(parts[0]) else np.concatenate(parts)
    options: dict[str, Any] = {"weight": _joined_weights(chunks)}
    if "groups" in chunks[0].options:
        options["groups"] = _joined_groups(chunks)
    return Chunk(X, options)


def complete_rows(chunk: Chunk) -> Chunk:
    """Return the rows of a chunk that lack no cell, to which any family can be bound."""
    if sparse.issparse(chunk.X) or chunk.X.dtype.kind != "f" or not (lacks := np.isnan(chunk.X).any(axis=1)).any():
        return chunk
    options = dict(chunk.options)
    if options.get("weight") is not None:
        options["weight"] = np.asarray(options["weight"])[~lacks]
    if options.get("groups") is not None:
        groups = as_groups(options["groups"], chunk.n_rows)
        options["groups"] = Groups(groups.of_row[~lacks], n_groups=groups.n_groups)
    return chunk._replace(X=chunk.X[~lacks], options=options)


def _joined_weights(chunks):
    weights = [chunk.options.get("weight") for chunk in chunks]
    if all(weight is None for weight in weights):
        return None
    filled = [np.ones(chunk.n_rows) if weight is None else weight for chunk, weight in zip(chunks, weights)]
    return np.concatenate([np.asarray(weight, dtype=np.float64) for weight in filled])


def _joined_groups(chunks):
    first, numbers = 0, []
    for chunk in chunks:
        groups = as_groups(chunk.options["groups"], chunk.n_rows)
        numbers.append(groups.of_row + first)
        first += groups.n_groups
    return Groups(np.concatenate(numbers), n_groups=first)


def _copied(chunk):
    """Return a chunk whose arrays nobody else changes."""
    options = {name: value.copy() if isinstance(value, np.ndarray) else value for name, value in chunk.options.items()}
    return chunk._replace(X=chunk.X.copy(), options=options)
