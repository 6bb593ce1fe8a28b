"""Run the measurements and print them: `python -m bench [--quick] [--stores]`."""

import sys
from statistics import median

from bench import lab, measures


def main() -> None:
    """Measure everything, the things to be compared in turns."""
    quick = "--quick" in sys.argv
    if "--stores" in sys.argv:
        compare_stores(rounds=1 if quick else 3, jobs=1000 if quick else 3000)
        return
    rounds, jobs = (1, 1000) if quick else (3, 4000)
    for workers in (4, 16):
        ours, limit = [], []
        for _ in range(rounds):
            limit.append(measures.xargs_rate(jobs, workers))
            ours.append(measures.drain_rate(jobs, workers))
        rate, most = median(ours), median(limit)
        say(f"drain, {workers} workers", f"{rate:.0f}/s", f"{rate / most:.2f} x xargs {most:.0f}/s")
    found = measures.wake_ups(50)
    own = measures.date_cost(20)
    say("wake-up p50", f"{found[25]:.1f} ms", f"of which {own:.1f} ms are the stamp's own")
    say("wake-up p98", f"{found[48]:.1f} ms", "")
    for workers in (4, 64):
        cpu, memory = measures.idle(workers, 5 if quick else 20)
        say(f"idle, {workers} workers", f"{cpu:.2f} % CPU", f"{memory:.1f} MB")
    one, bulk = measures.enqueue_rates(500, 10_000 if quick else 100_000)
    say("enqueue", f"{one:.0f}/s", f"bulk {bulk:.0f}/s")
    small = measures.backlog_cost(100, 100)
    large = measures.backlog_cost(*((20_000, 20_000) if quick else (200_000, 200_000)))
    for name, ms in large.items():
        say(
            f"{name} with a backlog", f"{ms:.2f} ms", f"{ms / small[name]:.1f} x that with 100 jobs"
        )


def compare_stores(rounds: int, jobs: int) -> None:
    """Measure the three stores and the limit of this machine, in turns."""
    with lab.servers() as servers:
        stores: dict[str, str | None] = {"sqlite": None, **servers}
        for workers in (4, 16):
            limit: list[float] = []
            rates: dict[str, list[float]] = {name: [] for name in stores}
            for _ in range(rounds):
                limit.append(measures.xargs_rate(jobs, workers))
                for name, url in stores.items():
                    rates[name].append(measures.drain_rate(jobs, workers, url))
            most = median(limit)
            for name, found in rates.items():
                rate = median(found)
                note = f"{rate / most:.2f} x xargs {most:.0f}/s"
                say(f"drain {name}, {workers} workers", f"{rate:.0f}/s", note)
        for name, url in stores.items():
            waits = measures.wake_ups(40, url)
            say(f"wake-up {name}", f"{waits[20]:.1f} ms", f"p95 {waits[38]:.1f} ms")
            cpu, memory = measures.idle(4, 10, url)
            say(f"idle {name}, 4 workers", f"{cpu:.2f} % CPU", f"{memory:.1f} MB")
            one, bulk = measures.enqueue_rates(300, 20_000, url)
            say(f"enqueue {name}", f"{one:.0f}/s", f"bulk {bulk:.0f}/s")


def say(what: str, value: str, note: str) -> None:
    """Print one row as soon as it is known."""
    print(f"{what:<28}{value:>14}   {note}", flush=True)


if __name__ == "__main__":
    main()
