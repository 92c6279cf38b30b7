"""docs/reproduced.md and its figures, made of the results of asv_bench/reproduced and of nothing else."""

from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
from figures import SYSTEM_STYLES, _clean
from matplotlib.ticker import LogFormatterSciNotation, LogLocator, MaxNLocator, NullFormatter

PAPERS = {
    "fastex": "FastEx: Ahmed, Ravi, Narayanamurthy and Smola 2012, hash clustering with exponential families",
    "canopy": "Canopy: Zaheer, Kottur, Ahmed and Smola 2017, fast sampling with cover trees",
    "sparse": "Sparse posteriors: Hughes and Sudderth 2016, fast learning of clusters and topics",
    "splitmerge": "Split-merge: Luo and Shrivastava 2018, split-merge MCMC with locality sensitive sampling",
    "bhc": "Bayesian hierarchical clustering: Heller and Ghahramani 2005, and an account of 2008 of an implementation",
}
HEAD = """# The tables and figures of the five papers, made again

The package implements five published systems. This page shows the tables and figures of the papers, and beside them
what the package gives. Where we **differ** to our disadvantage, or from what a paper claims, the word is bold and the
reason stands beside it. The data of most papers cannot be had; each row names the nearest that can.

{counts}

Rows in quick mode come from small data: they show that the command works, and orders of magnitude. The command without
`--quick` measures a row at full size, all of them within two hours on two idle cores. All seconds are CPU
seconds of the process. `DIR` holds `text/*.npz` and `dense/*.npz`; [measured.md](measured.md) says what they are.

```sh
pip install . matplotlib tomotopy gensim pyrmallet        # in a checkout; the last three are rivals of one row
python asv_bench/protocols/reproduce.py --data DIR        # everything; with the name fastex, that paper's part
python asv_bench/protocols/reproduce.py --data DIR --quick   # small sizes, some minutes
```

All numbers, with the machine, version, threads and command of each row, are in
`asv_bench/reproduced`, one file a row. This page is made from them alone.
"""
MANY = 25  # points from which a line has no markers
MANY_DIGITS = 1e4  # from where on thousands are set apart
TAIL = """## What cannot be shown

- Wikipedia by category (FastEx), PubMed (split-merge), New York Times (sparse posteriors), MNIST8m and CIFAR-100
  (Canopy) are not at hand; each row says what stands in. Of the CIFAR-100 half of Canopy's table 1 there is nothing: no
  set of coloured pictures with a hundred classes is at hand, and another set would say nothing about its numbers.
- Figures 5 and 7 of Canopy are pictures of the nearest images of clusters in a crawl of 100 million images. Their
  features need a network of 200 layers, and twenty graphics processors for five days.
- Seconds of the papers are of their machines. Orders of magnitude and growth compare, single numbers do not.
"""


def page(results, rows):
    """Text of the page, of the results by the name of the row."""
    lines = [HEAD.format(counts=counts(results, rows))]
    for paper, title in PAPERS.items():
        of_paper = [row for row in rows if row.paper == paper]
        lines += [f"## {title}", ""]
        for row in of_paper:
            lines += section(row, results.get(row.name))
    return "\n".join([*lines, TAIL])


def counts(results, rows):
    """How many rows were measured, and how."""
    made = [results[row.name] for row in rows if row.name in results]
    n_full = sum(found["mode"] == "full" for found in made)
    n_differ = sum(any(line["differs"] for line in found["table"]) for found in made)
    minutes = sum(found["CPU seconds"] for found in made if found["mode"] == "full") / 60
    spent = f" Those in full size took {minutes:.0f} CPU minutes together." if n_full else ""
    return (
        f"**{len(made)} of {len(rows)} rows have a figure**: {n_full} in full size, {len(made) - n_full} in quick"
        f" mode; in {n_differ} of them something differs.{spent}"
    )


def section(row, found):
    """Lines of one row."""
    lines = [f"### {row.title}", "", row.of_paper, ""]
    if found is None:
        return [*lines, f"Not measured yet: `python asv_bench/protocols/reproduce.py --only {row.name} --data DIR`", ""]
    lines += ["| | paper | ours | |", "|---|---|---|---|"]
    for line in found["table"]:
        verdict = f"**differs**: {line['reason']}" if line["differs"] else ""
        lines.append(f"| {line['what']} | {line['paper']} | {line['ours']} | {verdict} |")
    lines += ["", f"![{row.title}](images/reproduced/{row.name}.png)", ""]
    if found.get("says"):
        lines += [found["says"], ""]
    return [*lines, made_from(found), ""]


def made_from(found):
    """Data, mode, machine, threads and command of a row, as one list."""
    at = found["machine"]
    kind = "**Quick mode**: small data" if found["mode"] == "quick" else "Full mode"
    threads = "one thread" if found["threads"] == 1 else f"{found['threads']} threads"
    return (
        f"- Data: {found['data']}\n- {kind}; {threads}; {at['processor']}, {at['cores']} cores, {at['BLAS']};"
        f" version {found['version']}; {found['CPU seconds']:g} CPU seconds\n- Command: `{found['command']}`"
    )


def draw(found, path):
    """The figure of a row: its panels in lines of two, papers' numbers as points."""
    panels = found["panels"]
    names = list(dict.fromkeys(name for each in panels for name in each["curves"]))
    n_columns = min(2, len(panels))
    n_lines = -(-len(panels) // n_columns)
    width = 6.4 if n_columns == 1 else 9.0
    n_words = max(map(len, names)) + 6  # characters that a name and its line take
    most = max(1, min(4, len(names), int(11.0 * width / n_words)))
    of_legend = 0 if all(named_by_ticks(each) for each in panels) else -(-len(names) // most)
    size = (width, 0.3 + 0.22 * of_legend + 3.5 * n_lines)
    figure, all_axes = plt.subplots(n_lines, n_columns, squeeze=False, figsize=size, layout="constrained")
    handles = {}
    for axes, each in zip(all_axes.flat, panels):
        handles |= draw_panel(axes, each, names)
    for axes in all_axes.flat[len(panels) :]:
        axes.set_visible(False)
    if of_legend:
        columns = -(-len(names) // of_legend)  # lines of nearly equal length
        figure.legend(handles.values(), handles, loc="outside lower center", ncols=columns, frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100)
    plt.close(figure)


def named_by_ticks(panel):
    """Whether the words of the axis name all curves."""
    return set(panel["curves"]) <= set(panel["ticks"])


def system_of(name):
    """What a curve is of, without the words that tell the paper's numbers from ours."""
    for word in ("paper", "ours"):
        name = name.removesuffix(f", {word}").removeprefix(f"{word}, ")
    return name


def side_by_side(panel):
    """By name, how far the points of a panel with words as ticks are moved so that they do not cover each other."""
    curves = panel["curves"]
    if not panel["ticks"] or named_by_ticks(panel):
        return dict.fromkeys(curves, 0.0)
    return {name: 0.09 * (place - 0.5 * (len(curves) - 1)) for place, name in enumerate(curves)}


def draw_panel(axes, panel, names):
    """One panel; its lines by name. The paper's numbers have the colour of ours."""
    handles, moved = {}, side_by_side(panel)
    systems = list(dict.fromkeys(map(system_of, names)))
    for name, (x, y) in panel["curves"].items():
        place = systems.index(system_of(name))
        x = [value + moved[name] for value in x]
        is_dashed = place >= len(SYSTEM_STYLES) or name.startswith("paper, ")
        dash = "--" if is_dashed else "-"
        style = {"ls": "", "marker": "D", "ms": 5} if name in panel["marks"] else {"ls": dash, "marker": "o", "ms": 3}
        if len(x) >= MANY:
            style["marker"] = ""
        colour = SYSTEM_STYLES[place % len(SYSTEM_STYLES)]
        handles[name] = axes.plot(x, y, color=colour, lw=1.6, label=name, **style)[0]
    axes.set(title=panel["title"], xlabel=panel["x"], ylabel=panel["y"])
    for axis in panel["log"]:
        getattr(axes, f"set_{axis}scale")("log")
    _plain_decades(axes, panel["log"])
    _plain_numbers(axes, panel)
    _clean(axes)
    return handles


def _plain_numbers(axes, panel):
    """No offsets on linear axes, whole numbers at whole numbers, and words where there are some."""
    for axis in set("xy") - set(panel["log"]):
        axes.ticklabel_format(axis=axis, style="plain", useOffset=False)
        if max(map(abs, getattr(axes, f"get_{axis}lim")())) >= MANY_DIGITS:
            getattr(axes, f"{axis}axis").set_major_formatter("{x:,.0f}")
    if "x" not in panel["log"] and all(x == int(x) for xs, _ in panel["curves"].values() for x in xs):
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if panel["ticks"]:
        axes.set_xticks(range(len(panel["ticks"])), panel["ticks"])
        axes.margins(x=0.15)


def _plain_decades(axes, log):
    """Plain numbers at 1, 2 and 5 of each decade; at decades alone where they are many."""
    for name in log:
        axis, (low, high) = getattr(axes, f"{name}axis"), getattr(axes, f"get_{name}lim")()
        axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 500 * low else (1,)))
        axis.set_major_formatter("{x:,g}" if high < 1e6 else LogFormatterSciNotation())
        axis.set_minor_formatter(NullFormatter())


def write(results, rows, path, images):
    """Write the page, and the figures of these results."""
    for name, found in results.items():
        draw(found, Path(images) / f"{name}.png")
    path.write_text(page(results, rows), encoding="utf-8")
