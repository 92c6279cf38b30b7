"""Angles as columns of a table, and the contract by which a kind of column is one class."""

import importlib
import json
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from expfam import Columns, Mixture, VonMises
from expfam.errors import DataError, DataTypeError, PluginError
from expfam.families.columns.inference import infer_roles
from expfam.families.columns.kinds import registry
from expfam.families.columns.kinds.contract import ColumnKind


def weather(n_rows=240, seed=0):
    """North winds that are weak and south winds that are strong, with holes."""
    rng = np.random.default_rng(seed)
    z = rng.integers(0, 2, n_rows)
    wind = (180.0 * z + np.rad2deg(rng.vonmises(0.0, 8.0, n_rows))) % 360.0
    df = pd.DataFrame({"wind": wind, "speed": rng.normal(3.0 + 6.0 * z, 1.0)})
    df.loc[rng.random(n_rows) < 0.2, "wind"] = np.nan
    return df, z


@pytest.fixture(scope="module")
def fitted():
    df, z = weather()
    return Mixture(Columns.from_frame(df, wind="angle"), 2, n_steps=20, random_state=0).fit(df), df, z


def apart(a, b):
    """Angles between directions in degrees, at most 180."""
    return np.abs((np.asarray(a) - np.asarray(b) + 180.0) % 360.0 - 180.0)


def test_a_column_of_angles_finds_clusters_across_north(fitted):
    mixture, _, z = fitted
    agree = (mixture.labels_ == z).mean()
    assert max(agree, 1 - agree) > 0.97
    means = mixture.params_["wind"]["mean"]
    assert min(apart(means[0], 0.0), apart(means[1], 0.0)) < 8.0
    assert mixture.roles_["role"].tolist() == ["angle", "real"]


def test_clusters_show_directions_in_the_unit_of_the_data(fitted):
    mixture, _, _ = fitted
    shown = mixture.clusters_["wind"].tolist()
    np.testing.assert_allclose(shown, mixture.params_["wind"]["mean"], atol=0.6)


def test_missing_angles_are_filled_with_the_direction_of_their_cluster(fitted):
    mixture, df, z = fitted
    holes = df["wind"].isna().to_numpy()
    filled = mixture.impute(df)["wind"].to_numpy()
    assert np.array_equal(filled[~holes], df["wind"].to_numpy()[~holes])
    assert np.all(apart(filled[holes], 180.0 * z[holes]) < 30.0)
    draws = np.array([each["wind"].to_numpy()[holes] for each in mixture.impute(df, draws=40)])
    spread = apart(draws, filled[holes])
    assert 10.0 < np.sqrt((spread**2).mean()) < 40.0  # 21 degrees at kappa 8


def test_a_filled_angle_lies_between_clusters_on_the_short_way():
    """Halfway between 350 and 10 degrees is north, where the mean of the numbers is south."""
    df = pd.DataFrame({"wind": [350.0] * 20 + [10.0] * 20, "speed": np.tile([0.0, 1.0], 20)})
    mixture = Mixture(Columns.from_frame(df, wind="degrees", speed="real"), 2, n_steps=5, random_state=0).fit(df)
    assert apart(mixture.impute(pd.DataFrame({"wind": [np.nan], "speed": [0.5]}))["wind"][0], 0.0) < 10.5


def test_scores_do_not_know_where_the_circle_begins(fitted):
    mixture, df, _ = fitted
    turned = df.assign(wind=df["wind"] - 360.0)
    np.testing.assert_allclose(mixture.score_samples(turned), mixture.score_samples(df), rtol=1e-9)


def test_radians_and_degrees_give_the_same_clusters():
    df, _ = weather()
    found = [
        Mixture(Columns.from_frame(X, wind=word), 2, n_steps=10, random_state=0).fit(X)
        for X, word in ((df, "degrees"), (df.assign(wind=np.deg2rad(df["wind"])), "radians"))
    ]
    assert np.array_equal(found[0].labels_, found[1].labels_)
    gain = np.log(180.0 / np.pi) * df["wind"].notna()  # densities are per degree and per radian
    scores = found[1].score_samples(df.assign(wind=np.deg2rad(df["wind"])))
    np.testing.assert_allclose(scores - gain, found[0].score_samples(df), atol=1e-6)


def test_drawn_angles_stay_on_the_circle_and_follow_their_clusters(fitted):
    mixture, _, _ = fitted
    X, y = mixture.sample(400)
    wind = X["wind"].to_numpy()
    assert wind.min() >= 0.0
    assert wind.max() < 360.0
    assert apart(wind, mixture.params_["wind"]["mean"][y]).mean() < 25.0


def test_a_saved_model_reads_angles_as_before(fitted, tmp_path):
    mixture, df, _ = fitted
    mixture.save(tmp_path / "model")
    loaded = Mixture.load(tmp_path / "model")
    assert np.array_equal(loaded.score_samples(df), mixture.score_samples(df))
    assert loaded.impute(df).equals(mixture.impute(df))


def test_roles_are_plain_values_that_give_the_same_family():
    df, _ = weather()
    roles = json.loads(json.dumps(list(Columns.from_frame(df, wind="angle").roles)))
    assert roles[0]["settings"] == {"unit": "degrees"}
    assert Columns.from_frame(df, roles=roles) == Columns.from_frame(df, wind="degrees")
    assert Columns.from_frame(df, roles={"wind": "angle"}) == Columns.from_frame(df, wind="degrees")
    given = [{"column": "wind", "role": "angle", "settings": {"unit": "radians"}}]
    assert Columns.from_frame(df, roles=given).parts[0][0] == VonMises(unit="radians")
    assert Columns.from_frame(df, wind=VonMises(unit=16)).roles[0]["settings"] == {"unit": 16}


def test_two_columns_of_angles_are_two_parts_of_one_column():
    df, _ = weather()
    family = Columns.from_frame(df.assign(waves=df["wind"] + 20.0), wind="angle", waves="angle")
    assert [columns for part, columns in family.parts if isinstance(part, VonMises)] == [(0,), (2,)]


def test_an_angle_of_which_the_unit_cannot_be_told_is_asked_for():
    df = pd.DataFrame({"wind": np.linspace(0.0, 6.0, 50), "speed": np.linspace(-1.0, 1.0, 50)})
    with pytest.raises(DataError, match="column 'wind' is an angle, and its values from 0 to 6 may be degrees or rad"):
        Columns.from_frame(df, wind="angle")
    assert Columns.from_frame(df, wind="radians").roles[0]["settings"] == {"unit": "radians"}


def test_text_is_no_angle():
    df = pd.DataFrame({"wind": ["N", "S"] * 20, "speed": np.linspace(-1.0, 1.0, 40)})
    with pytest.raises(DataTypeError, match=r"column 'wind' holds text .*von_mises needs numbers"):
        Columns.from_frame(df, wind="angle")


def test_whole_angles_are_drawn_whole():
    df, _ = weather()
    df = df.dropna().assign(wind=lambda own: own["wind"].round().astype(int) % 360)
    mixture = Mixture(Columns.from_frame(df, wind="angle"), 2, n_steps=5, random_state=0).fit(df)
    wind = mixture.sample(300)[0]["wind"].to_numpy()
    assert wind.dtype == np.int64
    assert wind.max() < 360


def test_the_command_line_takes_angles(tmp_path):
    df, _ = weather(80)
    df.to_csv(tmp_path / "table.csv", index=False)
    command = ["fit", "table.csv", "--column", "wind=angle", "--components", "2", "--steps", "5", "--output", "model"]
    done = subprocess.run(
        [sys.executable, "-P", "-m", "expfam", *command], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "von_mises" in done.stdout + done.stderr


# ---- kinds of other distributions ------------------------------------------------------------------------------------

WEEKDAY = """
from dataclasses import replace
from expfam.families.columns.kinds.contract import ColumnKind

class Weekday(ColumnKind):
    name = "weekday"
    families = ()
    default_family = "von_mises"
    words = {"weekdays": {"unit": 7.0}}

    def candidate(self, base, facts):
        if facts.column.name != "day":
            return None
        return replace(base, role=self.name, family=self.default_family, settings={"unit": 7.0})
"""


@pytest.fixture
def offered(tmp_path, monkeypatch):
    """A place on sys.path for a distribution that offers a kind of column."""
    monkeypatch.syspath_prepend(str(tmp_path))
    info = tmp_path / "fake_kinds-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: fake-kinds\nVersion: 1.0\n")

    def offer(value, text=WEEKDAY):
        (tmp_path / "fake_kinds.py").write_text(textwrap.dedent(text))
        (info / "entry_points.txt").write_text(f"[{registry.GROUP}]\nweekday = {value}\n")
        sys.modules.pop("fake_kinds", None)
        importlib.invalidate_caches()
        registry.kinds.cache_clear()
        registry.families.cache_clear()

    yield offer
    registry.kinds.cache_clear()
    registry.families.cache_clear()
    sys.modules.pop("fake_kinds", None)


def test_a_kind_of_another_distribution_is_equal_to_ours(offered):
    offered("fake_kinds:Weekday")
    df = pd.DataFrame({"day": np.linspace(0.5, 6.5, 50), "speed": np.linspace(-1.0, 1.0, 50)})
    assert [role.role for role in infer_roles(df).roles] == ["weekday", "real"]
    assert infer_roles(df, None, {"speed": "weekdays"}).roles[1].settings == {"unit": 7.0}
    mixture = Mixture(Columns.from_frame(df), 2, n_steps=3, random_state=0).fit(df)
    assert np.all((mixture.params_["day"]["mean"] >= 0) & (mixture.params_["day"]["mean"] < 7))


def test_a_kind_that_cannot_be_used_is_told_with_its_origin(offered):
    offered("fake_kinds:Gone")
    with pytest.raises(PluginError, match="kind of column 'weekday' of fake_kinds:Gone cannot be loaded"):
        registry.kinds()
    offered("fake_kinds:WEEKDAY", "WEEKDAY = 3")
    with pytest.raises(PluginError, match="must be a class of ColumnKind with a name"):
        registry.kinds()


def test_a_kind_does_not_take_the_name_of_another(offered):
    offered("fake_kinds:Weekday", WEEKDAY.replace('"weekday"', '"angle"'))
    with pytest.raises(PluginError, match="'angle' of fake_kinds:Weekday has the name of another kind"):
        registry.kinds()


def test_every_kind_says_what_it_is():
    assert list(registry.kinds())[-2:] == ["real", "numeric"]
    for name, kind in registry.kinds().items():
        assert isinstance(kind, ColumnKind)
        assert kind.name == name
        assert type(kind).__doc__
        assert {kind.default_family, *kind.families} - {""} <= registry.families().keys()


def test_the_guides_kind_passes_the_test_beside_it(offered):
    page = (Path(__file__).resolve().parents[2] / "docs" / "plugins.md").read_text(encoding="utf-8")
    kind, test = re.findall(r"```python\n(.*?)```", page[page.index("## 7. Kinds of columns") :], re.DOTALL)[:2]
    offered("fake_kinds:Weekday", kind)
    names = {}
    exec(test, names)
    names["test_weekdays_are_found_and_come_back"]()
