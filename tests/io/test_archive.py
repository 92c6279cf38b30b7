"""An archive gives back the bits that were written, replaces only its own kind, and names what is wrong with a file."""

import hashlib
import io
import json
import os
import subprocess
import sys
import threading
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
from killed_saves import WAYS
from scipy import sparse
from source_tree import TESTS

from expfam import archive, staging
from expfam.archive import check_place, is_archive, read_archive, write_archive
from expfam.errors import ArchiveError

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


@pytest.mark.parametrize("failing", [2, 3])
def test_failed_rename_restores_the_old_archive(failing, tmp_path, monkeypatch):
    """The first rename is refused while the old archive stands, the second sets it aside, the third takes its place."""
    monkeypatch.setattr(staging, "_exchange", lambda stage, target: False)
    write_archive(tmp_path / "a", "test", header={"value": 1}, arrays={})
    rename, calls = os.rename, []

    def fail_once(source, target):
        calls.append(target)
        if len(calls) == failing:
            raise OSError("disk on fire")
        rename(source, target)

    monkeypatch.setattr(os, "rename", fail_once)
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


# ---- saves that are killed, and saves at the same time -----------------------------------------------------------

posix_only = pytest.mark.skipif(os.name != "posix", reason="forks, and locks of directories")


@posix_only
@pytest.mark.parametrize("way", WAYS)
def test_a_save_killed_between_any_two_calls_loses_nothing(way, tmp_path):
    """A reader finds the old archive or the new one, and the next save leaves nothing of the killed one."""
    child = TESTS / "support" / "killed_saves.py"
    done = subprocess.run([sys.executable, child, tmp_path, way], capture_output=True, text=True, check=True)
    report = json.loads(done.stdout)
    assert report["faults"] == []
    assert report["kills"] > 60


def hidden(folder):
    return sorted(name for name in os.listdir(folder) if name.startswith("."))


def save(target, value):
    write_archive(target, "test", header={"value": value}, arrays={"n": np.full(3, value)})


@posix_only
@pytest.mark.parametrize("way", ["exchange", "fallback"])
def test_a_save_leaves_alone_what_another_process_is_writing(way, tmp_path, monkeypatch):
    """The other process stands right before it puts its archive in place; its save then succeeds."""
    if way == "fallback":
        monkeypatch.setattr(staging, "_exchange", lambda stage, target: False)
    target = tmp_path / "a"
    save(target, 1)
    code = (
        "import sys, numpy as np\n"
        "from expfam import archive\n"
        "put = archive.put_in_place\n"
        "def wait(*places):\n"
        "    print('here', flush=True); sys.stdin.readline(); put(*places)\n"
        "archive.put_in_place = wait\n"
        f"archive.write_archive({str(target)!r}, 'test', header={{'value': 2}}, arrays={{'n': np.full(3, 2)}})\n"
    )
    command = [sys.executable, "-P", "-c", code] if sys.version_info >= (3, 11) else [sys.executable, "-c", code]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=sys.prefix) as other:
        assert other.stdout.readline() == "here\n"
        (theirs,) = hidden(tmp_path)
        save(target, 3)
        assert hidden(tmp_path) == [theirs]
        assert read_archive(target, "test")[0] == {"value": 3}
        other.communicate("go\n")
    assert other.returncode == 0
    assert read_archive(target, "test")[0] == {"value": 2}
    assert hidden(tmp_path) == []


@posix_only
def test_a_reader_waits_for_a_save_between_its_two_renames(tmp_path, monkeypatch):
    """Where archives cannot be exchanged there is a moment without any; nothing is restored under a running save."""
    monkeypatch.setattr(staging, "_exchange", lambda stage, target: False)
    target, found = tmp_path / "a", []
    save(target, 1)
    reader = threading.Thread(target=lambda: found.append(read_archive(target, "test")[0]))
    rename = os.rename

    def slow(source, place):
        rename(source, place)
        if Path(source) == target:
            reader.start()
            reader.join(0.2)  # the reader has time to do harm

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", slow)
        save(target, 2)
    reader.join()
    assert found == [{"value": 2}]
    assert hidden(tmp_path) == []


@posix_only
def test_saves_at_the_same_time_all_succeed(tmp_path, monkeypatch):
    """The last one stays; readers in between find one or the other."""
    monkeypatch.setattr(staging, "_exchange", lambda stage, target: False)
    target, failed = tmp_path / "a", []
    save(target, 0)

    def work(value):
        try:
            for _ in range(20):
                save(target, value)
                assert read_archive(target, "test")[1]["n"].size == 3
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(value,)) for value in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert hidden(tmp_path) == []


@posix_only
def test_where_nothing_may_be_renamed_the_set_aside_archive_is_read_where_it_is(tmp_path, monkeypatch):
    target = tmp_path / "a"
    save(target, 1)
    os.rename(target, tmp_path / ".a.0123456789abcdef.old")

    def refuse(source, place):
        raise PermissionError(f"{source} may not be renamed")

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", refuse)
        assert read_archive(target, "test")[0] == {"value": 1}
        assert is_archive(target, "test")
    assert not target.exists()
    assert read_archive(target, "test")[0] == {"value": 1}
    assert target.exists()
    assert hidden(tmp_path) == []


# ---- files that declare what they do not hold --------------------------------------------------------------------


def rewritten(path, members, *, compression=zipfile.ZIP_STORED, **values):
    """Other bytes of members in an archive whose checksum fits them."""
    with zipfile.ZipFile(path / "arrays.npz", "w", compression) as file:
        for name, content in members.items():
            file.writestr(name + ".npy", content)
    edit(path / "header.json", sha256=hashlib.sha256((path / "arrays.npz").read_bytes()).hexdigest(), **values)


def npy(array, shape=None):
    stream = io.BytesIO()
    header = np.lib.format.header_data_from_array_1_0(array) | ({} if shape is None else {"shape": shape})
    np.lib.format.write_array_header_1_0(stream, header)
    return stream.getvalue() + array.tobytes()


@pytest.mark.parametrize("case", ["shape", "bomb", "object", "no array", "layout", "names", "deep header"])
def test_files_that_declare_what_they_do_not_hold_are_refused_before_memory_is_taken(case, tmp_path):
    path, n = tmp_path / "a", np.ones(2)
    write_archive(path, "test", header={}, arrays={"n": n})
    entry = {"layout": "dense", "dtype": "<f8", "shape": [2]}
    if case == "shape":
        rewritten(path, {"n": npy(n, (2**40,))}, arrays={"n": entry | {"shape": [2**40]}})
    elif case == "bomb":
        zeros = np.zeros(1 << 22)
        rewritten(path, {"n": npy(zeros)}, compression=zipfile.ZIP_DEFLATED, arrays={"n": entry | {"shape": [1 << 22]}})
    elif case == "object":
        rewritten(path, {"n": npy(np.array([None, None]))}, arrays={"n": entry | {"dtype": "|O"}})
    elif case == "no array":
        rewritten(path, {"n": b"hello"})
    elif case == "layout":
        rewritten(path, {"n": npy(n)}, arrays={"n": ["dense"]})
    elif case == "names":
        rewritten(path, {"n": npy(n), "n/b": npy(n)}, arrays={"n": entry, "n/b": entry})
    else:
        (path / "header.json").write_text("[" * 100_000)
    tracemalloc.start()
    with pytest.raises(ArchiveError, match=str(path)):
        read_archive(path, "test")
    assert tracemalloc.get_traced_memory()[1] < 10 << 20
    tracemalloc.stop()


def test_a_check_of_a_place_leaves_nothing_behind(tmp_path):
    check_place(tmp_path / "runs" / "first", "sums")
    assert list(tmp_path.iterdir()) == []
