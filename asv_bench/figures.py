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
    all_axes[-1, 0].xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    all_axes[-1, 0].xaxis.set_major_formatter("{x:g}")
    all_axes[-1, 0].xaxis.set_minor_formatter(NullFormatter())
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
    figure.legend(*all_axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=4, frameon=False)
    figure.savefig(path, dpi=160)
    plt.close(figure)


def _focus(axes, values):
    """Limits that show the better nine tenths: a bad start would press all curves together."""
    low, high = sorted(values)[len(values) // 10], max(values)
    axes.set_ylim(low - 0.05 * (high - low) - 1e-6, high + 0.05 * (high - low) + 1e-6)


def _clean(axes):
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="#e8ecef", lw=0.8)
    axes.set_axisbelow(True)
