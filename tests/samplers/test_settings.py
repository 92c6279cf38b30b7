"""The tables of settings: what they admit, what their messages say, and that every check reads them."""

import inspect
import re

import numpy as np
import pytest

import expfam.samplers
from expfam.params import NON_NEGATIVE, POSITIVE, Integer, Real, Settings, check_settings, check_value
from expfam.samplers.geometry.hash_tables import HashTables
from expfam.samplers.split_merge.anchors import NearAnchors
from expfam.structures import DataCells

NEEDED = {"CollapsedMetropolis": ["table"], "CollapsedSplitMerge": [[]]}


class Strict(HashTables):
    """Has a setting more than its base, and allows less of another one."""

    _constraints = {"n_tables": Integer(5), "share": (Real(0, 1), "auto")}  # noqa: RUF012

    def __init__(self, share="auto", n_tables=10):
        super().__init__(n_tables=n_tables)
        self.share = share


def public_settings():
    """Yield each public class whose constructor keywords have a table, its table, and an object of the class."""
    for cls in [HashTables, *(getattr(expfam.samplers, name) for name in expfam.samplers.__all__)]:
        if isinstance(cls, type) and issubclass(cls, Settings):
            tables = (vars(base).get("_constraints", {}) for base in reversed(cls.__mro__))
            table = {name: allowed for table in tables for name, allowed in table.items()}
            if table:
                yield cls, table, cls(*NEEDED.get(cls.__name__, []))


SETTINGS = [*public_settings()]


@pytest.mark.parametrize(
    ("allowed", "good", "bad", "words"),
    [
        (Integer(1), [1, np.int8(3)], [0, True, np.True_, 2.0, "2", None, [1]], "an integer of at least 1"),
        (Integer(0, 64), [0, 64], [-1, 65, np.nan], "an integer in 0..64"),
        (Real(0.5, 1, "(]"), [1, np.float32(0.75)], [0.5, 1.5, True, np.nan, "1"], "a number in (0.5, 1]"),
        (Real(1e-6, 1, "[)"), [1e-6, 0.5], [0, 1, None], "a number in [1e-06, 1)"),
        (Real(0, 1, why="for a reason"), [0.5], [0, 1], "a number in (0, 1), for a reason"),
        (POSITIVE, [1e-300], [0, np.inf, np.nan, -1, np.ones(2)], "a positive finite number"),
        (NON_NEGATIVE, [0, 2], [-1e-300, np.inf, np.nan], "a non-negative finite number"),
        (Real(0, ends="(]"), [np.inf], [0, np.nan], "a positive number"),
        (
            ("auto", Integer(2)),
            ["auto", 2],
            ["often", 1, np.array(["auto"])],
            "'auto' or an integer of at least 2",
        ),
        ((None, "hoeffding", "kl"), [None, "kl"], ["x", False], "None, 'hoeffding' or 'kl'"),
        (("tree", DataCells), ["tree", DataCells([0, 1])], [DataCells, None], "'tree' or a DataCells"),
    ],
)
def test_what_is_admitted_and_what_is_said(allowed, good, bad, words):
    for value in good:
        check_value("Kernel: it", value, allowed)
    for value in bad:
        with pytest.raises(ValueError, match=re.escape(f"Kernel: it must be {words}; got {value!r}")):
            check_value("Kernel: it", value, allowed)


def test_a_subclass_inherits_the_table():
    check_settings(Strict(share=0.5))
    for bad, said in (({"share": 1}, "share must be a number"), ({"n_tables": 4}, "n_tables must be an integer of at")):
        with pytest.raises(ValueError, match=f"Strict: {said}"):
            check_settings(Strict(**bad))
    strict = Strict()
    strict.n_bits = 63
    with pytest.raises(ValueError, match=r"Strict: n_bits must be an integer in 1\.\.62 or 'auto'; got 63"):
        check_settings(strict)


def test_a_setting_that_was_checked_does_not_admit_its_equals():
    for n_trials in (1, np.int64(1)):
        check_settings(NearAnchors(n_candidates=n_trials))
    for bad in (True, 1.0):  # equal to 1, but no integers
        with pytest.raises(ValueError, match=f"NearAnchors: n_candidates must be an integer of at least 1; got {bad}"):
            check_settings(NearAnchors(n_candidates=bad))


@pytest.mark.parametrize(("cls", "table", "settings"), SETTINGS, ids=[cls.__name__ for cls, *_ in SETTINGS])
def test_every_check_reads_the_table_first(cls, table, settings):
    check_settings(settings)  # the defaults are allowed
    assert len(SETTINGS) > 25
    # some have one value: EM takes modes, there is no reversal where a number is unknown, and no least pseudo-count
    one_value = {
        "ExpectationMaximization": {"theta"},
        "StochasticEM": {"sticks"},
        "GroupedProcessGibbs": {"backward"},
        "GroupedProcessSplitMerge": {"backward", "learn_every", "order"},
        "GroupedProcessVariational": {"full_every", "n_candidates", "n_restarts", "restart_iterations", "schedule"},
        "TopicProcessGibbs": {"backward", "least_eta"},
        "TopicProcessMerges": {"backward", "learn_every", "least_eta"},
        "TopicProcessSplitMerge": {"backward", "learn_every", "least_eta"},
        "TopicProcessVariational": {"documents", "n_restarts", "restart_iterations"},
    }
    absent = one_value.get(cls.__name__, set())
    assert set(table) - absent <= set(inspect.signature(cls.__init__).parameters)
    for name in table:
        bad = cls(*NEEDED.get(cls.__name__, []))
        setattr(bad, name, object())
        n_given = len(inspect.signature(bad.check).parameters)  # a model and data, or data, or their number
        with pytest.raises((ValueError, TypeError), match=f"{name} must be .*; got <object"):
            bad.check(*[None] * n_given)
