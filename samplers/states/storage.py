"""States of kernels that share a chain with no other: what they hold, no state of another type has."""

from expfam.errors import CapabilityError


class UnsharedState:
    """Base of states that cannot be combined with those of other types.

    Attributes
    ----------
    way_on : str
        What to begin another kernel's chain with.
    """

    way_on = "state.labels"

    def take(self, other):
        """Refused: no other state has what this one holds."""
        raise CapabilityError(f"a {type(self).__name__} cannot be combined with states of other types in one chain")

    def as_type(self, state_type):
        """This state; no other type has what it holds."""
        if state_type is type(self):
            return self
        raise CapabilityError(
            f"a {type(self).__name__} cannot become a {state_type.__name__}: begin one with start={self.way_on}"
        )
