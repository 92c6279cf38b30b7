"""The family that the guide for plugin authors builds works as printed, and clusters data."""

import re
import sys
from pathlib import Path
from types import ModuleType

import numpy as np

from expfam import Mixture
from expfam.plugins.conformance import check_family
from expfam.samplers import CollapsedMetropolis

GUIDE = Path(__file__).resolve().parents[1] / "docs" / "plugins.md"


def test_the_guides_family_keeps_the_laws_and_clusters(monkeypatch):
    code = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), flags=re.S)[0]
    guide = ModuleType("guide")
    monkeypatch.setitem(sys.modules, "guide", guide)  # where pickle looks for the class
    exec(compile(code, str(GUIDE), "exec"), vars(guide))
    coin = guide.Coin
    report = check_family(coin())
    assert report.passed
    X = np.repeat(np.eye(4, dtype=int), 15, axis=0)
    assert Mixture(coin(a=0.1, b=0.1), n_steps=20, random_state=0).fit(X).n_components_ == 4


def test_the_guides_proposal_moves_data():
    code = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), flags=re.S)[-1]
    guide = ModuleType("guide")
    exec(compile(code, str(GUIDE), "exec"), vars(guide))
    X = np.repeat([[0, 5], [9, 1]], 30, axis=0)
    kernel = CollapsedMetropolis(guide.ByFirstCount(), mode="crossfit")
    mixture = Mixture("poisson", 6, sampler=kernel, n_steps=30, random_state=0).fit(X)
    assert mixture.n_components_ <= 4
    assert set(mixture.labels_[:30]).isdisjoint(mixture.labels_[30:])


def test_every_doc_points_to_things_that_exist():
    root = GUIDE.parents[1]
    for page in [*GUIDE.parent.glob("*.md"), root / "README.md", root / "CHANGELOG.md"]:
        for target in re.findall(
            r"`((?:tests|plugins|structures|samplers|expfam|asv_bench|docs)/[\w./-]+)`", page.read_text()
        ):
            assert (root / target.rstrip("/")).exists(), f"{page.name} names {target}"
