"""Draws the figures. matplotlib is only in the bench environment; without it nothing is drawn."""

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.figures import Book, Figure
from bench.tables import OTHERS, STORES, number, who

OURS, LIMIT, PEER = "#1f6f8b", "#8a8a8a", "#d9a441"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """A picture of a measure. Drawing says whether there was anything to draw."""

    measure: str
    title: str
    draw: Callable[[Book, Any], bool]


def draw(book: Book, folder: Path) -> list[str]:
    """Draw all that there are figures for, and return the names of the pictures."""
    if importlib.util.find_spec("matplotlib") is None:
        return []
    import matplotlib as mpl

    mpl.use("svg")
    # The same figures make the same file.
    mpl.rcParams |= {"svg.hashsalt": "queuectl", "font.size": 9, "svg.fonttype": "none"}
    import matplotlib.pyplot as plt

    folder.mkdir(exist_ok=True)
    drawn = []
    for name, plot in PLOTS.items():
        picture, axes = plt.subplots(figsize=(7.5, 4), layout="constrained")
        path = folder / f"{name}.svg"
        if plot.draw(book, axes):
            axes.set_title(plot.title)
            axes.spines[["top", "right"]].set_visible(False)
            picture.savefig(path, metadata={"Date": None})
            drawn.append(name)
        else:
            path.unlink(missing_ok=True)
        plt.close(picture)
    return drawn


def _bars(axes: Any, bars: list[tuple[str, Figure, str]], unit: str) -> bool:
    """Draw a bar for each figure, with its spread; the first on top."""
    for row, (label, figure, colour) in enumerate(reversed(bars)):
        found = figure.summary
        error = [[found.median - found.low], [found.high - found.median]]
        axes.barh(row, found.median, color=colour, xerr=error, ecolor="#444444", capsize=2)
        axes.annotate(
            f" {number(found.median)}",
            (found.high, row),
            va="center",
            fontsize=8,
        )
        axes.text(
            0, row, f"{label} ", ha="right", va="center", transform=axes.get_yaxis_transform()
        )
    axes.set_yticks([])
    axes.set_xlabel(unit)
    return bool(bars)


def _colour(subject: str) -> str:
    if subject in STORES or subject == "handler":
        return OURS
    return LIMIT if subject in ("xargs", "sh", "apsw", "psycopg") else PEER


def _drain(book: Book, axes: Any) -> bool:
    bars = []
    for subject in ("xargs", *STORES):
        if (best := book.best(f"drain/{subject}/*")) is not None:
            workers = best.id.rpartition("/")[2]
            label = (
                f"xargs -P {workers}"
                if subject == "xargs"
                else f"{who(subject)}, {workers} workers"
            )
            bars.append((label, best, _colour(subject)))
    peers = sorted(book.matching("drain/peer/*"), key=lambda figure: -figure.summary.median)
    bars += [(OTHERS[figure.id.rpartition("/")[2]], figure, PEER) for figure in peers]
    return _bars(axes, bars, "jobs per second, each at its best number of workers")


def _workers(book: Book, axes: Any) -> bool:
    for subject in ("xargs", *STORES):
        points = sorted(
            (int(f.id.rpartition("/")[2]), f) for f in book.matching(f"drain/{subject}/*")
        )
        _line(axes, who(subject), [n for n, _ in points], [f for _, f in points], _colour(subject))
    axes.set_xlabel("workers")
    axes.set_ylabel("jobs per second")
    axes.set_ylim(bottom=0)
    return _legend(axes)


def _latency(share: str) -> Callable[[Book, Any], bool]:
    def make(book: Book, axes: Any) -> bool:
        figures = book.matching(f"latency/*/idle/{share}")
        figures.sort(key=lambda figure: figure.summary.median)
        bars = [(who(f.id.split("/")[1]), f, _colour(f.id.split("/")[1])) for f in figures]
        axes.set_xscale("log")
        return _bars(axes, bars, f"ms from enqueue to start, {share}, idle (logarithmic)")

    return make


def _tasks(book: Book, axes: Any) -> bool:
    figures = [*book.matching("tasks/ours/*"), *book.matching("tasks/peer/*")]
    figures.sort(key=lambda figure: -figure.summary.median)
    words = [figure.id.split("/")[2] for figure in figures]
    bars = [(who(word), f, _colour(word)) for word, f in zip(words, figures, strict=True)]
    return _bars(axes, bars, "tasks per second, each at its best number of workers")


def _warm(book: Book, axes: Any) -> bool:
    figures = sorted(book.matching("warm/*/p50"), key=lambda figure: figure.summary.median)
    words = [figure.id.split("/")[1] for figure in figures]
    bars = [(who(word), f, _colour(word)) for word, f in zip(words, figures, strict=True)]
    axes.set_xscale("log")
    return _bars(axes, bars, "ms from enqueue to start, p50, idle (logarithmic)")


def _enqueue(how: str) -> Callable[[Book, Any], bool]:
    def make(book: Book, axes: Any) -> bool:
        figures = book.matching(f"enqueue/*/{how}")
        figures.sort(key=lambda figure: -figure.summary.median)
        bars = [(who(f.id.split("/")[1]), f, _colour(f.id.split("/")[1])) for f in figures]
        return _bars(axes, bars, "jobs per second")

    return make


def _memory(book: Book, axes: Any) -> bool:
    figures = book.matching("idle/*/*/memory")
    figures.sort(key=lambda figure: figure.summary.median)
    bars = []
    for figure in figures:
        _, subject, workers, _ = figure.id.split("/")
        bars.append((f"{who(subject)}, {workers} workers", figure, _colour(subject)))
    return _bars(axes, bars, "proportional memory, MB")


def _backlog(book: Book, axes: Any) -> bool:
    """Draw everything as a multiple of what it was with the fewest jobs; 1 is flat."""
    for store, style in (("sqlite", "-"), ("postgresql", "--"), ("mariadb", ":")):
        for colour, what in enumerate(("drain", "status", "list", "stats", "enqueue")):
            found = {int(f.id.split("/")[2]): f for f in book.matching(f"backlog/{store}/*/{what}")}
            if len(found) < 2:
                continue
            sizes = sorted(found)
            first = found[sizes[0]]
            ratios = [found[size].over(first).median for size in sizes]
            label = f"{what} on {STORES[store]}"
            axes.plot(sizes, ratios, style, color=f"C{colour}", marker="o", label=label)
    axes.set_xscale("log")
    axes.set_yscale("log", base=2)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.axhline(1, color="#444444", linewidth=0.8)
    axes.set_xlabel("jobs that wait, as many finished, as many delayed")
    axes.set_ylabel("x its value with the fewest")
    return _legend(axes)


def _line(axes: Any, label: str, x: list[int], figures: list[Figure], colour: str) -> None:
    if not figures:
        return
    found = [figure.summary for figure in figures]
    error = [[s.median - s.low for s in found], [s.high - s.median for s in found]]
    style = {"queuectl on PostgreSQL": "--", "queuectl on MariaDB": ":"}.get(label, "-")
    axes.errorbar(
        x,
        [one.median for one in found],
        yerr=error,
        label=label,
        color=colour,
        linestyle=style,
        marker="o",
        capsize=2,
    )


def _legend(axes: Any) -> bool:
    if not axes.get_legend_handles_labels()[1]:
        return False
    axes.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    return True


PLOTS = {
    "drain": Plot(measure="drain", title="Drain of true jobs", draw=_drain),
    "workers": Plot(measure="drain", title="Drain by the number of workers", draw=_workers),
    "latency-p50": Plot(measure="latency", title="Enqueue to start, p50", draw=_latency("p50")),
    "latency-p99": Plot(measure="latency", title="Enqueue to start, p99", draw=_latency("p99")),
    "tasks": Plot(measure="tasks", title="Drain of Python tasks", draw=_tasks),
    "warm": Plot(measure="warm", title="Enqueue to start of a task, p50", draw=_warm),
    "enqueue": Plot(measure="enqueue", title="Single enqueues", draw=_enqueue("single")),
    "bulk": Plot(measure="enqueue", title="Bulk enqueues", draw=_enqueue("bulk")),
    "memory": Plot(measure="idle", title="Memory of idle workers", draw=_memory),
    "backlog": Plot(measure="backlog", title="Cost against the backlog", draw=_backlog),
}
