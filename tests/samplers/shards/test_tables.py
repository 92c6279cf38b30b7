"""Tables in parts: the same roles, levels and labels as on one machine, for any parts."""

import pickle
import warnings
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

from expfam import Columns, DirichletProcess, Mixture, MixtureModel, SymmetricDirichlet
from expfam.engines import Part, SerialEngine
from expfam.errors import DataError, DataTypeError
from expfam.families.columns.roles import Roles
from expfam.samplers import UncollapsedGibbs, sample
from expfam.samplers.shards.checkpoint import PartsCheckpoint, restore_parts
from expfam.samplers.shards.table import TableParts, TableShard, columns_of_parts

RNG = np.random.default_rng(2)
N = 1500
KIND = RNG.integers(0, 3, N)
FRAME = pd.DataFrame(
    {
        "row": np.arange(N),
        "job": np.where(RNG.random(N) < 0.1, None, np.array(["cook", "nurse", "none"], dtype=object)[KIND]),
        "age": np.where(RNG.random(N) < 0.2, np.nan, np.round(RNG.normal(30.0 + 15.0 * KIND, 4.0), 1)),
        "income": np.exp(RNG.normal(KIND, 0.4, N)),
        "visits": RNG.poisson(5.0 + 30.0 * KIND),
        "new": RNG.random(N) < 0.3,
    }
)
FRAME.loc[N - 1, "job"] = "pilot"  # a level of the last row alone
CUTS = {1: [], 2: [700], 3: [512, 513], 7: [1, 300, 512, 1024, 1100, 1499]}


def parts_of(frame, cuts):
    return [Part(a, b - a, frame.iloc[a:b]) for a, b in pairwise([0, *cuts, len(frame)])]


def table(frame, cuts, family=None):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return TableParts(parts_of(frame, cuts), family)


def chain(data, kernel, weights):
    state = kernel.init(MixtureModel(data.family, weights), data, seed=0, start="random", n_clusters=5)
    sample(kernel, state, 8)
    return state


@pytest.mark.parametrize("n_parts", CUTS)
def test_roles_levels_and_bound_parts_are_those_of_the_whole_frame(n_parts):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        whole = Columns.from_frame(FRAME)
    assert whole.roles[1]["levels"] == ["cook", "none", "nurse", "pilot"]
    data = table(FRAME, CUTS[n_parts])
    assert data.family.roles == whole.roles
    bound = whole.bind(rows(data))
    assert pickle.dumps(bound.offsets_) == pickle.dumps(data.family.offsets_)
    for one, other in zip(bound.parts, data.family.parts):
        assert one[1:] == other[1:]
        assert repr(one[0].get_params()) == repr(other[0].get_params())


def rows(data):
    return np.concatenate([block for block, _ in data.engine.each("rows", np.arange(N))])


@pytest.mark.parametrize(
    ("kernel", "weights"),
    [
        (UncollapsedGibbs(draw="dense"), SymmetricDirichlet(5)),
        (UncollapsedGibbs(sticks="slice"), DirichletProcess()),
    ],
    ids=["dense", "slices"],
)
def test_labels_are_those_of_one_machine(kernel, weights):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        family = Columns.from_frame(FRAME)
    X = family_rows(family)
    alone = kernel.init(MixtureModel(family.bind(X), weights), X, seed=0, start="random", n_clusters=5)
    sample(kernel, alone, 8)
    for n_parts in CUTS:
        state = chain(table(FRAME, CUTS[n_parts]), kernel, weights)
        np.testing.assert_array_equal(state.labels, alone.labels)
        assert np.asarray(state.S).tobytes() == np.asarray(alone.S).tobytes()
        state.check()


def family_rows(family):
    return Roles(family.roles).encode(FRAME)


def test_parts_whose_numbers_fit_single_precision_are_as_wide_as_the_others():
    frame = pd.DataFrame({"x": [0.5, 0.25, -2.0] * 100 + [0.1] * 300, "kind": list("ab") * 300})
    data = table(frame, [300])
    assert [kind["dtype"] for kind in data.engine.each("kind")] == [np.float64, np.float64]
    narrow = table(frame.assign(x=[0.5, 0.25, -2.0] * 200), [300])
    assert [kind["dtype"] for kind in narrow.engine.each("kind")] == [np.float32, np.float32]


def test_a_frame_of_real_columns_alone_is_gaussian():
    real = FRAME[["income"]].assign(other=RNG.normal(size=N))
    assert table(real, [700]).family.name == "gaussian_diag"
    binary = pd.DataFrame({"u": [0.0, 1.0] * 40, "v": [1.0, 1.0, 0.0, 0.0] * 20})
    assert table(binary, [41]).family.name == Mixture(n_components=2).fit(binary).family_.name == "columns"


def test_a_lost_part_is_made_again_and_a_chain_goes_on_over_other_parts(tmp_path):
    kernel, weights = UncollapsedGibbs(draw="dense"), SymmetricDirichlet(5)
    data = table(FRAME, CUTS[3])
    state = chain(data, kernel, weights)
    again = TableShard(FRAME.iloc[513:], 513)
    again.restore(pickle.loads(pickle.dumps(data.engine.each("saved")[2])))
    np.testing.assert_array_equal(again.labels, state.labels[513:])
    assert again.X.tobytes() == data.engine.each("rows", np.arange(513, N))[2][0].tobytes()
    PartsCheckpoint(tmp_path / "run").write(state)
    other = kernel.init(MixtureModel(table(FRAME, CUTS[7]).family, weights), table(FRAME, CUTS[7]), seed=0)
    restore_parts(tmp_path / "run", other)
    for one in (state, other):
        sample(kernel, one, 4)
    np.testing.assert_array_equal(other.labels, state.labels)


def test_roles_may_be_given_and_errors_count_rows_of_all_parts():
    engine = SerialEngine()
    engine.place(parts_of(FRAME, CUTS[3]), TableShard)
    family = columns_of_parts(engine, roles={"row": "drop", "visits": "real"})
    assert [role["role"] for role in family.roles][::4] == ["dropped", "real"]
    assert table(FRAME, CUTS[7], family).n_features == 5
    bad = FRAME.assign(income=FRAME["income"].where(FRAME["row"] != 1200, -np.inf))
    with pytest.raises(DataError, match=r"column 'income', row 1200 holds -inf"):
        table(bad, CUTS[7])
    with pytest.raises(DataError, match=r"column 'income', row 1200 holds -inf"):
        table(bad, CUTS[7], family)
    mixed = [Part(0, 700, FRAME[:700]), Part(700, 800, FRAME[700:].assign(visits="many"))]
    with pytest.raises(DataTypeError, match=r"column 'visits' is of type integer in one part of the rows \(row 0\)"):
        TableParts(mixed)
