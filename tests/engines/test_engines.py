"""Engines keep the laws; broken engines do not; workers that die change no answer."""

import os
import signal
import threading

import numpy as np
import pytest

from expfam import DiagonalGaussian, MixtureModel, SymmetricDirichlet
from expfam.engines import Engine, Part, ProcessEngine, SerialEngine, cut_rows, load_engine, watch
from expfam.engines.parts import Resident, added
from expfam.errors import EngineError, PluginError, UnknownNameError
from expfam.plugins.conformance import check_engine
from expfam.plugins.laws.engines import ENGINE_LAWS, Tally
from expfam.samplers import ShardedData, UncollapsedGibbs, sample

ROWS = np.arange(12.0)[:, None]


def two_processes():
    return ProcessEngine(2)


@pytest.mark.parametrize("law", ENGINE_LAWS)
@pytest.mark.parametrize("make", [SerialEngine, two_processes])
def test_laws(make, law):
    check_engine(make, only=[law])


# ---- engines with a fault ------------------------------------------------------------------------------------------


class OneBehind(SerialEngine):
    """Leaves the last part out of changes."""

    def change(self, method, *values, by_part=None):
        number, self._n_changes = self._n_changes, self._n_changes + 1
        pairs = enumerate(self._residents[:-1])
        own = [values if by_part is None else (*values, by_part[place]) for place, _ in pairs]
        return added([r.change(number, method, o) for r, o in zip(self._residents, own)])


class Backwards(SerialEngine):
    """Answers in the wrong order."""

    def each(self, method, *values):
        return super().each(method, *values)[::-1]


class Forgetful(SerialEngine):
    """Does not take a change back where a part failed."""

    def change(self, method, *values, by_part=None):
        own = [values if by_part is None else (*values, value) for value in (by_part or self._residents)]
        answers = [r.change(r.n_changes, method, o) for r, o in zip(self._residents, own)]
        return added(answers)


class Shared(SerialEngine):
    """Holds the parts of all its engines together."""

    held = ()

    def _place(self, make):
        Shared.held = [Resident.of_part(make, part) for part in self.parts]
        self._n_changes = 0

    def each(self, method, *values):
        return [resident.ask(method, values) for resident in Shared.held]

    def change(self, method, *values, by_part=None):
        return added([resident.change(resident.n_changes, method, values) for resident in Shared.held])


@pytest.mark.parametrize(
    ("engine", "law"),
    [
        (OneBehind, "all_parts_make_a_change"),
        (OneBehind, "chains_have_the_labels_of_the_serial_engine"),
        (Backwards, "answers_have_the_order_of_the_rows"),
        (Backwards, "chains_have_the_labels_of_the_serial_engine"),
        (Forgetful, "a_failure_changes_no_part"),
        (Shared, "engines_do_not_see_each_other"),
    ],
)
def test_a_fault_is_found(engine, law):
    assert check_engine(engine, raises=False, only=[law]).named("failed") == [law]


# ---- by name, parts ------------------------------------------------------------------------------------------------


def test_engines_are_loaded_by_name():
    assert isinstance(load_engine("process", n_workers=3), ProcessEngine)
    with pytest.raises(UnknownNameError, match="did you mean 'serial'"):
        load_engine("seriel")


def test_engines_of_other_distributions(monkeypatch):
    monkeypatch.setattr(
        "expfam.engines.by_name._offered", lambda: {"mine": "expfam.engines.base:Engine", "bad": "os:sep"}
    )
    with pytest.raises(TypeError):  # an abstract class
        load_engine("mine")
    with pytest.raises(PluginError, match=r"must be a subclass of expfam\.engines\.Engine"):
        load_engine("bad")


def test_an_engine_is_abstract():
    with pytest.raises(TypeError):
        Engine()


@pytest.mark.parametrize("n_parts", [1, 2, 3, 7, 50])
def test_rows_are_cut_at_multiples(n_parts):
    X = np.zeros((5000, 1))
    parts = cut_rows(X, n_parts)
    assert [part.first_row % 512 for part in parts] == [0] * len(parts)
    assert sum(part.n_rows for part in parts) == 5000
    assert len(parts) == min(n_parts, 10)
    assert all(part.n_rows == len(part.source) > 0 for part in parts)


# ---- lost workers --------------------------------------------------------------------------------------------------

RNG = np.random.default_rng(4)
X = RNG.normal(size=(900, 2)) + 4.0 * RNG.integers(0, 3, (900, 1))
FAMILY = DiagonalGaussian().bind(X)
MODEL = MixtureModel(FAMILY, SymmetricDirichlet(6))


def chain_of(engine, kill=None, n_steps=6):
    """Labels of a chain over four parts; a callback kills workers."""
    data = ShardedData(cut_rows(X, 4, grain=1), FAMILY, engine=engine)
    kernel = UncollapsedGibbs()
    state = kernel.init(MODEL, data, seed=2, start="random")
    sample(kernel, state, n_steps, callbacks=[kill] if kill else [])
    state.check()
    return state.labels.tobytes(), np.asarray(state.S).tobytes()


def kill(engine, *places):
    for place in places:
        os.kill(engine._links[place].process.pid, signal.SIGKILL)


@pytest.mark.parametrize("places", [(0,), (1,), (0, 1)])
def test_killed_workers_change_no_label(places):
    with ProcessEngine(2) as engine:

        def at_step(info, state):
            if info.step == 3:
                kill(engine, *places)

        found = chain_of(engine, at_step)
        assert engine.n_lost == len(places)
    assert found == chain_of(SerialEngine())


def test_a_worker_that_is_killed_within_a_step_changes_no_label():
    """The worker is stopped, given the order, and killed before it answers."""
    with ProcessEngine(2) as engine:
        tell = engine._tell

        def told(link, order, values_of):
            if order == "change" and engine._journal.n_changes == 4 and link is engine._links[1] and not engine.n_lost:
                os.kill(link.process.pid, signal.SIGSTOP)
                is_told = tell(link, order, values_of)
                os.kill(link.process.pid, signal.SIGKILL)
                return is_told
            return tell(link, order, values_of)

        engine._tell = told
        found = chain_of(engine)
        assert engine.n_lost == 1
    assert found == chain_of(SerialEngine())


def test_a_stopped_worker_is_named_and_the_run_goes_on(monkeypatch):
    monkeypatch.setattr(watch, "LEAST_SECONDS", 0.2)
    with ProcessEngine(2) as engine:

        def at_step(info, state):
            if info.step == 4:
                pid = engine._links[1].process.pid
                os.kill(pid, signal.SIGSTOP)
                threading.Timer(3.0, os.kill, (pid, signal.SIGCONT)).start()

        with pytest.warns(UserWarning, match=r"has waited .* for the process \d+, .* goes on .*kill -9") as caught:
            found = chain_of(engine, at_step)
        assert len(caught) == 1
        assert engine.n_lost == 0
    assert found == chain_of(SerialEngine())


def test_a_stopped_worker_that_is_killed_after_the_warning_changes_no_label(monkeypatch):
    monkeypatch.setattr(watch, "LEAST_SECONDS", 0.2)
    with ProcessEngine(2) as engine:

        def at_step(info, state):
            if info.step == 4:
                os.kill(engine._links[1].process.pid, signal.SIGSTOP)

        monkeypatch.setattr(watch, "warn", lambda message: kill(engine, 1))
        found = chain_of(engine, at_step)
        assert engine.n_lost == 1
    assert found == chain_of(SerialEngine())


def test_orders_that_were_not_given_before_are_not_slow(monkeypatch):
    monkeypatch.setattr(watch, "LEAST_SECONDS", 0.0)
    found = watch.Watch("wait")
    found._times["redraw"].extend([0.0, 0.0, 0.0])
    found.begin("bind")
    found.look(["a worker"])  # a warning would end the test
    found.begin("redraw")
    with pytest.warns(UserWarning, match="a worker"):
        found.look(["a worker"])
    found.look(["a worker"])


def test_a_long_journal_is_replaced_by_what_parts_hold():
    with ProcessEngine(2) as engine:

        def at_step(info, state):
            engine._journal.limit = 0
            if info.step in (3, 5):
                kill(engine, info.step % 2)

        found = chain_of(engine, at_step)
        assert engine.n_lost == 2
        assert engine._journal.base > 1
    assert found == chain_of(SerialEngine())


def test_too_many_losses_end_the_run():
    with ProcessEngine(2, max_lost=1) as engine:
        engine.place(cut_rows(ROWS, 2, grain=1), Tally)
        kill(engine, 0, 1)
        with pytest.raises(EngineError, match=r"2 workers were lost, .* max_lost=8"):
            engine.change("add", 1.0)


def test_an_error_names_the_part():
    with ProcessEngine(2) as engine:
        engine.place([Part(0, 6, ROWS[:6]), Part(6, 6, ROWS[6:])], Tally)
        with pytest.raises(OverflowError, match="row 6") as caught:
            engine.change("add_unless", 6)
        assert "part 1, which begins at row 6" in str(caught.value.__cause__)
        assert "add_unless" in str(caught.value.__cause__)


def test_an_interruption_within_a_change_leaves_all_parts_as_they_were():
    with ProcessEngine(2) as engine:
        engine.place(cut_rows(ROWS, 2, grain=1), Tally)
        engine.change("add", 1.0)
        hear = engine._hear

        def interrupted(link, is_told, order, values_of):
            if order == "change" and link is engine._links[1]:
                raise KeyboardInterrupt
            return hear(link, is_told, order, values_of)

        engine._hear = interrupted
        with pytest.raises(KeyboardInterrupt):
            engine.change("add", 1.0)
        engine._hear = hear
        assert engine.each("counted") == [1.0, 1.0]
        assert engine.change("add", 1.0) == 4.0
        assert engine.n_lost == 0
