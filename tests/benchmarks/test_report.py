"""The report of all protocols says what ran, what failed and what was left out, and is never green for nothing."""

import argparse
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parents[2] / "asv_bench" / "protocols"
sys.path.insert(0, str(HERE))
import everything  # noqa: E402

SCRIPT = """
import sys
print("a table", *sys.argv[1:])
if "--figure" in sys.argv:
    open(sys.argv[-1], "wb").write(b"picture")
sys.exit("broken" if "fail" in sys.argv else 0)
"""


@pytest.fixture
def protocols(monkeypatch, tmp_path):
    (tmp_path / "some.py").write_text(SCRIPT)
    monkeypatch.setattr(everything, "HERE", tmp_path)

    def use(*given):
        monkeypatch.setattr(
            everything, "PROTOCOLS", [everything.Protocol(f"No {i}", "some.py", **g) for i, g in enumerate(given)]
        )
        code = everything.main(["--output", str(tmp_path / "report")])
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


def test_a_protocol_without_its_picture_fails(protocols):
    code, text = protocols({"command": "walk", "picture": "--other"})
    assert code == 1
    assert "**Failed**: no picture" in text


def sub_commands(script):
    """Protocols that a script offers."""
    module = importlib.import_module(script.removesuffix(".py"))
    if hasattr(module, "parser"):
        (commands,) = [a for a in module.parser()._actions if isinstance(a, argparse._SubParsersAction)]
        return set(commands.choices)
    return set(module.PROTOCOLS) if hasattr(module, "PROTOCOLS") else None


def test_every_protocol_of_every_script_is_in_the_report_with_arguments_that_it_takes(tmp_path):
    scripts = {
        path.name
        for path in HERE.glob("*.py")
        if "argparse" in path.read_text() and path.stem not in ("everything", "gate", "certificate")
    }
    assert scripts == {protocol.script for protocol in everything.PROTOCOLS}
    for script in sorted(
        scripts
        - {"structures.py", "plugins.py", "versions.py", "defaults.py", "tables.py", "many_machines.py", "reproduce.py"}
        - {"scale.py"}
    ):  # these have one that runs all
        named = {p.command.split()[0] for p in everything.PROTOCOLS if p.script == script}
        assert named == sub_commands(script), script
        module = importlib.import_module(script.removesuffix(".py"))
        for protocol in everything.PROTOCOLS:
            if protocol.script == script and hasattr(module, "parser"):
                for profile in (protocol.quick, protocol.full):
                    picture = [protocol.picture, "x.png"] if protocol.picture else []
                    data = ["--data", "x"] if protocol.wants_data else []
                    module.parser().parse_args([*protocol.command.split(), *profile.split(), *data, *picture])


@pytest.mark.parametrize("script", sorted(path.name for path in HERE.glob("*.py") if "argparse" in path.read_text()))
def test_every_script_starts_in_a_process_of_its_own(script, tmp_path):
    # an import that only works after another script has been imported passes the tests above
    done = subprocess.run(
        [sys.executable, str(HERE / script), "--help"], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"usage: {script}")
