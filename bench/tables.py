"""Figures as tables: one for each measure, and one of the goals. Ratios come with them."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from bench.figures import Book, Figure, Summary
from bench.goals import GOALS, judge
from bench.peers.roster import TASK_PEERS

STORES = {"sqlite": "SQLite", "postgresql": "PostgreSQL", "mariadb": "MariaDB"}
OTHERS = {
    "xargs": "xargs -P",
    "sh": "sh, without a queue",
    "apsw": "raw APSW",
    "psycopg": "raw psycopg",
    "parallel": "GNU parallel",
    "task-spooler": "task-spooler",
    "handler": "queuectl on SQLite, with a handler",
    **{peer.name: peer.title for peer in TASK_PEERS},
}
PARTS = {
    "enqueue": "enqueue, one by itself: the call",
    "bulk": "enqueue, among many: the call",
    "passes": "**run, among many: the time that passes**",
    "claim": "at the store: claim",
    "end": "at the store: note its end",
    "commit": "at the store: begin and commit, with its sync",
    "hand": "in the node: hand it to its program",
    "hear": "in the node: hear of its end",
    "judge": "in the node: decide what becomes of it",
    "settle": "in the node: log it, and tidy up",
    "rest": "in the node: the rest of the loop",
    "node": "**processors: the node**, with what is above",
    "programs": "processors: the programs that run tasks",
    "guards": "processors: the guards",
    "server": "processors: the database server",
}
DASHBOARD = {
    "overview": "overview with all jobs of a month, p95, ms",
    "jobs": "its jobs, p95, ms",
    "search": "a text that none of them has, p95, ms",
    "paint": "first paint of the overview in a browser, p95, ms",
    "streams/one": "statements a change while one listens",
    "streams/many": "statements a change while all listen",
    "alone": "drain alone, jobs/s",
    "beside": "drain beside open dashboards, jobs/s",
}
AGAINST = {"streams/many": "streams/one", "beside": "alone"}
COMMANDS = {
    "enqueue": "queuectl enqueue true",
    "help": "queuectl --help",
    "imports": 'python -c "import click, apsw"',
    "python": "python -c pass",
}
NONE = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Headings and rows; the first column is text, the others are figures."""

    measure: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def markdown(self) -> str:
        """Write it for a page."""
        line = "|---|" + "---:|" * (len(self.headings) - 1)
        rows = [self.headings, *self.rows]
        written = ["| " + " | ".join(row) + " |" for row in rows]
        return "\n".join([written[0], line, *written[1:]])

    def text(self) -> str:
        """Write it for a terminal."""
        rows = [self.headings, *self.rows]
        widths = [max(len(row[n]) for row in rows) for n in range(len(self.headings))]
        return "\n".join(
            "  ".join(
                cell.rjust(width) if n else cell.ljust(width)
                for n, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        )


def all_tables(book: Book) -> list[Table]:
    """Return the tables of all measures of which there are figures."""
    made = [make(book) for make in _MAKERS]
    return [table for table in made if table.rows]


def goals(book: Book) -> Table:
    """Return the goals, each with what was found."""
    rows = []
    for goal in GOALS:
        verdict = judge(goal, book)
        found = NONE if verdict.found is None else spread(verdict.found)
        if verdict.found is not None and verdict.is_close:
            # Two digits would hide on which side of the bound it is.
            found = found.replace(number(verdict.found.median), f"{verdict.found.median:.4f}", 1)
        rows.append((goal.about, goal.bound, found, verdict.status))
    return Table(measure="goals", headings=("goal", "must be", "is", "verdict"), rows=tuple(rows))


# -- one for each measure ---------------------------------------------------------------


def drain(book: Book) -> Table:
    """Return rates, and how they compare with xargs."""
    best = book.best("drain/xargs/*")
    found = [*book.matching("drain/*/*"), *book.matching("drain/*/*/*")]
    limits = [figure for figure in found if figure.id.startswith("drain/xargs/")]
    peers = book.matching("drain/peer/*")
    ours = [figure for figure in found if figure not in limits and figure not in peers]
    peers.sort(key=lambda figure: -figure.summary.median)
    rows = [
        (
            _drainer(figure),
            spread(figure.summary),
            ratio(figure, best),
            ratio(figure, book.figures.get(f"drain/xargs/{figure.id.split('/')[2]}")),
        )
        for figure in (*limits, *ours, *peers)
    ]
    # Which number is the quickest is chance within a few hundredths: so it is named.
    quickest = "the best xargs" if best is None else f"xargs -P {best.id.rpartition('/')[2]}"
    headings = ("who", "jobs/s", f"x {quickest}", "x xargs with as many workers")
    return Table(measure="drain", headings=headings, rows=tuple(rows))


def duel(book: Book) -> Table:
    """Return the rates of each pair, and their ratio."""
    rows = []
    for ours in book.matching("duel/*/ours"):
        store, _, workers = ours.id.split("/")[1].partition("-")
        limit = book.figures.get(f"duel/{ours.id.split('/')[1]}/limit")
        name = f"{STORES[store]}, {workers} workers each" if workers else STORES[store]
        theirs = NONE if limit is None else spread(limit.summary)
        both = NONE if limit is None else spread(ours.over(limit))
        rows.append((name, spread(ours.summary), theirs, both))
    headings = ("queuectl on", "jobs/s", "xargs, jobs/s", "ratio")
    return Table(measure="duel", headings=headings, rows=tuple(rows))


def latency(book: Book) -> Table:
    """Return milliseconds until a job starts."""
    columns = [f"{how}/{share}" for how in ("idle", "load", "backlog") for share in ("p50", "p99")]
    rows = _grid(book, "latency", columns, lambda figure: spread(figure.summary))
    headings = ("who", *(f"{column.replace('/', ' ')}, ms" for column in columns))
    return Table(measure="latency", headings=headings, rows=rows)


def enqueue(book: Book) -> Table:
    """Return rates, and how they compare with raw inserts."""
    columns = ("single", "threaded", "bulk", "jsonl")

    def cell(figure: Figure) -> str:
        return spread(figure.summary) + _over_limit(book, figure)

    headings = ("who", *(f"{column}, jobs/s" for column in columns))
    return Table(measure="enqueue", headings=headings, rows=_grid(book, "enqueue", columns, cell))


def _over_limit(book: Book, figure: Figure) -> str:
    _, subject, how = figure.id.split("/")
    limit = {"sqlite": "apsw", "postgresql": "psycopg"}.get(subject)
    other = book.figures.get(f"enqueue/{limit}/{'bulk' if how == 'jsonl' else how}")
    return f"; {ratio(figure, other)} x raw" if other else ""


def api(book: Book) -> Table:
    """Return rates of the API and of programs, and how they compare."""
    rows = []
    for figure in book.matching("api/*/api"):
        store = figure.id.split("/")[1]
        threads, alone = (book.figures.get(f"api/{store}/{how}") for how in ("threads", "alone"))
        cells = (_cell(figure), _cell(threads), ratio(figure, threads), _cell(alone))
        rows.append((who(store), *cells))
    headings = ("who", "API, jobs/s", "threads, jobs/s", "ratio", "one thread, jobs/s")
    return Table(measure="api", headings=headings, rows=tuple(rows))


def web(book: Book) -> Table:
    """Return what a dashboard costs."""
    found = [*book.matching("web/*/*"), *book.matching("web/*/*/*")]
    stores = list(dict.fromkeys(figure.id.split("/")[1] for figure in found))
    rows = []
    for part, title in DASHBOARD.items():
        cells = []
        for store in stores:
            figure = book.figures.get(f"web/{store}/{part}")
            other = book.figures.get(f"web/{store}/{AGAINST.get(part)}")
            more = f"; {ratio(figure, other)} x" if figure and other else ""
            cells.append(_cell(figure) + more)
        rows.append((title, *cells))
    headings = ("what", *(f"on {STORES[store]}" for store in stores))
    return Table(measure="web", headings=headings, rows=tuple(rows) if found else ())


def startup(book: Book) -> Table:
    """Return milliseconds, and how they compare with the least."""
    least = book.figures.get("startup/imports")
    least_cpu = book.figures.get("startup/imports/cpu")
    rows = []
    for figure in book.matching("startup/*"):
        cpu = book.figures[f"{figure.id}/cpu"]
        name = COMMANDS[figure.id.split("/")[1]]
        rows.append(
            (
                f"`{name}`",
                spread(figure.summary),
                ratio(figure, least),
                spread(cpu.summary),
                ratio(cpu, least_cpu),
            )
        )
    headings = ("command", "ms", "x the imports", "CPU, ms", "x their CPU")
    return Table(measure="startup", headings=headings, rows=tuple(rows))


def idle(book: Book) -> Table:
    """Return what idle workers take."""
    columns = ("cpu", "memory", "alone")
    rows = []
    for figure in book.matching("idle/*/*/cpu"):
        _, subject, workers, _ = figure.id.split("/")
        cells = [
            spread(book.figures[f"idle/{subject}/{workers}/{column}"].summary) for column in columns
        ]
        rows.append((f"{who(subject)}, {workers} workers", *cells))
    headings = ("who", "% of a CPU", "proportional, MB", "alone, MB")
    return Table(measure="idle", headings=headings, rows=tuple(rows))


def claims(book: Book) -> Table:
    """Return rates by the number of jobs in a transaction."""
    batches = _third_words(book.matching("claims/*/*"))
    rows = _grid(book, "claims", batches, lambda figure: spread(figure.summary))
    headings = ("store", *(f"{batch} at once, jobs/s" for batch in batches))
    return Table(measure="claims", headings=headings, rows=rows)


def size(book: Book) -> Table:
    """Return bytes per job."""
    columns = ("waiting", "finished", "output")
    rows = _grid(book, "size", columns, lambda figure: spread(figure.summary))
    headings = ("store", "waiting, bytes", "finished, bytes", "with 100 bytes of output, bytes")
    return Table(measure="size", headings=headings, rows=rows)


def backlog(book: Book) -> Table:
    """Return what things cost by the number of jobs, and how that compares with the fewest."""
    found = book.matching("backlog/*/*/*")
    sizes = sorted({int(figure.id.split("/")[2]) for figure in found})
    rows = []
    for store, what in dict.fromkeys((f.id.split("/")[1], f.id.split("/")[3]) for f in found):
        first = book.figures.get(f"backlog/{store}/{sizes[0]}/{what}")
        cells = []
        for size in sizes:
            figure = book.figures.get(f"backlog/{store}/{size}/{what}")
            text = NONE if figure is None else spread(figure.summary)
            if figure is not None and figure is not first:
                text += f"; {ratio(figure, first)} x"
            cells.append(text)
        unit = "jobs/s" if what == "drain" else "ms"
        rows.append((f"{what} on {STORES[store]}, {unit}", *cells))
    headings = ("what", *(f"{size:,} of each" for size in sizes))
    return Table(measure="backlog", headings=headings, rows=tuple(rows))


def tasks(book: Book) -> Table:
    """Return the rates of ours and of peers, and how they compare with the best of these."""
    peers = sorted(book.matching("tasks/peer/*"), key=lambda figure: -figure.summary.median)
    best = peers[0] if peers else None
    rows = tuple(
        (who(figure.id.split("/")[2]), spread(figure.summary), ratio(figure, best))
        for figure in (*book.matching("tasks/ours/*"), *peers)
    )
    quickest = "the best peer" if best is None else who(best.id.split("/")[2])
    return Table(measure="tasks", headings=("who", "tasks/s", f"x {quickest}"), rows=rows)


def warm(book: Book) -> Table:
    """Return milliseconds until a task starts."""
    rows = _grid(book, "warm", ("p50", "p95"), lambda figure: spread(figure.summary))
    return Table(measure="warm", headings=("who", "p50, ms", "p95, ms"), rows=rows)


def parts(book: Book) -> Table:
    """Return what the parts of a task take."""
    found = book.matching("parts/*/*")
    stores = list(dict.fromkeys(figure.id.split("/")[1] for figure in found))
    rows = [
        (title, *(_cell(book.figures.get(f"parts/{store}/{part}")) for store in stores))
        for part, title in PARTS.items()
    ]
    headings = ("microseconds of a task", *(f"on {STORES[store]}" for store in stores))
    return Table(measure="parts", headings=headings, rows=tuple(rows) if found else ())


def _cell(figure: Figure | None) -> str:
    return NONE if figure is None else spread(figure.summary)


_MAKERS: Sequence[Callable[[Book], Table]] = (
    drain,
    duel,
    latency,
    tasks,
    warm,
    parts,
    enqueue,
    api,
    startup,
    idle,
    claims,
    size,
    backlog,
    web,
)

# -- cells ------------------------------------------------------------------------------


def _grid(
    book: Book, measure: str, columns: Sequence[str], cell: Callable[[Figure], str]
) -> tuple[tuple[str, ...], ...]:
    """Return a row for each subject and a cell for each column."""
    subjects = dict.fromkeys(id.split("/")[1] for id in book.figures if id.split("/")[0] == measure)
    rows = []
    for subject in subjects:
        found = [book.figures.get(f"{measure}/{subject}/{column}") for column in columns]
        rows.append((who(subject), *(cell(one) if one else NONE for one in found)))
    return tuple(rows)


def _third_words(figures: Iterable[Figure]) -> list[str]:
    return list(dict.fromkeys(figure.id.split("/")[2] for figure in figures))


def _drainer(figure: Figure) -> str:
    _, subject, *rest = figure.id.split("/")
    if subject == "peer":
        return OTHERS[rest[0]]
    if subject == "xargs":
        return f"`xargs -P {rest[0]}`"
    nodes = f" in {rest[1]}" if len(rest) > 1 else ""
    return f"{who(subject)}, {rest[0]} worker{'' if rest[0] == '1' else 's'}{nodes}"


def who(subject: str) -> str:
    """Name a subject for people."""
    return f"queuectl on {STORES[subject]}" if subject in STORES else OTHERS[subject]


def ratio(figure: Figure, other: Figure | None) -> str:
    """Say how a figure compares with another of the same rounds."""
    if other is None or not figure.values.keys() & other.values.keys():
        return NONE
    return f"{figure.over(other).median:.2f}"


def spread(summary: Summary) -> str:
    """Write the median, with the lowest and the highest if there were several rounds."""
    middle = number(summary.median)
    if summary.rounds == 1:
        return middle
    return f"{middle} ({number(summary.low)}-{number(summary.high)})"


def number(value: float) -> str:
    """Write a figure with about three digits that mean something."""
    if value >= 100:
        return f"{value:,.0f}"
    if value >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if value >= 0.2 else f"{value:.3f}"
