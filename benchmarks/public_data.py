"""Public measurements that no one here made: our tables beside every peer's method, on the same rows.

For each data set and split (public/splits.py) our default (`auto`: selection by cross-validation inside the rows to
learn from) and each single estimator of ours, as the closed table that ships, and the methods of others
(public/peers.py), refitted in the same run. Figures are means over the seeds; files of one group count together.

MAPE, P99: absolute error of the expected time. under: the worst under-prediction. U/T: mean bound over measured time.
matched U/T: the same when the bound is multiplied by `factor`, so that it covers 99% of the held-out rows. gap: what
closing adds to the bound. falls: falling steps of the bound along the worst axis. Bounds: ours from scores of
held-out points at 95% confidence, where points are too few at the level that they can certify; of a peer x1.2
(QoServe's constant) and a margin per scene from held-out points (split conformal). Points that a fold would have to
extrapolate to, having lost an outermost batch, are left out of both.

Rows that are means (rucnyz of 20, attention of 3) certify no P99 of iterations: there a bound is one of such rows.

Run: CHUNKFIT_PUBLIC_DATA=FOLDER python benchmarks/public_data.py [--quick] [--only GROUP] [--out FOLDER]
Writes public_data.json and public_data_splits.json (the held-out rows of every seed).
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from public.contradictions import contradictions
from public.peers import PEERS
from public.predictions import Prediction, our_predictions, peer_prediction
from public.score import Score, mean_score, scores
from public.sets import DataSet, load
from public.splits import SPLITS, seeds_of
from report import Row, save
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

from chunkfit.fitters.estimators.estimator import Estimator
from chunkfit.fitters.estimators.registry import AUTO, ESTIMATORS

SEEDS = 5
FITTERS = {name: fitter for name, fitter in ESTIMATORS.items() if name != "roofline"}  # that one needs microbenchmarks
FIGURES = {
    "mape_percent": "%",
    "p99_percent": "%",
    "worst_under_percent": "%",
    "bound_ratio": "x",
    "factor": "x",
    "matched_ratio": "x",
    "gap_percent": "%",
}
HEADINGS = "method|MAPE %|P99 %|under %|coverage % (95%)|U/T|factor|matched U/T|gap %|falls %"

Job = tuple[str, str, int, bool]  # group, split, seed, ours (or the peers)
Answers = dict[
    str, tuple[dict[str, Score], list[str]] | str
]  # method -> scores by bound and notes, or why there are none


def jobs(sets: Sequence[DataSet], seeds: int) -> list[Job]:
    """The slow ones first, so that the last to finish is a short one."""
    rows = {data.group: sum(len(d.rows) for d in sets if d.group == data.group) for data in sets}
    found = [
        (group, split, seed, ours)
        for group in rows
        for split, cut in SPLITS[group].items()
        for seed in seeds_of(cut, seeds)
        for ours in (True, False)
    ]
    return sorted(found, key=lambda job: (not job[3], -rows[job[0]]))


def done(job: Job, sets: Sequence[DataSet], fitters: Mapping[str, Estimator] = FITTERS) -> Answers:
    """Every method on one split of one group."""
    group, split, seed, ours = job
    found: dict[str, list[Prediction]] = {}
    answers: Answers = {}
    notes: dict[str, list[str]] = {}
    for data in (data for data in sets if data.group == group):
        held = SPLITS[group][split](data.rows, seed)
        if ours:
            one = our_predictions(fitters, data, held, seed)
        else:
            one = {name: peer_prediction(peer, data, held, seed) for name, peer in PEERS.items()}
        for name, prediction in one.items():
            if isinstance(prediction, Prediction):
                found.setdefault(name, []).append(prediction)
                notes.setdefault(name, []).append(f"{data.name}: {prediction.note}")
            else:
                answers[name] = f"{data.name}: {prediction or 'no answer for some of the rows'}"
    return {name: (scores(of), notes[name]) for name, of in found.items() if name not in answers} | answers


_sets: list[DataSet] = []  # of a worker process


def _start(folder: Path, quick: bool) -> None:
    threadpool_limits(1)  # of each of the processes that share the cores
    _sets.extend(load(folder, quick=quick))


def _work(job: Job) -> Answers:
    return done(job, _sets)


def printed(title: str, closed_alone: bool, found: dict[str, list[Score]], console: Console) -> None:
    """One table: a line for each method and bound. closed_alone: without the errors before closure."""
    table = Table(title=title)
    for column in HEADINGS.split("|"):
        table.add_column(column, justify="left" if column == "method" else "right")
    for name, seeds in found.items():
        s = mean_score(seeds)
        low, high = s.coverage_interval
        table.add_row(
            name,
            f"{s.mape_percent:.2f}",
            f"{s.p99_percent:.1f}",
            f"{s.worst_under_percent:.1f}",
            f"{100 * s.coverage:.1f} ({100 * low:.1f}-{100 * high:.1f})",
            f"{s.bound_ratio:.3f}",
            f"{s.factor:.3f}",
            f"{s.matched_ratio:.3f}",
            "" if s.gap_percent is None else f"{s.gap_percent:.2f}",
            f"{s.falls_percent:.1f}",
        )
        if not closed_alone and s.unclosed_mape_percent is not None:
            table.add_row(f"  {name}, unclosed", f"{s.unclosed_mape_percent:.2f}", f"{s.unclosed_p99_percent:.1f}")
    console.print(table)


def result_rows(where: str, seeds: list[Score]) -> Iterator[Row]:
    """The figures of one method and bound; low and high are the interval of a coverage, else the range over seeds."""
    mean = mean_score(seeds)
    yield Row(f"{where}: coverage", mean.coverage, "", mean.rows, *mean.coverage_interval)
    for figure, unit in FIGURES.items():
        values = [getattr(score, figure) for score in seeds]
        if values[0] is not None:
            value = getattr(mean, figure)
            yield Row(f"{where}: {figure}", value, unit, len(seeds), min(values), max(values))
    for axis, (fallen, asked) in mean.falls.items():
        yield Row(f"{where}: falling steps along {axis}", fallen, "steps", asked)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one seed and the small data sets; under 50 s")
    parser.add_argument("--only", help="one group alone: rucnyz, attention, live, splitwise prompt, splitwise token")
    parser.add_argument("--out", type=Path, help="folder of the results")
    arguments = parser.parse_args()
    public = os.environ.get("CHUNKFIT_PUBLIC_DATA")
    if public is None:
        sys.exit("CHUNKFIT_PUBLIC_DATA is not set; expected the folder that holds measurements/: set it")
    folder, console = Path(public) / "measurements", Console(width=150)
    sets = [d for d in load(folder, quick=arguments.quick) if arguments.only in (None, d.group)]
    todo = jobs(sets, 1 if arguments.quick else SEEDS)
    with ProcessPoolExecutor(os.cpu_count(), initializer=_start, initargs=(folder, arguments.quick)) as pool:
        found = dict(zip(todo, pool.map(_work, todo), strict=True))
    rows: list[Row] = []
    for group, split in dict.fromkeys(job[:2] for job in sorted(todo)):
        by_bound: dict[str, list[Score]] = {}
        notes: list[str] = []
        for _, _, seed, ours in (job for job in todo if job[:2] == (group, split)):
            for method, answer in found[group, split, seed, ours].items():
                if isinstance(answer, str):
                    notes.append(f"{method}, seed {seed}: {answer}")
                    continue
                for bound, score in answer[0].items():
                    by_bound.setdefault(f"{method}, {bound}", []).append(score)
                if method == AUTO:
                    notes += [f"seed {seed}, {note}" for note in answer[1]]
        of = ", ".join(dict.fromkeys(data.aggregation for data in sets if data.group == group))
        printed(f"{group}, {split}; a row is one {of}", not group.startswith("splitwise"), by_bound, console)
        for note in notes:
            console.print(note)
        for name, seeds in by_bound.items():
            rows += result_rows(f"{group}, {split}: {name}", seeds)
    for data in sets:
        if data.group.startswith("splitwise"):
            console.print(f"{data.name}: {'; '.join(contradictions(data.rows)) or 'nothing contradicts the order'}")
    packages = ("chunkfit", "numpy", "scipy", "scikit-learn", "lightgbm", "statsmodels")
    path = save("public_data", rows, packages, folder=arguments.out)
    held = {
        f"{data.name}, {split}": {seed: cut(data.rows, seed).nonzero()[0].tolist() for seed in seeds_of(cut, SEEDS)}
        for data in sets
        for split, cut in SPLITS[data.group].items()
    }
    path.with_name("public_data_splits.json").write_text(json.dumps(held))


if __name__ == "__main__":
    main()
