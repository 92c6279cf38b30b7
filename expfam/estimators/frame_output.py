"""Results of an estimator as frames of the library that its data are of, or of another one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from sklearn import get_config
from sklearn.base import BaseEstimator

from expfam.families.columns.roles import Roles
from expfam.params import check_value

if TYPE_CHECKING:
    from typing import Self

_OUTPUTS = ("default", "pandas", "polars")


class FrameOutput(BaseEstimator):
    """Base of estimators whose results are frames after the fit of a frame."""

    family_: Any

    def set_output(self, *, transform: Literal["default", "pandas", "polars"] | None = None) -> Self:
        """Choose the kind of frames that results come as.

        Parameters
        ----------
        transform : {"default", "pandas", "polars"} or None
            "default" is the kind of the data: arrays for arrays, frames of the same library for frames. None changes
            nothing. ``sklearn.set_config(transform_output=...)`` says it for all estimators.

        Returns
        -------
        self
        """
        if transform is not None:
            check_value(f"{type(self).__name__}: set_output: transform", transform, _OUTPUTS)
            self._output = transform
        return self

    @property
    def _asked_kind(self):
        """Return the library that the user asked for, or "default"."""
        return self.__dict__.get("_output", get_config().get("transform_output", "default"))

    def _kind(self):
        """Return the library of the frames to return, or None if the fit was one of an array."""
        if self._asked_kind in _OUTPUTS[1:]:
            return self._asked_kind
        has_names = getattr(self.family_, "roles", None) or hasattr(self, "feature_names_in_")
        return self.__dict__.get("_backend", "pandas") if has_names else None

    def _table_roles(self):
        found = getattr(self.family_, "roles", None)
        return Roles(found) if found else None

    def _column_names(self):
        names = getattr(self, "feature_names_in_", None)
        roles = self._table_roles()
        if roles is not None:
            return list(roles.names)
        return [str(j) for j in range(self.n_features_in_)] if names is None else list(map(str, names))  # type: ignore[attr-defined]
