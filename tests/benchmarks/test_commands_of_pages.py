"""Figures of README and the pages are taken again by one command: each command beside them is one of its list."""

import importlib
import re
import shlex
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
sys.path.insert(0, str(ROOT / "asv_bench" / "protocols"))
import everything  # noqa: E402
from all_protocols import PROTOCOLS, Protocol  # noqa: E402

MADE = {"_build", "api", "auto_gallery"}  # by sphinx
PAGES = [ROOT / "README.md", *sorted(page for page in DOCS.rglob("*.md") if not MADE & set(page.parts))]
COMMAND = re.compile(
    r"`((?:python (?:-m asv_bench\.protocols\.|asv_bench/protocols/|tests/references/)\w+|asv run)[^`\n]*)`"
)
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
PLACES = {"data", "figure", "png", "json", "page", "out", "output", "folder", "remove", "kept"}  # of files
PARTS = {"reproduce": {"paper", "only"}, "certificate": {"only"}}  # a page names the part of a run that made a table
ITSELF = "everything"
HOW_TO = "development.md"  # commands without figures: they must only be understood


def meaning(line):
    """Program of a command and its settings, without where files lie; SystemExit where it does not take them."""
    words = shlex.split(line)
    if words[0] == "asv":
        return "asv", words[1:]
    if words[1].startswith("tests/"):
        return words[1], words[2:]
    script = words[2].rpartition(".")[2] if words[1] == "-m" else Path(words[1]).stem
    settings = vars(importlib.import_module(script).parser().parse_args(words[3 if words[1] == "-m" else 2 :]))
    return script, {name: value for name, value in settings.items() if name not in PLACES | PARTS.get(script, set())}


def commands(text):
    """The commands of a page, one by one."""
    lines = " ".join(re.sub(FENCE, "", text).split())  # a page may break a command
    return [part.strip() for line in COMMAND.findall(lines) for part in line.split("&&")]


def taken_again():
    """Meanings of the full profile."""
    return [meaning(everything.shown(protocol, words)) for protocol in PROTOCOLS for words in protocol.runs("full")]


NAMED = [(page.name, line) for page in PAGES for line in commands(page.read_text(encoding="utf-8"))]


@pytest.fixture(scope="module")
def full():
    return taken_again()


def test_pages_name_commands():
    assert len(NAMED) > 100
    assert {"measured.md", "reproduced.md", "coarsening.md", "embeddings.md"} <= {name for name, _ in NAMED}


@pytest.mark.parametrize(("page", "line"), NAMED)
def test_each_command_of_a_page_is_taken_again(page, line, full):
    found = meaning(line)
    assert page == HOW_TO or found[0] == ITSELF or found in full


@pytest.mark.parametrize("profile", ["quick", "full"])
@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda protocol: f"{protocol.script}-{protocol.title}")
def test_each_command_of_the_list_has_settings_that_the_protocol_takes(protocol, profile):
    picture = [protocol.picture, "x.png"] if protocol.picture else []
    data = ["--data", "x"] if protocol.wants_data or protocol.takes_data else []
    for words in protocol.runs(profile):
        meaning(everything.shown(protocol, [*words, *picture, *data]))


@pytest.mark.parametrize(
    "line",
    [
        "python asv_bench/protocols/canopy.py scaling --rows-grid many",
        "python -m asv_bench.protocols.answer drawn --set 60 --sweeps 3",
        "python asv_bench/protocols/real_data.py nothing",
    ],
)
def test_settings_that_a_protocol_does_not_take_are_found(line, capsys):
    with pytest.raises(SystemExit):
        meaning(line)


@pytest.mark.parametrize(
    "line",
    [
        "python asv_bench/protocols/real_data.py published --data DIR --seeds 21",
        "python -m asv_bench.protocols.answer drawn --sets 61",
        "asv run --bench step",
    ],
)
def test_other_settings_are_found(line, full):
    assert meaning(line) not in full


def test_defaults_and_places_of_files_make_no_other_command():
    short, long = (
        f"python asv_bench/protocols/fastex.py copies {more}" for more in ("", "--copies 256 --data DIR --json F")
    )
    assert meaning(short) == meaning(long)


def test_the_list_can_be_shown(capsys):
    assert everything.main(["--list", "--profile", "full", "--only", "answer", "asv"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert "python asv_bench/protocols/answer.py drawn --sets 60" in shown
    assert "asv run --python=same --bench 'families|step'" in shown
    assert all("--data" not in line for line in shown)


def test_runs_are_named_by_scripts_or_by_their_first_arguments_too(capsys):
    shown = []
    for name in ("answer", "answer drawn", "answer drawn --overlap"):
        assert everything.main(["--list", "--profile", "full", "--only", name]) == 0
        shown.append(set(capsys.readouterr().out.splitlines()))
    assert shown[0] > shown[1] > shown[2] == {"python asv_bench/protocols/answer.py drawn --overlap --sets 40"}
    assert everything.main(["--list", "--only", "answer dr"]) == 1


def test_a_run_is_left_out_of_the_quick_profile_or_made_several_times_in_full():
    protocol = Protocol("A", "a.py", "b", None, ("--c 1", "--d 'e f'"))
    assert protocol.runs("quick") == []
    assert protocol.runs("full") == [["b", "--c", "1"], ["b", "--d", "e f"]]


# ---- tables of figures -----------------------------------------------------------------------------------------------

FIGURE = re.compile(r"[-+~ *]*\d*\.\d+\b")


def sections(text):
    """Headings of a page, with what stands below each up to the next."""
    parts = re.split(r"^(#{1,4} .+)$", re.sub(FENCE, "", text), flags=re.M)
    return list(zip(parts[1::2], parts[2::2]))


def figures(body):
    """Cells of tables that are decimal numbers."""
    cells = [cell.strip() for line in body.splitlines() if line.startswith("|") for cell in line.split("|")]
    return [cell for cell in cells if FIGURE.match(cell)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_table_of_figures_has_its_command(page):
    if page.name == "certificate.md":  # one command above all tables
        return
    found = [
        heading
        for heading, body in sections(page.read_text(encoding="utf-8"))
        if len(figures(body)) > 2 and not commands(body)
    ]
    assert found == []
