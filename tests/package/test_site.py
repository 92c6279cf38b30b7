"""The site: each page is listed once, its links lead to pages, and each public name has a place in the reference."""

import importlib
import re
from pathlib import Path

import pytest
from api_pages import api_page, escaped, write_api
from reference_page import MODULES, public

DOCS = Path(__file__).resolve().parents[2] / "docs"
MADE = {"_build", "api", "auto_gallery"}  # by sphinx
PAGES = sorted(page for page in DOCS.rglob("*.md") if not MADE & set(page.relative_to(DOCS).parts))
LISTED = re.compile(r"```\{toctree\}\n(.*?)```", re.DOTALL)


def listed():
    """Return the pages that the tables of contents name, in order."""
    for page in PAGES:
        for block in LISTED.findall(page.read_text(encoding="utf-8")):
            for line in block.splitlines():
                if line and not line.startswith(":"):
                    yield (page.parent / line).relative_to(DOCS).as_posix()


def test_every_page_is_in_the_contents_once():
    found = [name for name in listed() if not name.startswith(("api/", "auto_gallery/"))]
    wanted = [page.relative_to(DOCS).with_suffix("").as_posix() for page in PAGES]
    assert sorted([*found, "index"]) == sorted(wanted)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(DOCS).as_posix())
def test_links_lead_to_pages_and_headings(page):
    for target in re.findall(r"\]\((?!https?:|#)([^)\s]+)\)", page.read_text(encoding="utf-8")):
        name, _, heading = target.partition("#")
        file = (page.parent / name).resolve()
        if MADE & set(file.relative_to(DOCS.parent).parts):
            continue
        assert file.exists(), target
        headings = re.findall(r"^#+ (.+)$", file.read_text(encoding="utf-8"), flags=re.M) if heading else []
        anchors = [re.sub(r"[^a-z0-9 _-]", "", each.lower()).replace(" ", "-") for each in headings]
        assert not heading or heading in anchors, target


def test_the_reference_of_the_site_lists_every_public_name():
    text = api_page()
    for module in MODULES:
        part = text.split(f".. currentmodule:: {module}\n")[1].split(".. currentmodule::")[0]
        assert sorted(re.findall(r"^   (\w+)$", part, flags=re.M)) == public(module, importlib.import_module(module))


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("Rows of labels_ and |x| alone.", r"Rows of labels\_ and \|x\| alone."),
        ("The literals ``labels_`` and `n_` stay.", "The literals ``labels_`` and `n_` stay."),
        ("See [1]_ and a_name.", "See [1]_ and a_name."),
        ("The page docs/settings.md says more.", "The page :doc:`/settings` says more."),
        (":param x_: as it is", ":param x_: as it is"),
    ],
)
def test_characters_of_docstrings_stand_for_themselves(line, wanted):
    assert escaped([line]) == [wanted]


def test_examples_in_docstrings_are_left_alone():
    lines = [">>> a | b", "x_ | y", "", "x_"]
    assert escaped(lines) == [">>> a | b", "x_ | y", "", r"x\_"]


def test_pages_of_names_that_are_gone_are_dropped(tmp_path):
    (tmp_path / "generated").mkdir()
    for name in ("expfam.Mixture", "expfam.NeverThere"):
        (tmp_path / "generated" / f"{name}.rst").write_text(name)
    write_api(tmp_path / "index.rst")
    assert [page.stem for page in (tmp_path / "generated").iterdir()] == ["expfam.Mixture"]
    assert (tmp_path / "index.rst").read_text() == api_page()
