"""Tables in parts: frames with text, dates and holes, which are encoded where they lie.

The roles of the columns and the levels of categories are found from summaries of all parts, so they are those of the
whole frame.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from expfam.engines.base import Engine
from expfam.engines.parts import Least, Part, cut_rows
from expfam.families.columns.family import Columns
from expfam.families.columns.kinds.registry import kind_of
from expfam.families.columns.roles import Roles
from expfam.families.gaussian.diagonal import DiagonalGaussian
from expfam.families.weighing import checked_weight
from expfam.frames.column_summaries import FrameSummary
from expfam.frames.frame import as_frame
from expfam.frames.names import rows_from
from expfam.frames.numbers import numbers_of_frame
from expfam.samplers.shards.data import ShardedData
from expfam.samplers.shards.shard import Shard, WeightedRows


class TableShard(Shard):
    """Rows of a frame in a part, and the labels that a chain gives them.

    Engines ask it by the names of its methods. Beside those of `Shard`, `encode` and `widen` change it.

    Parameters
    ----------
    X : frame, or WeightedRows of one
    first_row : int
        Global number of the first row.

    Examples
    --------
    >>> import pandas as pd
    >>> from expfam.samplers.shards.table import TableShard
    >>> shard = TableShard(pd.DataFrame({"kind": ["b", "a"]}), 10)
    >>> shard.encode([{"column": "kind", "role": "category", "family": "categorical", "levels": ["a", "b"]}])
    >>> shard.X.tolist()
    [[1.0], [0.0]]
    """

    def __init__(self, X: Any, first_row: int) -> None:
        X, weight = X if isinstance(X, WeightedRows) else (X, None)
        self.frame, self.X, self.first_row, self.weight = X, None, int(first_row), None
        self.roles: Any = None
        if weight is not None:
            self.weight = checked_weight(weight, len(X), first_row=self.first_row, is_part=True)

    def real_columns(self) -> Least:
        """Return what tells whether all columns are real numbers without holes.

        It is 1 if all cells are floats; 1 if all are 0 or 1; the least cell; and the largest one, times -1.
        """
        frame = as_frame(self.frame)
        if not frame.is_plain():
            return Least(np.zeros(4))
        columns = [frame.column(name).values for name in frame.names]
        are_binary = all(((values == 0) | (values == 1)).all() for values in columns)
        low, high = min(values.min() for values in columns), max(values.max() for values in columns)
        return Least(np.array([1.0, are_binary, low, -high]))

    def summary(self) -> FrameSummary:
        """Return the summaries of the columns."""
        return FrameSummary.of(self.frame, self.first_row)

    def encode(self, roles: Sequence[Mapping[str, Any]] | None) -> None:
        """Make numbers of the cells: by the roles of the columns, or as they are."""
        with rows_from(self.first_row):
            if roles is None:
                self.X = numbers_of_frame(as_frame(self.frame), of_fit=True)
            else:
                self.X = Roles(roles).encode(self.frame)
        self.frame, self.roles = None, roles

    def is_wide(self) -> npt.NDArray[np.bool_]:
        """Return whether the numbers need double precision."""
        return np.array(self.X.dtype != np.float32)

    def widen(self) -> None:
        """Keep the numbers in double precision, as other parts do."""
        self.X = self.X.astype(np.float64)

    # ---- loss and resumption -----------------------------------------------------------------------------------------

    def saved(self) -> dict[str, Any]:
        """Return all that the rows do not hold."""
        return super().saved() | {"roles": self.roles, "is_wide": bool(self.is_wide())}

    def restore(self, saved: dict[str, Any]) -> None:
        """Bring a new shard of the same rows to where another one was saved."""
        self.encode(saved["roles"])
        if saved["is_wide"]:
            self.widen()
        super().restore(saved)


class TableParts(ShardedData):
    """Rows of a frame that stay where an engine has put them.

    Parameters
    ----------
    parts : iterable of Part, or frame
        Sources of parts are frames; a frame is cut into `n_parts`.
    family : Columns, optional
        With roles, as `Columns.from_frame` and `columns_of_parts` return it. If not given, the roles of the columns are
        found from all parts; real columns alone, without holes, are a `DiagonalGaussian`.
    engine : Engine, optional
        `SerialEngine` if not given.
    n_parts : int

    Attributes
    ----------
    engine, family, n_rows, n_features, n_statistics, scale
        As of `ShardedData`.
    asked_family : Family
        The family before it was bound.

    Warns
    -----
    DataWarning
        Names columns that are left out, as `Columns.from_frame` does.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from expfam import MixtureModel, SymmetricDirichlet
    >>> from expfam.samplers import UncollapsedGibbs, sample
    >>> from expfam.samplers.shards.table import TableParts
    >>> df = pd.DataFrame({"job": ["cook", "nurse", None] * 400, "age": [31.5, -1.0, 70.1] * 400})
    >>> def labels_of(n_parts):
    ...     data, kernel = TableParts(df, n_parts=n_parts), UncollapsedGibbs()
    ...     state = kernel.init(MixtureModel(data.family, SymmetricDirichlet(5)), data, seed=0)
    ...     trace = sample(kernel, state, 10)
    ...     return state.labels
    >>> bool((labels_of(1) == labels_of(2)).all())
    True
    """

    shard_type = TableShard

    def __init__(
        self, parts: Iterable[Part] | Any, family: Any = None, *, engine: Engine | None = None, n_parts: int = 1
    ) -> None:
        super().__init__(_cut(parts, n_parts) if hasattr(parts, "shape") else parts, family, engine=engine)

    def _placed(self, family: Any) -> Any:
        """Encode the frames of all parts; return the family of their columns."""
        if family is None:
            family = _family_of_parts(self.engine)
        self.asked_family = family
        self.engine.change("encode", getattr(family, "roles", None))
        if self.engine.total("is_wide"):
            self.engine.change("widen")
        return family


def columns_of_parts(engine: Engine, **settings: Any) -> Columns:
    """Return the family of frames in an engine, as `Columns.from_frame` does of a frame.

    Parameters
    ----------
    engine : Engine
        It has placed parts as `TableShard`.
    **settings
        Those of `Columns.from_frame`.

    Examples
    --------
    >>> import pandas as pd
    >>> from expfam.engines import Part, SerialEngine
    >>> from expfam.samplers.shards.table import TableShard, columns_of_parts
    >>> engine = SerialEngine()
    >>> frames = [pd.DataFrame({"kind": kinds}) for kinds in (["b", "c"], ["a", "a"])]
    >>> engine.place([Part(0, 2, frames[0]), Part(2, 2, frames[1])], TableShard)
    >>> columns_of_parts(engine).roles[0]["levels"]
    ['a', 'b', 'c']
    """
    summary = engine.total("summary")
    with summary.true_rows():
        family = Columns.from_frame(summary.frame(), **settings)
    named = [role["column"] for role in family.roles if role["role"] != "dropped" and kind_of(role["role"]).has_levels]
    summary.refuse_cut_levels(named)
    return family


def _family_of_parts(engine):
    """Return the family with which a fit of the whole frame without a family begins."""
    is_plain, is_binary, low, high = engine.total("real_columns").values * [1, 1, 1, -1]
    if is_plain and not (is_binary and low < high):
        return DiagonalGaussian()
    return columns_of_parts(engine)


def _cut(frame, n_parts):
    """Cut a frame into parts of about equal size."""
    rows = frame.iloc if hasattr(frame, "iloc") else frame
    bounds = cut_rows(np.empty((int(frame.shape[0]), 0)), n_parts)
    if hasattr(frame, "slice"):
        return [part._replace(source=frame.slice(part.first_row, part.n_rows)) for part in bounds]
    return [part._replace(source=rows[part.first_row : part.first_row + part.n_rows]) for part in bounds]
