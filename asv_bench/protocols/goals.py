"""What a row of a table must reach: the arithmetic of goals over the figures of some seeds, without any fit."""

import operator
import statistics
from typing import NamedTuple

RELATIONS = {">=": operator.ge, ">": operator.gt, "<=": operator.le, "==": operator.eq}
NAMES = {
    "nmi": "NMI",
    "ari": "ARI",
    "nats": "nats",
    "clusters": "clusters",
    "seconds": "CPU s",
    "same": "= predict",
    "vi": "VI",
    "warns": "warns",
}


class Goal(NamedTuple):
    """A bound of a figure: a number, or a number added to the rival's figure or times it."""

    figure: str
    relation: str
    bound: float
    rival: str | None = None  # "plus" or "times"
    is_each: bool = False  # of each seed, in place of the mean
    reason: str = ""  # evidence that it is out of reach, if it is

    def __str__(self):
        if self.figure in ("same", "warns"):
            return NAMES[self.figure]
        margin = {None: f"{self.bound:g}", "plus": "sk" + (f" {self.bound:+g}" if self.bound else "")}
        margin["times"] = f"{self.bound:g} sk"
        return f"{NAMES[self.figure]} {self.relation} {margin[self.rival]}{' each' if self.is_each else ''}"

    def is_reached(self, ours, theirs):
        """Tell whether the figures of all seeds, ours and the rival's, reach the goal; a figure that lacks does not."""
        found = [row[self.figure] for row in ours] if self.is_each else [mean(ours, self.figure)]
        bound = self.bound
        if self.rival:
            beside = mean(theirs, self.figure)
            if beside is None:
                return False
            bound = beside + bound if self.rival == "plus" else beside * bound
        return all(value is not None and RELATIONS[self.relation](value, bound) for value in found)


def mean(figures, name):
    """Mean of a figure over seeds, of seconds the median; None where a seed has none."""
    values = [row.get(name) for row in figures]
    if not values or None in values:
        return None
    return float((statistics.median if name == "seconds" else statistics.mean)(values))


def missed(goals, ours, theirs):
    """Goals that are not reached."""
    return [goal for goal in goals if not goal.is_reached(ours, theirs)]


def outcome(goals, ours, theirs):
    """What the last column of the table says."""
    if not goals:
        return "no goal"
    bad = missed(goals, ours, theirs)
    open_ones = [goal for goal in bad if not goal.reason]
    if open_ones or not bad:
        return f"NO: {', '.join(map(str, open_ones))}" if bad else "yes"
    return "not reached: " + "; ".join(f"{goal}: {goal.reason}" for goal in bad)


def excess(value, other):
    """By how much a value exceeds 1.02 times the other; negative where it does not."""
    return value - 1.02 * other
