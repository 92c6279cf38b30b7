"""Files that say what the project is agree with its metadata: citation, conda recipe, wheels."""

import json
import re
import sys
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
METADATA = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = METADATA["project"]
RECIPE = ROOT / ".conda" / "recipe.yaml"
WHEELS = ROOT / ".github" / "workflows" / "wheels.yml"


def entries(text, name):
    """Return the list below a key of a YAML text, as written."""
    (found,) = re.findall(rf"^ *{name}:\n((?: +- .*\n)+)", text, flags=re.MULTILINE)
    return [line.strip().removeprefix("- ") for line in found.splitlines()]


def spaced(requirement):
    """Return a requirement as conda writes it."""
    return re.sub(r"^([\w-]+)(?=[<>=])", r"\1 ", requirement)


def test_the_citation_is_of_this_version():
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    facts = dict(re.findall(r"^([\w-]+): (.+)$", text, flags=re.MULTILINE))
    assert facts["cff-version"] == "1.2.0"
    assert facts["version"] == PROJECT["version"]
    assert facts["license"] == PROJECT["license"]
    assert [author["name"] for author in PROJECT["authors"]] == re.findall(r"^  - name: (.+)$", text, re.MULTILINE)


@pytest.mark.skipif(not RECIPE.exists(), reason="needs the checkout")
def test_the_recipe_has_the_requirements_of_the_metadata():
    text = RECIPE.read_text(encoding="utf-8")
    assert f'version: "{PROJECT["version"]}"' in text
    assert entries(text, "run") == [f"python {PROJECT['requires-python']}", *map(spaced, PROJECT["dependencies"])]
    assert set(map(spaced, METADATA["build-system"]["requires"])) == set(entries(text, "host")) - {"python", "pip"}
    assert entries(text, "entry_points") == [f"{name} = {to}" for name, to in PROJECT["scripts"].items()]


@pytest.mark.skipif(not RECIPE.exists(), reason="needs the checkout")
def test_the_recipe_has_what_its_functions_ask_for():
    # `stdlib` has no default: without a variants file beside the recipe nothing is built
    named = set(re.findall(r"\$\{\{ (compiler|stdlib)\('(\w+)'\) \}\}", RECIPE.read_text(encoding="utf-8")))
    assert named == {("compiler", "c"), ("stdlib", "c")}
    variants = RECIPE.with_name("variants.yaml").read_text(encoding="utf-8")
    for key in ("c_stdlib", "c_stdlib_version"):
        (body,) = re.findall(rf"^{key}:\n((?:  .*\n)+)", variants, flags=re.MULTILINE)
        assert re.findall(r"if: (\w+)", body) == ["linux", "osx"]
        assert len(re.findall(r"then: \S+", body)) == 2
    versions = [text.strip('"').removesuffix(".*") for text in entries(variants, "python")]
    wheels = [name for name in METADATA["tool"]["cibuildwheel"]["build"].split() if not name.endswith("t-*")]
    assert [f"cp{version.replace('.', '')}-*" for version in versions] == wheels


@pytest.mark.skipif(not RECIPE.exists(), reason="needs the checkout")
def test_the_recipe_has_the_parts_of_its_format():
    text = RECIPE.read_text(encoding="utf-8")
    parts = re.findall(r"^(\w+):", text, flags=re.MULTILINE)
    assert sorted(parts) == [
        "about",
        "build",
        "context",
        "package",
        "requirements",
        "schema_version",
        "source",
        "tests",
    ]
    (folder,) = re.findall(r"^source:\n  path: (.+)$", text, flags=re.MULTILINE)
    assert (RECIPE.parent / folder).resolve() == ROOT
    (licence,) = re.findall(r"^  license_file: (.+)$", text, flags=re.MULTILINE)
    assert (ROOT / licence).is_file()


@pytest.mark.skipif(not WHEELS.exists(), reason="the workflows are no part of the sdist")
def test_wheels_are_made_for_every_python_and_platform():
    made = METADATA["tool"]["cibuildwheel"]["build"].split()
    assert made == [*(f"cp3{minor}-*" for minor in range(10, 15)), "cp314t-*"]
    assert made[0] == f"cp{PROJECT['requires-python'].removeprefix('>=').replace('.', '')}-*"
    systems = re.findall(r"\bos: \[(.+)\]", WHEELS.read_text(encoding="utf-8"))[0].split(", ")
    assert {system.partition("-")[0] for system in systems} == {"ubuntu", "macos"}
    assert any(system.endswith("-arm") for system in systems)


@pytest.mark.skipif(not WHEELS.exists(), reason="the workflows are no part of the sdist")
def test_every_python_of_a_wheel_is_tested_before():
    text = WHEELS.with_name("ci.yml").read_text(encoding="utf-8")
    tested = set(re.findall(r'python(?:-version)?: "(3\.\d+)"', text))
    wheels = METADATA["tool"]["cibuildwheel"]["build"].split()
    assert {f"cp{version.replace('.', '')}-*" for version in tested} == {name for name in wheels if "t-" not in name}


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", "CODE_OF_CONDUCT.md", "docs/versions.md"])
def test_links_lead_somewhere(name):
    page = ROOT / name
    targets = re.findall(r"\]\((?!https?:|#)([^)\s#]+)", page.read_text(encoding="utf-8"))
    assert targets
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_environments_of_benchmarks_have_all_that_the_package_needs():
    # wheels are installed there without what they depend on
    settings = json.loads((ROOT / "asv_bench" / "asv.conf.json").read_text(encoding="utf-8"))
    needed = {re.split(r"[<>=]", line)[0] for line in PROJECT["dependencies"]}
    assert needed <= set(settings["matrix"]["req"])
