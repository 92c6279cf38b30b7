"""What builds and releases the package: actions by commit, least permissions, requirements with an upper bound."""

import re
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".github" / "workflows"
WORKFLOWS = sorted(path.name for path in FOLDER.glob("*.y*ml"))
PROJECTS = sorted(
    str(path.relative_to(ROOT))
    for pattern in ("pyproject.toml", "plugins/*/*/pyproject.toml")
    for path in ROOT.glob(pattern)
)
PINNED = re.compile(r"uses: [\w./-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+")
RELEASING = {"attestations: write", "id-token: write"}

pytestmark = pytest.mark.skipif(not WORKFLOWS, reason="the workflows are no part of the sdist")


def unpinned(text):
    """Lines that use an action by a name that may come to mean another commit, or without saying its version."""
    lines = [line.strip().removeprefix("- ") for line in text.splitlines()]
    return [line for line in lines if re.match(r"uses\s*:", line) and not PINNED.fullmatch(line)]


FILLED_IN = "template-requirement"  # `expfam new family` writes the versions that the struct of this one serves


def unbounded(requirements):
    """Requirements that the next major version of something, whatever it breaks, would satisfy."""

    def is_bounded(requirement):
        operators = {spec.operator for spec in requirement.specifier}
        return bool(operators & {"<", "<=", "==", "~="}) and not requirement.specifier.contains(Version("9999"))

    return [text for text in requirements if not is_bounded(Requirement(text))]


@pytest.mark.parametrize("name", WORKFLOWS)
def test_actions_are_named_by_commit(name):
    text = (FOLDER / name).read_text()
    assert "uses:" in text
    assert unpinned(text) == []


@pytest.mark.parametrize(
    "line",
    [
        "- uses: actions/checkout@v4",
        "  uses: actions/checkout@main",
        "- uses: actions/checkout@34e1148",
        "- uses: actions/checkout@34e114876b0b11c390a56381ad16ebd13914f8d5",  # of which version?
        "- uses: docker://python:3.12",
        "uses : actions/checkout",
    ],
)
def test_the_judge_of_actions_sees_what_is_not_pinned(line):
    assert unpinned(line) == [line.strip().removeprefix("- ")]


@pytest.mark.parametrize("name", WORKFLOWS)
def test_workflows_may_read_and_the_releasing_job_alone_may_sign(name):
    text = (FOLDER / name).read_text()
    assert re.search(r"^permissions:\n  contents: read\n(?! )", text, re.MULTILINE), "for all jobs: read, and no more"
    granted = {line.strip() for line in text.splitlines() if re.search(r":\s*(write|write-all)\b", line)}
    assert granted == (RELEASING if name == "wheels.yml" else set())
    assert text.count("persist-credentials: false") == text.count("uses: actions/checkout@")


def test_the_job_that_signs_runs_no_code_of_others():
    """It has a token that speaks for the project: it fetches what other jobs made, and attests it."""
    text = (FOLDER / "wheels.yml").read_text()
    jobs = dict(re.findall(r"^  ([\w-]+):\n((?:    .*\n|\n)+)", text.partition("\njobs:\n")[2], re.MULTILINE))
    signing = [name for name, body in jobs.items() if "id-token: write" in body]
    assert signing == ["attest"]
    assert "run:" not in jobs["attest"]
    assert "needs: [wheels, sdist]" in jobs["attest"]
    assert "subject-path: dist/*" in jobs["attest"]


@pytest.mark.parametrize("name", PROJECTS)
def test_build_requirements_have_upper_bounds(name):
    requires = tomllib.loads((ROOT / name).read_text())["build-system"]["requires"]
    assert requires
    assert unbounded(each for each in requires if each != FILLED_IN) == []


def test_tools_that_build_the_release_have_upper_bounds():
    installed = re.findall(r"pip install (.*?)(?: &&|$)", (FOLDER / "wheels.yml").read_text(), re.MULTILINE)
    tools = [part.strip("'\"") for line in installed for part in line.split()]
    assert len(tools) >= 2
    assert unbounded(tools) == []


def test_the_judge_of_bounds_sees_what_has_none():
    texts = ["cython", "cython>=3.1", "cython>3,!=3.2", "cython>=3.1,<4", "cython==3.1.*", "cython~=3.1", "build<10000"]
    assert unbounded(texts) == ["cython", "cython>=3.1", "cython>3,!=3.2", "build<10000"]


def test_actions_are_kept_up_to_date():
    """A commit stays what it is, with the faults that it has: newer ones are proposed by themselves."""
    text = (ROOT / ".github" / "dependabot.yml").read_text()
    assert "package-ecosystem: github-actions" in text
