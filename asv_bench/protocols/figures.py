"""Figures of the protocols that are run by hand."""

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.ticker import LogLocator, NullFormatter

# colours that the colour-blind tell apart (Okabe and Ito), the same for a kernel in every figure
STYLES = {
    "sem_dense": ("#1f5a85", "-"),
    "sem_tree": ("#d55e00", "-"),
    "printed": ("#999999", "-"),
    "anchored": ("#009e73", "-"),
    "em": ("#1f5a85", "--"),
    "sklearn_diag": ("#cc79a7", "--"),
    "sklearn_spherical": ("#cc79a7", ":"),
}


def draw_curves(curves, titles, path):
    """Log likelihood above and, where known, purity below, against CPU seconds; a line for each seed and kernel."""
    keys = ["log_likelihood"]
    if any(p["purity"] is not None for of_seed in curves for points in of_seed.values() for p in points):
        keys.append("purity")
    figure, all_axes = plt.subplots(
        len(keys), 1, sharex=True, squeeze=False, figsize=(7, 3.2 * len(keys)), layout="constrained"
    )
    for axes, key in zip(all_axes[:, 0], keys):
        for seed, of_seed in enumerate(curves):
            for name, points in of_seed.items():
                colour, line = STYLES[name]
                label = titles[name] if seed == 0 and points else None
                x, y = [p["cpu"] for p in points], [p[key] for p in points]
                axes.plot(x, y, line, color=colour, lw=1.6, marker="o", ms=2.5, label=label)
        axes.set_xscale("log")
        axes.set_ylabel({"log_likelihood": "held-out log likelihood (nats a row)", "purity": "purity"}[key])
        _focus(axes, [p[key] for of_seed in curves for points in of_seed.values() for p in points])
        _clean(axes)
    all_axes[-1, 0].set_xlabel("CPU seconds")
    _seconds(all_axes[-1, 0])
    all_axes[0, 0].legend(frameon=False, fontsize="small")
    figure.savefig(path, dpi=160)
    plt.close(figure)


def draw_scaling(rows, titles, path):
    """CPU seconds of a sweep against data, clusters and columns, three panels with logarithmic axes."""
    figure, all_axes = plt.subplots(1, 3, sharey=True, figsize=(10, 3.6), layout="constrained")
    for axes, (axis, word) in zip(all_axes, [("n", "data"), ("K", "clusters"), ("d", "columns")]):
        for name in dict.fromkeys(row["kernel"] for row in rows):
            points = [(row[axis], row["CPU s"]) for row in rows if row["kernel"] == name and row["grows"] == axis]
            colour, line = STYLES[name]
            axes.plot(*zip(*points), line, color=colour, lw=1.6, marker="o", ms=3, label=titles[name])
        axes.set(xscale="log", yscale="log", xlabel=word)
        sizes = sorted({row[axis] for row in rows if row["grows"] == axis})
        axes.set_xticks(sizes, [f"{size / 1000:g}k" if size >= 10_000 else str(size) for size in sizes])
        axes.tick_params(axis="x", which="minor", bottom=False, labelbottom=False)
        _clean(axes)
    all_axes[0].set_ylabel("CPU seconds a sweep")
    figure.get_layout_engine().set(wspace=0.06)  # the last size of a panel and the first of the next
    figure.legend(*all_axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=4, frameon=False)
    figure.savefig(path, dpi=160)
    plt.close(figure)


def draw_climbs(curves, truth, path):
    """Log joint against moves and against seconds, side by side; a line for each seed, a colour for each kernel."""
    figure, all_axes = plt.subplots(1, 2, sharey=True, figsize=(9, 3.8), layout="constrained")
    names = list(dict.fromkeys(name for of_seed in curves for name in of_seed))
    for axes, key in zip(all_axes, ["moves", "seconds"]):
        for seed, of_seed in enumerate(curves):
            for name, points in of_seed.items():
                shown = [p for p in points if p[key] > 0]
                colour = f"C{names.index(name)}"
                label = name if seed == 0 else None
                values = [p["log_joint"] for p in shown]  # each holds until the next step ends
                x = [p[key] for p in shown]
                axes.plot(x, values, color=colour, lw=1.4, label=label, drawstyle="steps-post")
        axes.axhline(truth, color="#333333", lw=0.8, ls=":", label="true labels")
        axes.set(xscale="log", xlabel={"moves": "moves (splits, merges, single data)", "seconds": "seconds"}[key])
        _clean(axes)
    _seconds(all_axes[1])
    all_axes[0].set_ylabel("log joint (nats)")
    figure.legend(*all_axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=5, frameon=False)
    figure.savefig(path, dpi=160)
    plt.close(figure)


def draw_by_sparsity(curves, path):
    """Held-out log likelihood against CPU seconds, a panel for each K, a line for each number kept; dense is dashed."""
    sizes, kept = sorted({c["K"] for c in curves}), list(dict.fromkeys(c["L"] for c in curves))
    colours = dict(zip(kept, plt.get_cmap("viridis")([0.92 * i / max(1, len(kept) - 1) for i in range(len(kept))])))
    figure, all_axes = plt.subplots(
        1, len(sizes), squeeze=False, figsize=(3.6 * len(sizes) + 1.0, 3.8), layout="constrained"
    )
    for axes, K in zip(all_axes[0], sizes):
        of_size = [c for c in curves if c["K"] == K]
        for c in of_size:
            x, y = [p["CPU"] for p in c["points"]], [p["held-out"] for p in c["points"]]
            style = {"color": "black", "ls": "--"} if c["L"] == "dense" else {"color": colours[c["L"]]}
            axes.plot(x, y, lw=1.6, marker="o", ms=3, label=c["L"], **style)
        axes.set(title=f"K = {K}", xlabel="CPU seconds", xscale="log")
        _seconds(axes)
        _focus(axes, [p["held-out"] for c in of_size for p in c["points"]])
        _clean(axes)
    all_axes[0, 0].set_ylabel("held-out log likelihood (nats a patch)")
    handles = all_axes[0, 0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside upper center", ncols=min(len(kept), 3 * len(sizes)), frameon=False)
    figure.savefig(path, dpi=160)
    plt.close(figure)


TOPIC_STYLES = {
    "unigram": ("#333333", ":"),
    "gibbs": ("#009e73", "-"),
    "gibbs, last": ("#009e73", "--"),
    "gibbs, eta learned": ("#009e73", "-."),
    "fit": ("#0072b2", "-"),
    "fit, eta held": ("#0072b2", "-."),
    "active": ("#d55e00", "-"),
    "active, stochastic": ("#d55e00", ":"),
    "active, learned": ("#d55e00", "--"),
    "dense": ("#1f5a85", "-"),
    "tokens": ("#e69f00", "-"),
    "tomotopy": ("#cc79a7", "--"),
    "tomotopy, mean": ("#cc79a7", "-"),
    "gensim": ("#999999", "-"),
    "mallet": ("#cc79a7", ":"),
    "scikit-learn online": ("#56b4e9", "-"),
    "scikit-learn batch": ("#56b4e9", "--"),
}


def draw_topic_scores(rows, path):
    """Held-out score against CPU seconds: a panel for each data set and number of topics, a line for each method."""
    panels = list(dict.fromkeys((row["data"], row["K"]) for row in rows))
    n_columns = min(3, len(panels))
    n_lines = -(-len(panels) // n_columns)
    width = max(7.0, 4.2 * n_columns)  # room for the legend
    figure, all_axes = plt.subplots(
        n_lines, n_columns, squeeze=False, figsize=(width, 0.8 + 3.2 * n_lines), layout="constrained"
    )
    handles = {}
    for axes, (name, K) in zip(all_axes.flat, panels):
        here = [row for row in rows if (row["data"], row["K"]) == (name, K)]
        for method in dict.fromkeys(row["method"] for row in here):
            points = [(row["CPU s"], row["score"]) for row in here if row["method"] == method]
            colour, line = TOPIC_STYLES[method]
            if method == "unigram":
                handles[method] = axes.axhline(points[0][1], ls=line, color=colour, lw=1.2)
                continue
            handles[method] = axes.plot(*zip(*points), line, color=colour, lw=1.6, marker="o", ms=2.5, label=method)[0]
        axes.set(xscale="log", title=f"{name}, {K} topics", xlabel="CPU seconds")
        _seconds(axes)
        _focus(axes, [row["score"] for row in here])
        _clean(axes)
    for axes in all_axes.flat[len(panels) :]:
        axes.set_visible(False)
    for axes in all_axes[:, 0]:
        axes.set_ylabel("held-out nats a token")
    figure.legend(handles.values(), handles, loc="outside upper center", ncols=max(4, 2 * n_columns), frameon=False)
    figure.savefig(path, dpi=160)
    plt.close(figure)


SYSTEM_STYLES = ("#1f5a85", "#d55e00", "#009e73", "#cc79a7", "#999999", "#e69f00", "#56b4e9", "#333333")


def draw_systems(panels, rows, unit, path):
    """Curves against seconds: a column of panels for each data set, a row for each quantity, a line for each system."""
    names = list(dict.fromkeys(name for curves in panels.values() for name in curves))
    figure, all_axes = plt.subplots(
        len(rows),
        len(panels),
        sharex="col",
        squeeze=False,
        figsize=(max(5.5, 4.6 * len(panels)), 1.0 + 2.9 * len(rows)),
        layout="constrained",
    )
    handles = {}
    for of_panel, (title, curves) in zip(all_axes.T, panels.items()):
        for axes, key in zip(of_panel, rows):
            for name, points in curves.items():
                x, y = [max(p["seconds"], 1e-4) for p in points], [p[key] for p in points]
                style = {"color": SYSTEM_STYLES[names.index(name)], "lw": 1.6, "drawstyle": "steps-post"}
                ends = sorted({0, len(x) - 1})
                handles[name] = axes.plot(x, y, marker="o", ms=3.5, markevery=ends, label=name, **style)[0]
            axes.set_xscale("log")
            if key == "clusters":
                axes.set_yscale("log")
                axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
                axes.yaxis.set_major_formatter("{x:g}")
                axes.yaxis.set_minor_formatter(NullFormatter())
            else:
                _focus(axes, [p[key] for points in curves.values() for p in points])
                axes.ticklabel_format(axis="y", style="plain", useOffset=False)
            _clean(axes)
        of_panel[0].set_title(title)
        of_panel[-1].set_xlabel(unit)
        _seconds(of_panel[-1])
    for axes, word in zip(all_axes[:, 0], rows.values()):
        axes.set_ylabel(word)
    labels = [handle.get_label() for handle in handles.values()]
    figure.legend(handles.values(), labels, loc="outside upper center", ncols=min(3, len(labels)), frameon=False)
    figure.savefig(path, dpi=160)
    plt.close(figure)


def draw_dendrogram(hierarchy, path):
    """The top of a tree, merges in the colours of their odds."""
    from expfam.displays.dendrogram import DendrogramDisplay

    display = DendrogramDisplay.from_estimator(hierarchy).plot(n_tips=40)
    display.figure_.savefig(path, dpi=160, bbox_inches="tight")
    plt.close(display.figure_)


def _seconds(axes):
    """Plain numbers at 1, 2 and 5 of each decade; at decades alone where they are many."""
    low, high = axes.get_xlim()
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 500 * low else (1,)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter(NullFormatter())


def _focus(axes, values):
    """Limits that show the better nine tenths: a bad start would press all curves together."""
    low, high = sorted(values)[len(values) // 10], max(values)
    axes.set_ylim(low - 0.05 * (high - low) - 1e-6, high + 0.05 * (high - low) + 1e-6)
    for line in axes.lines:
        if len(line.get_ydata()) and max(line.get_ydata()) < axes.get_ylim()[0] and line.get_label()[0] != "_":
            line.set_label(f"{line.get_label()} (below {axes.get_ylim()[0]:.4g})")


def _clean(axes):
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="#e8ecef", lw=0.8)
    axes.set_axisbelow(True)
