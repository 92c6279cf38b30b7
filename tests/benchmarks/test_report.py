"""The report of all protocols says what ran, what failed and what was left out, and is never green for nothing."""

import argparse
import importlib
import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parents[2] / "asv_bench" / "protocols"
sys.path.insert(0, str(HERE))
import all_protocols  # noqa: E402
import everything  # noqa: E402

SCRIPT = """
import sys
print("a table", *sys.argv[1:])
if "--figure" in sys.argv:
    open(sys.argv[-1], "wb").write(b"picture")
sys.exit("broken" if "fail" in sys.argv else "fall_short" in sys.argv)
"""


@pytest.fixture
def protocols(monkeypatch, tmp_path):
    (tmp_path / "some.py").write_text(SCRIPT)
    monkeypatch.setattr(everything, "HERE", tmp_path)

    def use(*given, profile="quick", data=None, options=()):
        monkeypatch.setattr(
            everything, "PROTOCOLS", [all_protocols.Protocol(f"No {i}", "some.py", **g) for i, g in enumerate(given)]
        )
        more = ["--data", str(data)] if data else []
        code = everything.main(["--output", str(tmp_path / "report"), "--profile", profile, *more, *options])
        return code, (tmp_path / "report" / "report.md").read_text()

    return use


def test_commands_tables_and_pictures_are_in_the_report(protocols, tmp_path):
    code, text = protocols({"command": "walk", "quick": "--rows 5"}, {"command": "draw", "picture": "--figure"})
    assert code == 0
    assert "a table walk --rows 5" in text
    assert "`python asv_bench/protocols/some.py draw --figure 02.png`" in text
    assert "![No 1](02.png)" in text
    assert (tmp_path / "report" / "02.png").read_bytes() == b"picture"


def test_a_protocol_that_fails_fails_the_report_and_the_others_run(protocols):
    code, text = protocols({"command": "fail"}, {"command": "walk"})
    assert code == 1
    assert "**Failed** with status 1" in text
    assert "broken" in text
    assert "a table walk" in text


def test_a_goal_that_is_not_reached_is_told_from_a_failure(protocols):
    code, text = protocols({"command": "fall_short"}, {"command": "fail"})
    assert code == 1
    head = text[: text.index("## No 0")]
    assert "Failed: No 1.\n\nMissed: No 0." in head
    assert "| 1 | No 0 | MISSED |" in head
    assert "**Missed**: a goal is not reached." in text
    assert text.count("**Failed**") == 1


def test_nothing_that_ran_is_no_success(protocols):
    code, text = protocols({"command": "walk", "wants_data": True})
    assert code == 1
    assert "Left out, for want of --data: No 0." in text


def test_the_report_begins_with_what_happened(protocols):
    _, text = protocols({"command": "walk"}, {"command": "fail"}, {"command": "walk", "wants_data": True})
    head = text[: text.index("## No 0")]
    assert "Failed: No 1." in head
    assert "| 1 | No 0 | done |" in head
    assert "| 2 | No 1 | FAILED |" in head
    assert "Left out, for want of --data: No 2." in head


def test_a_missing_folder_of_data_is_named_and_its_protocols_left_out(protocols, tmp_path, capsys):
    protocols({"command": "walk"}, {"command": "walk", "wants_data": True})
    missing = tmp_path / "nowhere"
    assert everything.main(["--data", str(missing), "--output", str(tmp_path / "report")]) == 0
    assert f"--data {missing}: there is no such folder" in capsys.readouterr().out
    text = (tmp_path / "report" / "report.md").read_text()
    assert "Left out, for want of --data: No 1." in text


def test_a_protocol_may_run_several_times_or_in_full_alone(protocols):
    more = {"command": "walk", "quick": None, "full": ("--far", "--near")}
    _, text = protocols({"command": "stand"}, more)
    assert "walk" not in text
    code, text = protocols({"command": "stand"}, more, profile="full")
    assert code == 0
    assert text.index("a table stand") < text.index("a table walk --far") < text.index("a table walk --near")


def test_the_report_is_there_before_the_last_run_has_ended(protocols, tmp_path, monkeypatch):
    before, one = [], everything.run

    def watched(*arguments):
        before.append((tmp_path / "report" / "report.md").read_text())
        return one(*arguments)

    monkeypatch.setattr(everything, "run", watched)
    protocols({"command": "walk"}, {"command": "stand"})
    assert ["a table walk" in text for text in before] == [False, True]


def test_a_report_is_made_in_pieces(protocols, tmp_path, monkeypatch, capsys):
    some = [{"command": "fail"}, {"command": "walk", "picture": "--figure"}, {"command": "stand"}]
    code, text = protocols(*some, options=["--hours", "0"])
    assert code == 1
    assert "a table" not in text
    assert "0 runs, 0 failed, 0 missed a goal, 0 left out, 3 not begun: go on with --resume" in capsys.readouterr().out
    protocols(*some[:2])
    made, one = [], everything.run
    monkeypatch.setattr(everything, "run", lambda protocol, *more: made.append(protocol.title) or one(protocol, *more))
    code, text = protocols(*some, options=["--resume"])
    assert code == 1
    assert made == ["No 0", "No 2"]  # what failed is made again
    assert text.index("broken") < text.index("a table walk") < text.index("a table stand")
    assert "![No 1](02.png)" in text
    made.clear()
    protocols(*some)
    assert made == ["No 0", "No 1", "No 2"]


def test_pictures_keep_their_names_where_few_are_asked_for(protocols, tmp_path):
    some = [{"command": "stand"}, {"command": "walk", "picture": "--figure"}]
    (tmp_path / "other.py").write_text(SCRIPT)
    protocols(*some)
    everything.PROTOCOLS[0] = everything.PROTOCOLS[0]._replace(script="other.py")
    (tmp_path / "report" / "02.png").unlink()
    assert everything.main(["--output", str(tmp_path / "report"), "--only", "some"]) == 0
    assert (tmp_path / "report" / "02.png").exists()


def test_data_go_to_the_protocols_that_take_them(protocols, tmp_path):
    some = [{"command": "walk", "takes_data": True}, {"command": "stand", "wants_data": True}, {"command": "sit"}]
    _, text = protocols(*some)
    assert "a table walk\n" in text
    _, text = protocols(*some, data=tmp_path)
    assert f"a table walk --data {tmp_path}" in text
    assert f"a table stand --data {tmp_path}" in text
    assert "a table sit\n" in text


def test_packages_that_lack_are_named_before_the_first_run(protocols, monkeypatch, capsys):
    monkeypatch.setattr(everything, "find_spec", lambda name: None if name in ("faiss", "gensim") else name)
    protocols({"command": "walk"})
    assert capsys.readouterr().out.startswith(
        "not installed: faiss, gensim; what needs them fails: python -m pip install '.[bench]'"
    )
    monkeypatch.setattr(everything, "find_spec", lambda name: name)
    protocols({"command": "walk"})
    assert "not installed" not in capsys.readouterr().out


def test_the_packages_are_those_of_the_extra():
    text = (HERE.parents[1] / "pyproject.toml").read_text(encoding="utf-8")
    (extra,) = re.findall(r"^bench = \[(.*)\]$", text, flags=re.MULTILINE)
    names = {name.replace("-cpu", "") for name in re.findall(r'"([\w-]+)', extra)}
    assert names == set(everything.BENCH)


def test_a_protocol_without_its_picture_fails(protocols):
    code, text = protocols({"command": "walk", "picture": "--other"})
    assert code == 1
    assert "**Failed**: no picture" in text


def sub_commands(script):
    """Protocols that a script offers."""
    module = importlib.import_module(script.removesuffix(".py"))
    nested = [a for a in module.parser()._actions if isinstance(a, argparse._SubParsersAction)]
    return set(nested[0].choices) if nested else set(module.PROTOCOLS)


def test_every_protocol_of_every_script_is_in_the_report():
    scripts = {
        path.name
        for path in HERE.glob("*.py")
        if "argparse" in path.read_text() and path.stem not in ("everything", "gate")
    }
    listed = {protocol.script for protocol in all_protocols.PROTOCOLS}
    assert {script for script in listed if "/" not in script} == scripts | {"asv"}
    assert all((HERE.parents[1] / script).is_file() for script in listed if "/" in script)
    with_one_that_runs_all = {"structures.py", "tables.py", "reproduce.py"}
    with_one_alone = {"plugins.py", "versions.py", "defaults.py", "many_machines.py", "scale.py", "certificate.py"}
    for script in sorted(scripts - with_one_that_runs_all - with_one_alone):
        named = {
            words[0]
            for p in all_protocols.PROTOCOLS
            if p.script == script
            for words in [*p.runs("full"), *p.runs("quick")]
        }
        assert named == sub_commands(script), script


@pytest.mark.parametrize("script", sorted(path.name for path in HERE.glob("*.py") if "argparse" in path.read_text()))
def test_every_script_starts_in_a_process_of_its_own(script, tmp_path):
    # an import that only works after another script has been imported passes the tests above
    done = subprocess.run(
        [sys.executable, str(HERE / script), "--help"], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"usage: {script}")


def test_programs_of_other_folders_run_from_any_folder(tmp_path):
    others = [protocol for protocol in all_protocols.PROTOCOLS if "/" in protocol.script]
    assert others
    for protocol in others:
        done = subprocess.run(everything.program(protocol), cwd=tmp_path, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        assert len(done.stdout.splitlines()) > 3


NEEDS_THE_EXTRA = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in everything.BENCH), reason="python -m pip install '.[bench]'"
)


@pytest.mark.slow
@NEEDS_THE_EXTRA
def test_every_protocol_runs_to_its_end(tmp_path):
    everything.main(["--output", str(tmp_path)])  # goals are those of full sizes, and of an idle machine
    runs = json.loads((tmp_path / "runs.json").read_text())
    assert len(runs) > 50
    assert [each["text"] for each in runs if each["outcome"] == "FAILED"] == []


@pytest.mark.slow
@NEEDS_THE_EXTRA
def test_every_benchmark_runs_once(tmp_path):
    options = {"cwd": HERE.parent, "env": {**os.environ, "HOME": str(tmp_path)}, "capture_output": True, "text": True}
    for words in (["machine", "--yes"], ["run", "--python=same", "--quick", "--dry-run"]):
        done = subprocess.run([sys.executable, "-m", "asv", *words], check=False, **options)
        assert done.returncode == 0, done.stdout[-5000:] + done.stderr
