"""`chunkfit live`: serve on the device that was profiled, with its table, and hold both against the clock."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .exit_codes import INTERRUPTED
from .options import AllowRefuted, Attention, Model
from .output import JsonFlag, emit_data, progress_console

if TYPE_CHECKING:
    from ..scheduler.live.live_session import SessionPlan
    from ..scheduler.live.runner import LiveRunner
    from ..scheduler.live.soak import SoakReport
    from ..scheduler.policies import Policy

POLICIES = "sloweave,fixed-256,fixed-1024,full,slidingserve-512"


def live(
    table: Annotated[Path, typer.Argument(help="Cost table (JSON) of this machine.")],
    policy: Annotated[str, typer.Option(help="Policies that take turns, the first one also warms up.")] = POLICIES,
    workload: Annotated[str, typer.Option(help="What arrives: a name, or name:option=value,...")] = "mixed",
    curve_policy: Annotated[
        str | None, typer.Option(help="Those of the curve alone. Default: the same.", show_default=False)
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(help="Requests/s. Without it: a load curve first, then rounds near capacity.", show_default=False),
    ] = None,
    seconds: Annotated[float, typer.Option(help="Time over which the requests of a round arrive.")] = 12.0,
    rounds: Annotated[int, typer.Option(help="How often each policy has its turn, on other requests each time.")] = 3,
    curve_seconds: Annotated[float, typer.Option(help="The same for each rate and policy of the curve.")] = 6.0,
    tpot: Annotated[str, typer.Option(help="25ms, or 3x: of the decode-only iteration.")] = "3x",
    ttft: Annotated[str, typer.Option(help="1.1s, or a multiple of the same.")] = "100x",
    criterion: Annotated[
        str, typer.Option(help="When a request is good: per_token, schedule or mean_gap.")
    ] = "per_token",
    max_running: Annotated[
        int | None, typer.Option(help="Requests that hold KV pages at once. Default: the table's decodes.", min=1)
    ] = None,
    kv_tokens: Annotated[
        int | None, typer.Option(help="KV tokens to use. Default: what the table holds.", min=1)
    ] = None,
    online: Annotated[bool, typer.Option("--online", help="Calibrate the table while it is used.")] = False,
    check_simulator: Annotated[
        bool, typer.Option("--check-simulator", help="Simulate each round too; its goodput must agree.")
    ] = False,
    soak: Annotated[
        str | None,
        typer.Option(help="Instead: that long (60s, 10m) everything that can go wrong.", show_default=False),
    ] = None,
    model: Model = None,
    attention: Attention = None,
    seed: Annotated[int, typer.Option(help="Of requests, prompts and weights.")] = 0,
    out: Annotated[Path, typer.Option(help="Folder of live.json and iterations.csv.")] = Path("chunkfit-live"),
    allow_refuted: AllowRefuted = False,
    as_json: JsonFlag = False,
) -> None:
    """Serve a workload under several policies in real time; compare every iteration with the table's bound.

    Exit 3 where the machine was not quiet enough to conclude anything, 1 where a check failed.

    Example: chunkfit live table.json --policy sloweave,fixed-256 --rate 20 --seconds 12 --check-simulator
    """
    from ..files.errors import UsageError
    from ..files.units import milliseconds
    from ..fitters.online.calibrator import OnlineCalibrator
    from ..scheduler.compiled import slower_note
    from ..scheduler.live.live_session import SessionPlan
    from ..scheduler.live.open import limits_of, open_executor
    from ..scheduler.live.runner import LiveRunner
    from ..scheduler.live.slo_targets import maker, targets_for
    from ..scheduler.serving_metrics import criterion_named
    from ..tables import CostTable
    from ..tables.verdict import require_certified, require_usable
    from .live_display import Display
    from .output import escape

    if not (seconds > 0 and curve_seconds > 0 and rounds >= 1 and (rate is None or rate > 0)):
        raise UsageError(
            f"--seconds {seconds:g}, --curve-seconds {curve_seconds:g}, --rounds {rounds}, --rate {rate}; expected "
            "times and rates above 0 and one round at least"
        )
    criterion_named(criterion)
    soak_s = None if soak is None else milliseconds(soak, "--soak") / 1e3
    policies = policies_of(policy)
    costs = CostTable.load(table)
    require_usable(costs.document.verdict, str(table), allow_refuted)
    require_certified(costs.document.certificate, str(table))
    limits = limits_of(costs, max_running, kv_tokens)
    targets = targets_for(costs, limits, workload, ttft, tpot)
    plan = SessionPlan(
        policies,
        policies_of(curve_policy) if curve_policy else policies,
        maker(workload, targets),
        targets,
        rate,
        seconds,
        rounds,
        curve_seconds,
        check_simulator,
    )
    console, note = progress_console(), slower_note()
    if note is not None:
        console.print(f"[yellow]{escape(note)}[/]", highlight=False)
    console.print(f"serving on {escape(costs.fingerprint.title())}; policies are compiled once", highlight=False)
    executor = open_executor(costs, seed, model=model, attention=attention)
    calibrator = OnlineCalibrator(costs) if online else None
    with Display() as display, first_ctrl_c() as stop:
        runner = LiveRunner(costs, executor, limits, criterion, seed, calibrator, display.show, display.finished, stop)
        done = _served(runner, plan, out) if soak_s is None else _soaked(runner, policies, soak_s)
    data, exit_code, shown = done
    emit_data(data, as_json, *shown)
    if exit_code:
        raise typer.Exit(exit_code)


Done = tuple[dict[str, Any], int, list[Any]]


def _served(runner: LiveRunner, plan: SessionPlan, out: Path) -> Done:
    """The session, written to `out`."""
    from ..files.writing import make_folder, write_atomically
    from ..scheduler.live.live_session import run_live_session
    from ..scheduler.live.log import csv_text
    from .live_view import report_shown

    make_folder(out)
    found, outcomes = run_live_session(runner, plan)
    found.save(out / "live.json")
    logs = [
        csv_text(one.live.run.log, index == 0, run=index, policy=one.policy.name, rate=f"{one.rate:.6g}")
        for index, one in enumerate(outcomes)
    ]
    write_atomically(out / "iterations.csv", "".join(logs).encode())
    shown = [*report_shown(found), f"written: {out / 'live.json'}, {out / 'iterations.csv'}"]
    return found.model_dump(mode="json"), found.exit_code, shown


def _soaked(runner: LiveRunner, policies: Sequence[Policy], seconds: float) -> Done:
    from ..scheduler.live.soak import soak
    from .live_view import soak_shown

    with progress_console().status("soaking") as status:

        def show(report: SoakReport) -> None:
            status.update(f"soaking: {report.seconds:.0f} of {seconds:.0f} s, {report.requests:,} requests")

        report = soak(runner, policies, seconds, show)
    exit_code = INTERRUPTED if report.stopped else 0 if report.held else 1
    return report.model_dump(mode="json"), exit_code, soak_shown(report)


def policies_of(texts: str) -> list[Policy]:
    """The policies of a list such as `sloweave:prefills=1,fixed-256`. Raises UsageError, also for a repeated one."""
    from ..files.errors import UsageError
    from ..files.specs import split_list
    from ..scheduler.policies import policy

    policies = [policy(text) for text in split_list(texts, "--policy")]
    names = [each.name for each in policies]
    if len(set(names)) < len(names):
        raise UsageError(f"--policy {texts!r}: {max(names, key=names.count)} is there twice; expected each once")
    return policies


@contextmanager
def first_ctrl_c() -> Iterator[Callable[[], bool]]:
    """Tells whether Ctrl-C was pressed, which ends the run with its report; a second one interrupts as ever."""
    pressed = False

    def press(*_: object) -> None:
        nonlocal pressed
        pressed = True
        signal.signal(signal.SIGINT, signal.default_int_handler)

    before = signal.signal(signal.SIGINT, press)
    try:
        yield lambda: pressed
    finally:
        signal.signal(signal.SIGINT, before)
