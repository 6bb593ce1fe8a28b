"""Runs campaigns: `python -m tests.faults --help`. The targets of make call it."""

import argparse
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from random import SystemRandom
from time import monotonic
from typing import Any

import tests.faults.campaigns  # noqa: F401 - registers them
from tests.faults.arena import OwnServer, arena_in, new_server
from tests.faults.campaign import CAMPAIGNS, SQLITE, STORES, Campaign, Report
from tests.servers.install import install_missing
from tests.servers.shared import CHECKOUT


class Runner:
    """Runs campaigns one after the other, on servers that live as long as it does."""

    def __init__(self, results: Path | None, stack: ExitStack) -> None:
        self._results = results
        self._stack = stack
        self._servers: dict[str, OwnServer] = {}

    def run(self, campaign: Campaign, store: str, seed: int, sizes: Mapping[str, int]) -> bool:
        """Run a campaign, say what came of it, and tell whether all promises were kept."""
        folder = Path(tempfile.mkdtemp(prefix=f"queuectl-{campaign.name}-"))
        size = " ".join(f"{name}={many}" for name, many in sizes.items())
        print(f"{campaign.row:>2} {campaign.name} on {store}, seed {seed}, {size} ...", flush=True)
        began = monotonic()
        report = Report()
        try:
            with arena_in(folder, seed, store, self._server(store)) as arena:
                report = arena.report
                campaign.run(arena, sizes)
        except AssertionError as error:
            report.broken.append(str(error))
        seconds = monotonic() - began
        for name, figure in report.figures.items():
            print(f"     {name.replace('_', ' ')}: {figure}")
        for promise in report.broken:
            print(f"   BROKEN {promise}")
        verdict = "broken" if report.broken else "kept"
        print(f"   {verdict}, in {seconds:.0f} s", flush=True)
        if report.broken:
            print(f"   what is left of it: {folder}", flush=True)
        else:
            shutil.rmtree(folder, ignore_errors=True)
        self._write(campaign, store, seed, sizes, seconds, report)
        return not report.broken

    def _server(self, store: str) -> OwnServer | None:
        """Return the server of a store, running, whatever the last campaign did to it."""
        if store == SQLITE:
            return None
        if store not in self._servers:
            self._servers[store] = new_server(store)
            self._stack.callback(self._servers[store].close)
        server = self._servers[store]
        server.start()
        return server

    def _write(
        self,
        campaign: Campaign,
        store: str,
        seed: int,
        sizes: Mapping[str, int],
        seconds: float,
        report: Report,
    ) -> None:
        if self._results is None:
            return
        line = {
            "row": campaign.row,
            "campaign": campaign.name,
            "store": store,
            "seed": seed,
            "sizes": dict(sizes),
            "trials": report.figures.get(campaign.trials),
            "figures": report.figures,
            "broken": report.broken,
            "seconds": round(seconds),
            **machine(),
        }
        with self._results.open("a") as file:
            print(json.dumps(line), file=file)


def machine() -> dict[str, Any]:
    """Return what a result was obtained on."""
    git = ["git", "describe", "--always", "--dirty"]
    commit = subprocess.run(git, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    return {
        "on": f"{datetime.now(UTC):%Y-%m-%d}",
        "commit": commit.stdout.strip(),
        "machine": f"{os.cpu_count()} cores, Linux {platform.release().split('-')[0]},"
        f" Python {platform.python_version()}",
    }


def chosen(args: argparse.Namespace) -> Iterator[tuple[Campaign, str, dict[str, int]]]:
    """Return the campaigns to run, each with a store and its sizes."""
    known = {name for campaign in CAMPAIGNS.values() for name in campaign.long}
    if unknown := {name for name, _ in args.set} - known:
        sys.exit(f"No campaign has such a size: {', '.join(sorted(unknown))}.")
    if args.only and (unknown := set(args.only.split(",")) - CAMPAIGNS.keys()):
        sys.exit(f"No such campaign: {', '.join(sorted(unknown))}. See: --list")
    stores = args.store.split(",") if args.store else STORES
    if unknown := set(stores) - set(STORES):
        sys.exit(f"No such store: {', '.join(sorted(unknown))}; there is {', '.join(STORES)}.")
    for campaign in sorted(CAMPAIGNS.values(), key=lambda one: (one.row, one.name)):
        if args.only and campaign.name not in args.only.split(","):
            continue
        sizes = dict(campaign.long if args.long else campaign.short)
        sizes |= {name: many for name, many in args.set if name in sizes}
        if small := [name for name, many in sizes.items() if many < campaign.least(name)]:
            sys.exit(f"That is too small for {campaign.name}: {', '.join(small)}.")
        for store in campaign.stores:
            if store in stores:
                yield campaign, store, sizes


def size(text: str) -> tuple[str, int]:
    """Read NAME=NUMBER."""
    name, _, many = text.partition("=")
    return name, int(many)


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--seed", type=int, help="chance starts here (default: a new one)")
    parser.add_argument("--store", help=f"some of {', '.join(STORES)}, with commas (default: all)")
    parser.add_argument("--only", help="the names of campaigns, with commas (default: all)")
    parser.add_argument("--long", action="store_true", help="with the sizes of the table")
    parser.add_argument(
        "--set", type=size, action="append", default=[], help="another size: kills=20"
    )
    parser.add_argument("--repeat", type=int, default=1, help="run each so often, and count")
    parser.add_argument("--results", type=Path, help="append a line of JSON for each to this file")
    parser.add_argument("--list", action="store_true", help="list the campaigns and exit")
    return parser.parse_args(argv)


def main() -> int:
    """Run what the command line says; fail if any promise was broken."""
    args = arguments()
    if args.list:
        for campaign, store, sizes in chosen(args):
            print(campaign.row, campaign.name, store, sizes)
        return 0
    install_missing()
    # A shell starts what is in the background with SIGINT ignored, and nodes would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # Whoever ends us ends the nodes and servers, too: they would go on for ever.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    seed = SystemRandom().randrange(1_000_000) if args.seed is None else args.seed
    failed = []
    with ExitStack() as stack:
        runner = Runner(args.results, stack)
        for campaign, store, sizes in chosen(args):
            kept = [runner.run(campaign, store, seed, sizes) for _ in range(args.repeat)]
            if not all(kept):
                failed.append(f"{campaign.name} on {store}: {kept.count(False)} of {len(kept)}")
    for line in failed:
        print(f"Broken with seed {seed}: {line}.")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
