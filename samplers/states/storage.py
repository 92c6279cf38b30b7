"""Mixin for states that cannot be converted to another state type."""

from __future__ import annotations

from typing import Any, NoReturn

from expfam.errors import CapabilityError


class UnsharedState:
    """Mixin for states that cannot be converted to another state type.

    Attributes
    ----------
    way_on : str
        Expression, for error messages, with which the chain of another kernel can start from this state.
    """

    way_on = "state.labels"

    def take(self, other: Any) -> NoReturn:
        """Raise a `CapabilityError`: no state of another type can be converted to this one."""
        raise CapabilityError(f"a {type(self).__name__} cannot be combined with states of other types in one chain")

    def as_type(self, state_type: type) -> Any:
        """Return this state; raise a `CapabilityError` for another type."""
        if state_type is type(self):
            return self
        raise CapabilityError(
            f"a {type(self).__name__} cannot become a {state_type.__name__}: begin one with start={self.way_on}"
        )
