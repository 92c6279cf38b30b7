"""The report of all protocols says what ran, what failed and what was left out, and is never green for nothing."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "asv_bench"))
import everything

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
    assert "`python asv_bench/some.py draw --figure 02.png`" in text
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


def test_every_protocol_exists():
    for protocol in everything.PROTOCOLS:
        script = (Path(everything.__file__).parent / protocol.script).read_text()
        assert protocol.command.split()[0] in script if protocol.command else True
