"""The list of faults that `mutants.py` puts in: each still fits its file, and names tests that exist."""

import re
import shlex
from pathlib import Path

import mutants
import pytest
from faults import FAULTS

ROOT = Path(__file__).resolve().parents[2]


def test_names_differ_and_there_are_many():
    assert len({fault.name for fault in FAULTS}) == len(FAULTS) >= 60


def test_every_old_text_occurs_once_and_is_changed():
    texts = {path: (ROOT / path).read_text() for path in {fault.path for fault in FAULTS}}
    wrong = [
        (fault.name, texts[fault.path].count(fault.old)) for fault in FAULTS if texts[fault.path].count(fault.old) != 1
    ]
    assert not wrong, f"the old text must occur once in its file; these occur as often as said: {wrong}"
    assert all(fault.old != fault.new for fault in FAULTS)


@pytest.mark.parametrize("selection", sorted({fault.tests for fault in FAULTS}))
def test_the_named_tests_exist(selection):
    words = shlex.split(selection)
    files = [word for word in words if word.startswith("tests/")]
    assert files
    text = "".join((ROOT / name.split("::")[0]).read_text() for name in files)
    for name in files:
        for function in name.split("::")[1:]:
            assert f"def {function.split('[')[0]}(" in text, f"{name} does not exist"
    if "-k" in words:
        text = text.lower()  # pytest does not mind the case
        chosen = re.sub(r"\b(and|or|not)\b|[()]", " ", words[words.index("-k") + 1].lower()).split()
        for word in chosen:
            assert word in text, f"no test of {files} has {word!r} in its name"


def test_only_python_and_cython_sources_are_changed():
    assert {Path(fault.path).suffix for fault in FAULTS} == {".py", ".pyx"}
    assert not any(fault.path.startswith("tests/") for fault in FAULTS)


def test_modules_are_named_as_they_are_built():
    assert mutants.module_of("samplers/proposals/_hash.pyx") == "expfam.samplers.proposals._hash"
    assert mutants.module_of("expfam/families/gaussian/storage.pyx") == "expfam.families.gaussian.storage"


def test_the_table_says_who_survived():
    fault, other = FAULTS[:2]
    results = {
        fault.name: {"key": mutants.key_of(fault), "outcome": ["caught", "test_a.py::test_b", 1.0]},
        other.name: {"key": mutants.key_of(other), "outcome": ["SURVIVED", "", 1.0]},
    }
    text = mutants.table(results)
    assert f"| {fault.name} | {fault.path} | test_a.py::test_b |" in text
    assert f"| {other.name} | {other.path} | SURVIVED |" in text
    assert "1 of 2 faults were found." in text
