"""The page of the papers' tables and figures is what its results say, and its command runs and fails as it should."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "asv_bench" / "protocols"))
import reproduce  # noqa: E402
from reproduce_codes import ShortCodes  # noqa: E402
from reproduce_page import page, section  # noqa: E402
from reproduce_row import MOST_POINTS, Row, compared, panel, shown, slope  # noqa: E402

from expfam import Dataset, Multinomial  # noqa: E402
from expfam.samplers.proposals.snapshot import Snapshot  # noqa: E402

FOLDER, IMAGES, PAGE = reproduce.places(None)
RESULTS = reproduce.stored(FOLDER)
LINE = {"data": "none", "table": [compared("a number", 1.0, 2.0)]}


def curve_of(run):
    """What a row gives, with one panel."""
    return LINE | {"panels": [panel("curve", "x", "y", {"one": ([1, 2, 3], [1.0, 4.0, 9.0])}, log="xy")]}


def breaks(run):
    """A row that cannot be measured."""
    raise ValueError("no such thing")


def test_the_page_is_made_from_the_results():
    told = "make it anew: python asv_bench/protocols/reproduce.py --page"
    assert page(RESULTS, reproduce.ROWS) == PAGE.read_text(encoding="utf-8"), told


def test_nearly_every_row_has_a_result_and_a_figure_and_nothing_else_is_kept():
    names = {row.name for row in reproduce.ROWS}
    assert len(names) == len(reproduce.ROWS) >= 27
    assert len(RESULTS) >= 25
    assert {path.stem for path in FOLDER.iterdir()} == set(RESULTS) <= names
    assert {path.stem for path in IMAGES.iterdir()} == set(RESULTS)
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 500_000


@pytest.mark.parametrize("name", sorted(RESULTS))
def test_a_result_says_how_it_was_measured(name):
    found = RESULTS[name]
    assert found["row"] == name
    assert found["mode"] in ("quick", "full")
    assert found["command"].endswith("--quick") == (found["mode"] == "quick")
    assert f"--only {name} " in found["command"]
    assert found["machine"]["cores"] >= 1
    assert found["machine"]["BLAS"]
    assert found["table"]
    assert found["panels"]
    for line in found["table"]:
        assert line["differs"] == ("reason" in line)
    (row,) = [row for row in reproduce.ROWS if row.name == name]
    text = "\n".join(section(row, found))
    assert ("**Quick mode**" in text) == (found["mode"] == "quick")
    assert text.count("**differs**") == sum(line["differs"] for line in found["table"])


def test_a_difference_needs_its_reason():
    with pytest.raises(ValueError, match="speed: a difference needs its reason"):
        compared("speed", 2.0, 1.0, differs=True)
    assert compared("speed", 2.0, 1.0, reason="slow")["differs"] is False
    assert "reason" not in compared("speed", 2.0, 1.0, reason="slow")


def test_numbers_are_shown_with_three_digits():
    given = [None, "text", 11109, 0.0, 1.23456, 123.456, 0.0123456, 1e-9, 2.5e9]
    expected = ["-", "text", "11,109", "0", "1.23", "123", "0.0123", "1.00e-09", "2.50e+09"]
    assert [shown(value) for value in given] == expected


def test_exponents_are_slopes_of_logarithms():
    x = np.array([1.0, 2.0, 4.0, 8.0])
    assert slope(x, 3 * x**1.5) == pytest.approx(1.5)


def test_long_curves_keep_their_ends():
    found = panel("t", "x", "y", {"long": (range(1000), range(1000))})["curves"]["long"]
    assert len(found[0]) <= MOST_POINTS
    assert (found[0][0], found[0][-1]) == (0.0, 999.0)


@pytest.fixture
def rows(monkeypatch):
    def use(*given):
        monkeypatch.setattr(
            reproduce, "ROWS", [Row(name, name, "Of a paper.", measure, *of) for name, measure, *of in given]
        )

    return use


def test_a_row_is_kept_drawn_and_written(rows, tmp_path, capsys):
    rows(("bhc-one", curve_of))
    assert reproduce.main(["--out", str(tmp_path), "--quick"]) == 0
    found = json.loads((tmp_path / "results" / "bhc-one.json").read_text())
    assert found["mode"] == "quick"
    assert (tmp_path / "images" / "reproduced" / "bhc-one.png").read_bytes().startswith(b"\x89PNG")
    text = (tmp_path / "reproduced.md").read_text()
    assert "| a number | 1.00 | 2.00 |  |" in text
    assert "**1 of 1 rows have a figure**: 0 in full size, 1 in quick mode; in 0 of them something differs." in text
    assert "a number: paper 1.00, ours 2.00" in capsys.readouterr().out


def test_a_row_that_fails_fails_the_command_and_the_others_run(rows, tmp_path, capsys):
    rows(("bhc-broken", breaks), ("bhc-one", curve_of))
    assert reproduce.main(["--out", str(tmp_path)]) == 1
    assert "FAILED bhc-broken: ValueError: no such thing" in capsys.readouterr().out
    text = (tmp_path / "reproduced.md").read_text()
    assert "**1 of 2 rows have a figure**" in text
    assert "Not measured yet: `python asv_bench/protocols/reproduce.py --only bhc-broken --data DIR`" in text


def test_rows_that_need_data_are_left_out_without_them(rows, tmp_path, capsys):
    rows(("bhc-broken", breaks, True), ("bhc-one", curve_of))
    assert reproduce.main(["--out", str(tmp_path)]) == 0
    assert "bhc-broken: left out, for want of --data" in capsys.readouterr().out


def test_unknown_rows_and_folders_are_named(tmp_path):
    with pytest.raises(SystemExit, match="there is no row 'fastex-table9'"):
        reproduce.main(["--out", str(tmp_path), "--only", "fastex-table9"])
    with pytest.raises(SystemExit, match="nowhere: there is no such folder"):
        reproduce.main(["--out", str(tmp_path), "--data", str(tmp_path / "nowhere")])


def test_real_rows_without_data_run(tmp_path):
    names = ["fastex-lemma1", "fastex-theorem4"]
    assert reproduce.main(["fastex", "--out", str(tmp_path), "--quick", "--only", *names]) == 0
    found = reproduce.stored(tmp_path / "results")
    slopes = [float(line["ours"]) for line in found["fastex-lemma1"]["table"]]
    assert len(slopes) == 3
    assert all(-1.25 < each < -0.8 for each in slopes)
    assert not any(line["differs"] for line in found["fastex-theorem4"]["table"])


def test_many_bits_give_the_inner_products():
    rng = np.random.default_rng(0)
    X = rng.poisson(1.0, (30, 12)) + np.eye(30, 12, dtype=int)
    data = Dataset(X.astype(float), Multinomial(concentration=0.5))
    labels = np.arange(30) % 3
    n, S = data.statistics(labels, 3)
    view = Snapshot(data.family, n, [0, 1, 2], lambda: S, log_weight=np.log(n), log_weight_new=-np.inf)
    theta = view.Theta - view.Theta.mean(axis=0)
    exact = X @ theta.T + np.log(n)
    errors = []
    for n_bits in (16, 4096):
        proposal = ShortCodes(n_bits)
        assert proposal.groups(data).tolist() == list(range(30))
        found = np.log(proposal.probabilities(view))
        errors.append(np.abs(found - (exact - exact.max(axis=1, keepdims=True))).max())
    assert errors[1] < 0.25 * errors[0]
    of_scores = np.sqrt((X**2).sum(axis=1)).max() * np.sqrt((theta**2).sum(axis=1)).max()
    assert errors[1] < 2 * 4 * of_scores * np.pi / (2 * np.sqrt(4096))  # four standard deviations, of two scores
