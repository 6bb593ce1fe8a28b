"""Measure queuectl against the limits of this machine, and against its peers.

Everything that is compared is measured in one run, round by round in turns. Progress goes to
stderr, tables to stdout. A full run takes about an hour on a quiet machine with two cores; use
--only, --stores and --rounds for parts of it.
"""

import argparse
import json
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bench import machine, page, tables
from bench.figures import Book, Json
from bench.goals import MISSED, UNKNOWN
from bench.lab import SQLITE, STORES, Lab
from bench.measures import MEASURES
from bench.run import Runner, say
from bench.sizes import SIZES
from bench.subject import Measure

EXAMPLES = """\
examples:
  make bench                                      # everything, and the page
  make bench-quick                                # SQLite and the limit, in under two minutes
  python -m bench --list
  python -m bench --quick --only drain
  python -m bench --only drain,latency --stores sqlite,postgresql --rounds 3 --json /tmp/now.json
  python -m bench --only latency --renew docs/performance.json --page
  python -m bench.page docs/performance.json      # write the page again, without measuring

exit codes: 0 all was measured, 1 something could not be (it is named), 2 usage, 130 interrupted
"""


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--list", action="store_true", help="say what there is, and exit")
    parser.add_argument("--only", metavar="NAMES", help="these measures, with commas between them")
    parser.add_argument(
        "--stores",
        metavar="NAMES",
        help=f"some of {', '.join(STORES)} (default: all; with --quick, {SQLITE})",
    )
    parser.add_argument("--rounds", type=int, metavar="N", help="so many rounds of each measure")
    parser.add_argument(
        "--quick", action="store_true", help="small sizes, no peers: under two minutes"
    )
    parser.add_argument(
        "--size", choices=SIZES, help="how much is measured (tiny only shows that it works)"
    )
    parser.add_argument("--no-peers", action="store_true", help="ours and the limit only")
    parser.add_argument(
        "--renew",
        type=Path,
        metavar="FILE",
        help="take what isn't measured now from the figures of an earlier run",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures to this file")
    parser.add_argument(
        "--page", action="store_true", help="write docs/performance.md, its JSON and its plots"
    )
    args = parser.parse_args(argv)
    if args.rounds is not None and args.rounds < 1:
        parser.error("--rounds must be at least 1")
    if args.renew is not None and not args.renew.is_file():
        parser.error(f"there is no file {args.renew} to renew")
    args.measures = _chosen(parser, args.only, list(MEASURES), "measure")
    stores = args.stores or (SQLITE if args.quick else None)
    args.stores = _chosen(parser, stores, list(STORES), "store")
    args.size = args.size or ("quick" if args.quick else "full")
    return args


def _chosen(
    parser: argparse.ArgumentParser, asked: str | None, known: list[str], what: str
) -> list[str]:
    names = known if asked is None else asked.split(",")
    for name in names:
        if name not in known:
            parser.error(f"there is no {what} {name!r}; there is {', '.join(known)}")
    return [name for name in known if name in names]


def main(argv: Sequence[str] | None = None) -> int:
    """Measure what the command line asks for, and tell what was found."""
    args = arguments(argv)
    if args.list:
        print("\n".join(describe(measure) for measure in MEASURES.values()))
        return 0
    # Whoever ends us ends the servers and workers, too.
    signal.signal(signal.SIGTERM, _stop)
    try:
        return measure(args)
    except KeyboardInterrupt:
        say("interrupted; all that was started has been stopped")
        return 130


def _stop(*_: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(128 + signal.SIGTERM)


def describe(measure: Measure) -> str:
    """Say what a measure is about, in a paragraph."""
    first, _, _ = measure.about.partition("\n\n")
    return f"{measure.name:<10}{' '.join(first.split())}"


def measure(args: argparse.Namespace) -> int:
    """Run the measures and tell what they found; if interrupted, what they have found so far."""
    sizes = SIZES[args.size]
    rounds = {name: args.rounds or sizes.rounds.get(name, 1) for name in args.measures}
    about = machine.describe() | {"size": sizes.name, "stores": args.stores, "rounds": rounds}
    if machine.busy(about["load"][0]):
        say(f"this machine is busy (load {about['load'][0]}); the figures will mean little")
    book = Book()
    with Lab(sizes, stores=args.stores, peers=not (args.quick or args.no_peers)) as lab:
        runner = Runner(lab, book, rounds=args.rounds)
        try:
            for name in args.measures:
                runner.run(MEASURES[name])
        finally:
            if args.renew:
                book, about = renewed(args.renew, book, about, args.measures)
            results = tell(book, about, args)
        if args.page:
            page.write_page(results)
    return 1 if book.missing else 0


def renewed(path: Path, book: Book, about: Json, measures: Sequence[str]) -> tuple[Book, Json]:
    """Put what was measured now in the place of what an earlier run found."""
    earlier = json.loads(path.read_text())
    whole = Book.from_json(earlier)
    whole.renew(measures, book)
    again = {name: {key: about[key] for key in ("on", "commit", "load")} for name in measures}
    renewed = earlier["about"].get("renewed", {}) | again
    rounds = earlier["about"]["rounds"] | about["rounds"]
    # Of what both have, most figures are those of the earlier one.
    versions = about["versions"] | earlier["about"]["versions"]
    more = {"renewed": renewed, "rounds": rounds, "versions": versions}
    return whole, earlier["about"] | more


def tell(book: Book, about: Json, args: argparse.Namespace) -> Json:
    """Print the tables, and write all figures if that was asked for."""
    for table in tables.all_tables(book):
        print(f"\n{MEASURES[table.measure].title}\n")
        print(table.text())
    verdicts = tables.goals(book)
    known = replace(verdicts, rows=tuple(row for row in verdicts.rows if row[-1] != UNKNOWN))
    print(f"\nGoals\n\n{known.text()}")
    missed = sum(row[-1] == MISSED for row in known.rows)
    unknown = len(verdicts.rows) - len(known.rows)
    print(f"\n{missed} of {len(known.rows)} goals missed; {unknown} can't be told from this run.")
    for what, why in book.missing.items():
        print(f"Not measured: {what}: {why}")
    results = page.as_json(book, about)
    if args.json:
        args.json.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    return results


if __name__ == "__main__":
    sys.exit(main())
