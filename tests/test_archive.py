"""An archive gives back the bits that were written, replaces only its own kind, and names what is wrong with a file."""

import json
import os

import numpy as np
import pytest
from scipy import sparse

from expfam.errors import ArchiveError
from expfam.model import archive
from expfam.model.archive import is_archive, read_archive, write_archive

HEADER = {"name": "première", "values": [1, 2.5, None, True], "nested": {"a": "b"}}


@pytest.fixture
def arrays():
    rng = np.random.default_rng(0)
    return {
        "n": rng.random(4),
        "flags": np.array([True, False]),
        "words": np.array(["un", "deux", "été"]),
        "scalar": np.float64(-np.inf),
        "empty": np.empty((0, 3), dtype=np.int32),
        "deep": {"er": {"S": sparse.random_array((4, 9), density=0.3, random_state=rng).tocsr()}, "i": np.arange(3)},
    }


def test_round_trip(tmp_path, arrays):
    write_archive(tmp_path / "a", "test", header=HEADER, arrays=arrays)
    header, back = read_archive(tmp_path / "a", "test")
    assert header == HEADER
    assert list(back) == list(arrays)
    for name in ("n", "flags", "words", "scalar", "empty"):
        np.testing.assert_array_equal(back[name], arrays[name])
        assert back[name].dtype == np.asarray(arrays[name]).dtype
    S, expected = back["deep"]["er"]["S"], arrays["deep"]["er"]["S"]
    assert isinstance(S, sparse.csr_array)
    assert S.shape == expected.shape
    for part in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(S, part), getattr(expected, part))
    np.testing.assert_array_equal(back["deep"]["i"], np.arange(3))


def test_same_contents_same_bytes(tmp_path, arrays):
    for name in "ab":
        write_archive(tmp_path / name, "test", header=HEADER, arrays=arrays)
    for file in ("header.json", "arrays.npz"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


def test_replaces_its_own_kind_and_leaves_nothing_behind(tmp_path):
    (tmp_path / "a").mkdir()  # an empty directory may be used
    for value in (1, 2):
        write_archive(tmp_path / "a", "test", header={"value": value}, arrays={"n": np.full(3, value)})
    header, arrays = read_archive(tmp_path / "a", "test")
    assert header == {"value": 2}
    assert arrays["n"].tolist() == [2, 2, 2]
    assert os.listdir(tmp_path) == ["a"]


@pytest.mark.parametrize("case", ["other kind", "foreign files", "archive with a stranger's file", "file"])
def test_refuses_what_it_did_not_write(tmp_path, case):
    target = tmp_path / "a"
    if case == "file":
        target.write_text("precious")
    elif case == "foreign files":
        target.mkdir()
        (target / "thesis.tex").write_text("precious")
    else:
        write_archive(target, "other" if case == "other kind" else "test", header={}, arrays={"n": np.ones(1)})
        if case != "other kind":
            (target / "notes.txt").write_text("precious")
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    with pytest.raises(ArchiveError, match="choose another path"):
        write_archive(target, "test", header={}, arrays={"n": np.zeros(1)})
    assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == before


@pytest.mark.parametrize(
    ("header", "arrays"),
    [({"x": float("nan")}, {}), ({"x": object()}, {}), ({}, {"o": np.array([None])}), ({}, {"a/b": np.ones(1)})],
)
def test_failed_write_keeps_the_old_archive(tmp_path, header, arrays):
    write_archive(tmp_path / "a", "test", header={"value": 1}, arrays={"n": np.ones(2)})
    with pytest.raises(ArchiveError):
        write_archive(tmp_path / "a", "test", header=header, arrays=arrays)
    assert read_archive(tmp_path / "a", "test")[0] == {"value": 1}
    assert os.listdir(tmp_path) == ["a"]


def test_failed_rename_restores_the_old_archive(tmp_path, monkeypatch):
    write_archive(tmp_path / "a", "test", header={"value": 1}, arrays={})
    rename, calls = os.rename, []

    def fail_second(source, target):
        calls.append(target)
        if len(calls) == 2:
            raise OSError("disk on fire")
        rename(source, target)

    monkeypatch.setattr(archive.os, "rename", fail_second)
    with pytest.raises(OSError, match="disk on fire"):
        write_archive(tmp_path / "a", "test", header={"value": 2}, arrays={})
    assert read_archive(tmp_path / "a", "test")[0] == {"value": 1}
    assert os.listdir(tmp_path) == ["a"]


def edit(path, **values):
    document = json.loads(path.read_text())
    path.write_text(json.dumps(document | values))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda a: (a / "header.json").unlink(), "not an archive of expfam"),
        (lambda a: (a / "arrays.npz").unlink(), "arrays.npz is missing"),
        (lambda a: (a / "header.json").write_text('{"archive": "expf'), "header.json is truncated or damaged"),
        (lambda a: (a / "header.json").write_text('{"model": 1}'), "was not written by expfam"),
        (lambda a: edit(a / "header.json", format=archive.FORMAT + 1), "reads formats up to .*: upgrade expfam"),
        (lambda a: edit(a / "header.json", format="one"), "no format number"),
        (lambda a: edit(a / "header.json", arrays=None), r"lacks \['arrays'\]"),
        (
            lambda a: edit(a / "header.json", arrays={"m": {"layout": "dense", "dtype": "<f8", "shape": [2]}}),
            "do not match",
        ),
        (
            lambda a: edit(a / "header.json", arrays={"n": {"layout": "dense", "dtype": "<f8", "shape": [3]}}),
            "do not match",
        ),
        (lambda a: os.truncate(a / "arrays.npz", 100), "truncated or altered"),
        (lambda a: (a / "arrays.npz").write_bytes(b"x" * (a / "arrays.npz").stat().st_size), "truncated or altered"),
    ],
)
def test_damage_is_named(tmp_path, damage, message):
    write_archive(tmp_path / "a", "test", header={}, arrays={"n": np.ones(2)})
    damage(tmp_path / "a")
    with pytest.raises(ArchiveError, match=message) as caught:
        read_archive(tmp_path / "a", "test")
    assert str(tmp_path / "a") in str(caught.value)


def test_absent_and_other_kind(tmp_path):
    with pytest.raises(ArchiveError, match="there is nothing here"):
        read_archive(tmp_path / "a", "test")
    write_archive(tmp_path / "a", "checkpoint", header={}, arrays={})
    with pytest.raises(ArchiveError, match="of kind 'checkpoint'; 'mixture' was asked for"):
        read_archive(tmp_path / "a", "mixture")
    assert is_archive(tmp_path / "a")
    assert not is_archive(tmp_path / "a", "mixture")
    assert not is_archive(tmp_path)
