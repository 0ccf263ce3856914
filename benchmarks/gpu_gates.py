"""What is to hold on an H200 with llama-3-8b, read from the files that a GPU session left. Elsewhere the figures are
printed against the same limits, and are no claim.

A gate is a figure, a limit and a file; without the file, or the rows in it, it was not measured.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from chunkfit.files.errors import ChunkfitError
from chunkfit.profiler.domains import default_warmup
from chunkfit.profiler.microbench import results
from chunkfit.profiler.profile import Profile
from chunkfit.scheduler.live.session_report import LiveReportV1
from chunkfit.tables import CostTable

MANY_KV_TOKENS = 64 * 1024
LEAST_CHUNK = 2048
LIVE_TARGETS = (10, 15, 25)  # TPOT in ms


@dataclass(frozen=True, slots=True)
class Gate:
    """title: what; figure: from `file`, None where it is not in there; limit: the least or the most of it."""

    title: str
    file: str
    figure: Callable[[Path], float | None]
    limit: float
    least: bool
    unit: str = ""

    def judged(self, folder: Path) -> tuple[str, str, str]:
        """(verdict, figure, limit): pass, FAIL or not measured."""
        path = folder / self.file
        limit = f"{'>=' if self.least else '<='} {self.limit:g}{self.unit}"
        try:
            figure = self.figure(path) if path.exists() else None
        except (ChunkfitError, ValueError, KeyError) as error:
            return "not measured", f"{self.file} cannot be read: {str(error).splitlines()[0]}", limit
        if figure is None:
            return "not measured", f"{self.file} has no such row" if path.exists() else f"no {self.file}", limit
        held = figure >= self.limit if self.least else figure <= self.limit
        return "pass" if held else "FAIL", f"{figure:.4g}{self.unit}", limit


def test_failures(path: Path) -> float | None:
    """Failed tests and errors, None where pytest ran nothing or did not come to its end."""
    text = path.read_text()
    ends = re.findall(r"^.*\b(?:passed|failed|errors?)\b.* in [\d.]+s", text, re.MULTILINE)
    if not ends or "KeyboardInterrupt" in text:
        return None
    return float(sum(int(count) for count in re.findall(r"(\d+) (?:failed|error)", ends[-1])))


def from_rows(pattern: str, pick: Callable[[list[float]], float]) -> Callable[[Path], float | None]:
    """`pick` of the values whose name matches `pattern` whole; of iterations with graphs alone where there are such."""

    def figure(path: Path) -> float | None:
        rows = json.loads(path.read_text())["rows"]
        found = {row["name"]: row["value"] for row in rows if re.fullmatch(pattern, row["name"])}
        captured = {name: value for name, value in found.items() if "with graphs" in name}
        values = [value for value in (captured or found).values() if value is not None]
        return pick(values) if values else None

    return figure


def decode_share(path: Path) -> float | None:
    """The least share of copy bandwidth that decode attention reaches where it reads many tokens."""
    found = results.load(path)
    shares = [
        row.bytes_per_s / found.ceilings.copy_bytes_per_s
        for row in found.rows
        if row.name == "decode_attention" and row.sizes["decodes"] * row.sizes["context_tokens"] >= MANY_KV_TOKENS
    ]
    return min(shares, default=None)


def of_test(name: str) -> Callable[[Path], float | None]:
    def figure(path: Path) -> float | None:
        test = CostTable.load(path).document.test
        return None if test is None else float(getattr(test.errors["all"], name))

    return figure


def certified(path: Path) -> float | None:
    certificate = CostTable.load(path).document.certificate
    return None if certificate is None else certificate.coverage


def sweep_seconds(path: Path) -> float | None:
    return sum(session.seconds for session in Profile.load(path).meta.sessions.values())


def event_share(path: Path) -> float | None:
    """Percent of the sessions' wall in which the device ran iterations. Warm-ups leave no row: of each point as many
    are counted as the plan asks for at its median; points measured again are counted once.
    """
    profile = Profile.load(path)
    columns, total_ms = profile.columns, 0.0
    least, least_ms = default_warmup(profile.meta.fingerprint.device_kind or "cuda")
    for session in profile.meta.sessions:
        own = columns["session"] == session
        for order in np.unique(columns["order"][own]):
            events = columns["event_ms"][own & (columns["order"] == order)]
            middle = float(np.median(events))
            total_ms += float(events.sum()) + middle * max(least, int(np.ceil(least_ms / middle)) if middle else 0)
    wall_s = sweep_seconds(path)
    return 100 * total_ms / (1e3 * wall_s) if wall_s and np.isfinite(total_ms) else None


def study_of(path: Path) -> LiveReportV1:
    return LiveReportV1.model_validate_json(path.read_bytes())


def missed(path: Path) -> float | None:
    """Percent of all iterations of a live session over the bound."""
    loops = [coverage.closed_loop for coverage in study_of(path).bound_coverage.values()]
    rows = sum(loop.rows for loop in loops)
    return 100 * sum(loop.missed for loop in loops) / rows if rows else None


def over_static(path: Path) -> float | None:
    """Mean goodput of sloweave over that of the best static policy."""
    goodput = study_of(path).goodput
    static = [spread.mean for name, spread in goodput.items() if name.startswith(("full", "fixed"))]
    best = max(static, default=0.0)
    return goodput["sloweave"].mean / best if best else None


def simulator_error(path: Path) -> float | None:
    """Percent between simulated and live goodput of sloweave."""
    each = study_of(path).simulator["sloweave"]["goodput_per_s"]
    difference = each.difference(each.by_residuals)
    return None if difference is None else 100 * abs(difference)


def decision_us(path: Path) -> float | None:
    """Median decision with 128 decodes running."""
    return study_of(path).bound_coverage["sloweave"].decision_many_p50_us


def live_gates(target: int) -> tuple[Gate, ...]:
    """Of the live session at that TPOT target in ms."""
    title, file = f"live, TPOT {target} ms", f"live-{target}.json"
    return (
        Gate(f"{title}: iterations over the bound", file, missed, 2, False, "%"),
        Gate(f"{title}: goodput of sloweave over the best static policy's", file, over_static, 0.97, True, "x"),
        Gate(f"{title}: simulated against live goodput of sloweave", file, simulator_error, 5, False, "%"),
        Gate(f"{title}: decision with 128 decodes", file, decision_us, 20, False, " us"),
    )


CHUNKS = "|".join(str(LEAST_CHUNK << shift) for shift in range(4))
GATES = (
    Gate("kernel tests on the device: failures", "check-tests.txt", test_failures, 0, False),
    Gate(
        "decode iterations, n = 4 to 64 at context 1k: time over floor, the worst",
        "iteration_floors.json",
        from_rows(r"decode \d+ x 1024, .*: time / floor", max),
        1.25,
        False,
        "x",
    ),
    Gate(
        f"chunks of {LEAST_CHUNK} and more, n = 0: share of the matrix rate, the least",
        "iteration_floors.json",
        from_rows(rf"chunk ({CHUNKS}) after \d+, .*: share of the matrix rate", min),
        0.60,
        True,
    ),
    Gate(
        "chunk attention against SDPA flash, the least",
        "attention_vs_sdpa.json",
        from_rows(r"chunk \d+ after \d+: flash / ours", min),
        0.9,
        True,
        "x",
    ),
    Gate(
        "chunk attention against SDPA cuDNN (no prefix), the least",
        "attention_vs_sdpa.json",
        from_rows(r"chunk \d+ after 0: cudnn / ours", min),
        0.55,
        True,
        "x",
    ),
    Gate(
        "decode attention of 64k tokens and more: share of copy bandwidth, the least",
        "microbench.json",
        decode_share,
        0.85,
        True,
    ),
    Gate("sweep: wall of the three sessions", "profile.parquet", sweep_seconds, 300, False, " s"),
    Gate("sweep: event time in that wall, warm-ups by the plan's rule", "profile.parquet", event_share, 85, True, "%"),
    Gate("table: median error", "table.json", of_test("median_percent"), 1.5, False, "%"),
    Gate("table: MAPE", "table.json", of_test("mape_percent"), 2.5, False, "%"),
    Gate("table: certified coverage", "table.json", certified, 0.99, True),
    Gate("table: mean U/T", "table.json", of_test("mean_bound_ratio"), 1.10, False),
    *(gate for target in LIVE_TARGETS for gate in live_gates(target)),
)
