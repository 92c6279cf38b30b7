"""Axes, colours and small helpers that all figures share."""

from expfam.amounts import counted

_INK, _SECOND, _PALE, _GREY = "#1f5a85", "#c8553d", "#c9dceb", "#5f6b76"
_CHAINS = (_INK, _SECOND, "#4b8f5c", "#8a6bb0", "#b08a3c", _GREY)  # colours of chains


def _pyplot():
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("drawing needs matplotlib: pip install 'expfam[plot]'") from error
    return plt


def _blank_axes(ax, size):
    if ax is None:
        _, ax = _pyplot().subplots(figsize=size, layout="constrained")
    ax.set_axis_off()
    return ax


def _clean(ax, *, grid):
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color("#b8c0c7")
    ax.tick_params(colors=_GREY)
    if grid is not None:
        ax.grid(axis=grid, color="#e8ecef", lw=0.8)
        ax.set_axisbelow(True)


def _amount(size, one="", many=None):
    """Return a number of rows in full, or a sum of weights with four digits, and a given noun."""
    is_whole = float(size).is_integer()
    number, spec = (int(size), ",") if is_whole else (size, ",.4g")
    return counted(number, one, many, spec) if one else format(number, spec)
