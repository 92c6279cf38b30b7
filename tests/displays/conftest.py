"""Figures are drawn without a screen, and none stays open after a test."""

import matplotlib as mpl
import pytest

mpl.use("Agg")


@pytest.fixture(autouse=True)
def _no_figure_stays_open():
    from matplotlib import pyplot as plt

    yield
    plt.close("all")
