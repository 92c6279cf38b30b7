"""Angles: columns on a circle, in degrees, in radians or in another unit."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from expfam.errors import DataError
from expfam.families.columns.kinds.contract import ColumnKind
from expfam.families.columns.kinds.laws import CellLaw
from expfam.families.directions.von_mises import turn_of
from expfam.families.directions.von_mises_fisher import mean_length
from expfam.frames.names import keyword

if TYPE_CHECKING:
    import numpy.typing as npt

    from expfam.frames.frame import Column
    from expfam.protocols import Floats

_TURN = 2.0 * np.pi * (1.0 + 1e-6)  # radians of one turn, rounded as people write them


class Angle(ColumnKind):
    """Numbers on a circle, such as directions of wind.

    The unit is a setting of the role: "degrees", "radians", "hours", or how many units make a full turn. A column that
    was only called an angle is in degrees if a value is beyond one turn in radians; else its unit must be given.

    >>> import pandas as pd
    >>> from expfam import Columns
    >>> df = pd.DataFrame({"wind": [350.0, 10.0, None, 170.0], "speed": [1.5, 2.0, 1.0, -0.5]})
    >>> Columns.from_frame(df, wind="angle").roles[0]["settings"]
    {'unit': 'degrees'}
    """

    name = "angle"
    families = ("von_mises",)
    default_family = "von_mises"
    settings = ("unit",)
    shares_parts = False  # components of one column are compiled
    words = {"degrees": {"unit": "degrees"}, "radians": {"unit": "radians"}}  # noqa: RUF012

    def complete(self, column: Column, wish: Any, check: Any) -> Any:
        """Return the role with its unit; refuse a column whose unit cannot be told."""
        if "unit" not in wish.settings:
            present = column.present.astype(np.float64)
            if np.abs(present).max() <= _TURN:
                low, high = float(present.min()), float(present.max())
                raise DataError(
                    f"column {column.name!r} is an angle, and its values from {low:g} to {high:g} may be degrees or"
                    f" radians: give {keyword(column.name, 'degrees')} or {keyword(column.name, 'radians')}"
                )
            wish = replace(wish, settings={**wish.settings, "unit": "degrees"})
        check(wish)
        return wish

    def decode(self, role: Any, values: npt.NDArray[Any], gone: npt.NDArray[np.bool_], *, whole: bool) -> Any:
        """Return angles; whole ones of integer columns stay below a full turn."""
        if whole and role.type == "integer":
            values = np.mod(np.rint(values.astype(np.float64)), turn_of(role.settings.get("unit", "degrees")))
        return super().decode(role, values, gone, whole=whole)

    def laws(self, family: Any, n: Floats, S: Any, *, has_missing_level: bool) -> list[CellLaw]:
        """Return mean angle, spread and length of the mean point of each column in each cluster."""
        params = family.to_params(*family.map_natural(n, S))
        mean, sd, length = params["mean"], params["sd"], mean_length(2, params["kappa"])
        return [
            CellLaw(mean[:, j], sd[:, j], mean[:, j], turn=family.turn, length=length[:, j])
            for j in range(mean.shape[1])
        ]
