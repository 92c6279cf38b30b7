"""Means over sweeps of a sampler: which sweeps count."""

from __future__ import annotations

from typing import Any

_EVERY = 4  # sweeps from one that counts to the next


class FourthSweeps:
    """Callback that keeps every fourth state; `add` says what is kept of it.

    Attributes
    ----------
    n_seen, n_kept : int
        States so far, and those that were kept.
    """

    def __init__(self) -> None:
        self.n_kept = self.n_seen = 0

    def __call__(self, info: Any, state: Any) -> bool:
        """Keep every fourth state; never end the run."""
        self.n_seen += 1
        if self.n_seen % _EVERY == 0:
            self.keep(state)
        return False

    def keep(self, state: Any) -> None:
        """Add a state to the sums, and count it."""
        self.add(state)
        self.n_kept += 1

    def add(self, state: Any) -> None:
        """Add a state to the sums."""
        raise NotImplementedError

    def keep_one(self, state: Any) -> None:
        """Keep the last state where no sweep was kept."""
        if self.n_kept == 0:
            self.keep(state)
