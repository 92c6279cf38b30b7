"""Laws of engines: sums of parts, changes that all make or none, chains of equal labels."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from expfam import DiagonalGaussian, MixtureModel, Poisson, SymmetricDirichlet
from expfam.engines import Part, SerialEngine, cut_rows
from expfam.plugins.laws.data_case import law
from expfam.samplers import ShardedData, UncollapsedGibbs

if TYPE_CHECKING:
    from expfam.engines import Engine

ENGINE_LAWS: dict = {}

_ROWS = np.arange(11.0)[:, None]
_BOUNDS = (0, 1, 4, 4, 9, 11)  # one part has no rows


class Tally:
    """What the laws place in an engine: rows, and a number that changes."""

    def __init__(self, rows: Any, first_row: int) -> None:
        self.rows, self.first_row, self.count = rows, first_row, 0.0

    def first(self) -> int:
        """Return the number of the first row."""
        return self.first_row

    def times(self, factor: float) -> float:
        """Return the sum of the rows times a factor."""
        return float(self.rows.sum() * factor)

    def counted(self) -> float:
        """Return the number that changes."""
        return self.count

    def add(self, step: float, own: float = 0.0) -> float:
        """Raise the number; return its new value."""
        self.count = self.count + step + own
        return self.count

    def add_unless(self, first_row: int) -> float:
        """Raise the number by 1, and fail in the part that begins at a row."""
        self.count = self.count + 1.0
        if self.first_row == first_row:
            raise OverflowError(f"row {first_row}")
        return self.count

    def saved(self) -> float:
        """Return what the rows do not hold."""
        return self.count

    def restore(self, saved: float) -> None:
        """Take up what was saved."""
        self.count = saved


class Source:
    """Rows that are read where the part is made."""

    def __init__(self, rows: Any) -> None:
        self.rows = rows

    def __call__(self) -> Any:
        """Return the rows."""
        return self.rows


class EngineCase:
    """An engine to try laws on; each law gets a new one, which is closed afterwards."""

    def __init__(self, make: Callable[[], Engine]) -> None:
        self.make, self.subject, self.others = make, make, ()

    def placed(self) -> Engine:
        """Return an engine with parts of eleven rows, given in no order."""
        engine = self.make()
        parts = [Part(a, b - a, _ROWS[a:b]) for a, b in itertools.pairwise(_BOUNDS)]
        engine.place(parts[::-1], Tally)
        return engine


@law(among=ENGINE_LAWS)
def answers_have_the_order_of_the_rows(case: EngineCase) -> None:
    """`each` returns one answer of each part with rows, in the order of the rows."""
    with case.placed() as engine:
        assert engine.each("first") == [0, 1, 4, 9], f"first rows came as {engine.each('first')}"
        assert engine.n_rows == 11, f"the parts have 11 rows, not {engine.n_rows}"


@law(among=ENGINE_LAWS)
def totals_are_sums(case: EngineCase) -> None:
    """`total` returns the sum of the answers of all parts."""
    with case.placed() as engine:
        assert engine.total("times", 2.0) == 110.0, f"the total is 110, not {engine.total('times', 2.0)}"


@law(among=ENGINE_LAWS)
def all_parts_make_a_change(case: EngineCase) -> None:
    """`change` reaches each part once, with its own value, and returns the sum of the answers."""
    with case.placed() as engine:
        assert engine.change("add", 1.0) == 4.0, "four parts add 1"
        total = engine.change("add", 0.0, by_part=[1.0, 2.0, 3.0, 4.0])
        assert total == 14.0, f"the answers add up to 14, not {total}"
        assert engine.each("counted") == [2.0, 3.0, 4.0, 5.0], f"the parts hold {engine.each('counted')}"


@law(among=ENGINE_LAWS)
def a_failure_changes_no_part(case: EngineCase) -> None:
    """If a part fails, its error is raised, no part is changed, and the next change is made."""
    with case.placed() as engine:
        engine.change("add", 1.0)
        try:
            engine.change("add_unless", 4)
        except OverflowError as error:
            assert "row 4" in str(error), f"the error says {error}"
        else:
            raise AssertionError("the error of a part was not raised")
        assert engine.each("counted") == [1.0] * 4, f"after a failure the parts hold {engine.each('counted')}"
        assert engine.change("add", 1.0) == 8.0, "the change after a failure is made"


@law(among=ENGINE_LAWS)
def sources_are_read_where_parts_are_made(case: EngineCase) -> None:
    """A source that is a function is called; placing again drops what was placed before."""
    with case.placed() as engine:
        engine.place([Part(0, 2, Source(_ROWS[:2])), Part(2, 1, Source(_ROWS[2:3]))], Tally)
        assert engine.each("times", 1.0) == [1.0, 2.0], f"the parts answer {engine.each('times', 1.0)}"
        assert engine.change("add", 1.0) == 2.0, "new parts begin without changes"


@law(among=ENGINE_LAWS)
def engines_do_not_see_each_other(case: EngineCase) -> None:
    """Two engines at once hold their own parts, and a closed engine may be used again."""
    with case.placed() as first, case.placed() as second:
        first.change("add", 1.0)
        assert second.total("counted") == 0.0, "a change of one engine reached another one"
        second.close()
        second.close()
        assert first.total("counted") == 4.0, "closing one engine changed another one"
        second.place(cut_rows(_ROWS, 2, grain=1), Tally)
        assert second.total("counted") == 0.0, "a closed engine keeps old parts"


@law(among=ENGINE_LAWS)
def gaps_are_refused(case: EngineCase) -> None:
    """Parts that leave rows out are refused."""
    engine = case.make()
    try:
        engine.place([Part(0, 1, _ROWS[:1]), Part(2, 1, _ROWS[2:3])], Tally)
    except ValueError:
        return
    finally:
        engine.close()
    raise AssertionError("parts with a gap were placed")


@law(among=ENGINE_LAWS)
def chains_have_the_labels_of_the_serial_engine(case: EngineCase) -> None:
    """A chain of `UncollapsedGibbs` has the same labels and sums as in one process, bit for bit."""
    rng = np.random.default_rng(0)
    counts = rng.poisson(rng.choice([1.0, 9.0], size=(300, 1)), size=(300, 3)).astype(float)
    for family, X in ((DiagonalGaussian(), counts + rng.normal(size=counts.shape)), (Poisson(), counts)):
        bound = family.bind(X)
        found = []
        for engine, n_parts in ((SerialEngine(), 1), (case.make(), 3)):
            with engine:
                data = ShardedData(cut_rows(X, n_parts, grain=1), bound, engine=engine)
                state = UncollapsedGibbs().init(MixtureModel(bound, SymmetricDirichlet(4)), data, seed=1)
                for _ in range(5):
                    UncollapsedGibbs().step(state)
                state.check()
                found.append((state.labels.tobytes(), np.asarray(state.S).tobytes(), state.log_joint))
        assert found[0] == found[1], f"{family.name}: labels or sums differ from those of the serial engine"
