"""A sweep with its plan, cost, progress and verdicts on the terminal: shared by `profile` and `run`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..files.units import percentage
from ..profiler.domains import capacity_note, default_domain, default_step_totals, default_warmup
from ..profiler.messages import ProfileRequest, SweepEvent, journal_of
from ..profiler.plan import SESSIONS, SweepPlan, draw_plan
from ..profiler.sweep import journalled_plan
from ..profiler.sweep import profile as measure
from ..profiler.traffic import read_traffic
from ..tables.domain import Domain
from .exit_codes import escape
from .output import progress_console

if TYPE_CHECKING:
    from ..profiler.profile import Profile

DEFAULT_MODELS = {"cuda": "llama-3.2-1b"}  # elsewhere the tiny model: a CPU needs minutes for a real one


@dataclass(frozen=True, slots=True)
class SweepOptions:
    """What the command line asks of a sweep."""

    device: str
    model: str | None
    attention: str | None
    seed: int
    minutes: float | None
    points: int
    tolerance: str
    traffic: Path | None


def sweep_request(out: Path, options: SweepOptions, *, resume: bool, overwrite: bool) -> ProfileRequest:
    """The default plan of a device and model; a resumed sweep keeps the plan of its journal."""
    from ..profiler.devices import resolve_device

    budget_s, tolerance = _checked(options)
    device = resolve_device(options.device)
    model = options.model or DEFAULT_MODELS.get(device, "tiny")
    plan = journalled_plan(out) if resume else None
    if plan is None:
        plan = _plan(default_domain(device, model), default_step_totals(device), device, options, tolerance)
    return ProfileRequest(
        device=device,
        model=model,
        plan=plan,
        attention=options.attention,
        out=out,
        budget_s=budget_s,
        overwrite=overwrite,
    )


def vllm_request(
    out: Path, options: SweepOptions, arguments: tuple[str, ...], *, resume: bool, overwrite: bool
) -> ProfileRequest:
    """The same of a vLLM engine, which is started once to say what it can run. Raises UsageError for options that
    belong to the reference engine.
    """
    from ..files.errors import UsageError
    from ..integrations.vllm.sweep import SESSION_MODULE, engine_facts

    if options.model is None or options.device != "auto" or options.attention is not None:
        raise UsageError(
            "--engine vllm: expected --model with what `vllm serve` takes, and neither --device nor --attention: "
            "give those to the engine, after --"
        )
    budget_s, tolerance = _checked(options)
    plan = journalled_plan(out) if resume else None
    facts = engine_facts(options.model, arguments)
    device = str(facts.fingerprint.device_kind)
    if plan is None:
        plan = _plan(facts.domain, facts.step_totals, device, options, tolerance)
    return ProfileRequest(
        device=device,
        model=options.model,
        plan=plan,
        session_module=SESSION_MODULE,
        engine_arguments=arguments,
        out=out,
        budget_s=budget_s,
        overwrite=overwrite,
    )


def _plan(
    domain: Domain, step_totals: Sequence[int], device: str, options: SweepOptions, tolerance: float
) -> SweepPlan:
    warmups, warmup_ms = default_warmup(device)
    return draw_plan(
        domain,
        step_totals,
        options.seed,
        fit_points=options.points,
        calibrate_points=options.points,
        test_points=options.points,
        warmups=warmups,
        warmup_ms=warmup_ms,
        tolerance=tolerance,
        traffic=None if options.traffic is None else read_traffic(options.traffic, domain),
    )


def _checked(options: SweepOptions) -> tuple[float | None, float]:
    """(time budget in s, tolerance as a share), before anything is started. Raises UsageError."""
    from ..files.errors import UsageError

    if options.minutes is not None and options.minutes <= 0:
        raise UsageError(f"--minutes {options.minutes:g}: expected more than 0")
    budget_s = None if options.minutes is None else 60 * options.minutes
    return budget_s, percentage(options.tolerance, "--tolerance")


def sweep(request: ProfileRequest, resume: bool) -> Profile:
    """Run the sweep with progress on stderr; on Ctrl-C say how to go on."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from ..fitters.predictor import TablePredictor

    console = progress_console()
    plan = request.plan
    console.print(f"measuring {escape(request.device)} with model {escape(request.model)}", highlight=False)
    note = capacity_note(plan.domain, plan.clipped_fraction)
    if note:
        console.print(f"[dim]{escape(note)}[/]", highlight=False)
    if plan.traffic is not None:
        console.print(f"[dim]{escape(plan.traffic.title())}[/]", highlight=False)
    columns = (
        TextColumn("{task.description:>10}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
    )
    with Progress(*columns, console=console) as progress:
        tasks = {
            session: progress.add_task(session, total=plan.planned(session), left="", start=False)
            for session in SESSIONS
        }

        def show(event: SweepEvent) -> None:
            task = tasks[event.session]
            if event.kind == "cost":
                console.print(_cost(event, request.budget_s), highlight=False)
            elif event.kind == "session":
                progress.start_task(task)
                progress.update(task, completed=event.done, total=event.total)
            elif event.kind == "progress":
                left = "" if event.seconds_left is None else f"{event.seconds_left:.0f}s left"
                progress.update(task, completed=event.done, total=event.total, left=left)
            elif event.kind == "round":
                console.print(f"[dim]{escape(event.message)}[/]", highlight=False)
            elif event.kind == "end":
                progress.update(task, completed=event.done, total=event.total, left="")
                progress.stop_task(task)
                if event.message:
                    console.print(f"{event.session}: {escape(event.message)}", highlight=False)
            elif event.kind == "skipped":
                console.print(f"[yellow]{event.session}: skipped: {escape(event.message)}[/]", highlight=False)

        try:
            predictor = TablePredictor(plan.domain, plan.step_totals)
            profile = measure(request, resume=resume, on_event=show, predictor=predictor)
        except KeyboardInterrupt:
            progress.stop()
            console.print(
                f"interrupted; what was measured is kept in {escape(str(journal_of(request.out)))}: "
                "go on with the same command and --resume",
                highlight=False,
            )
            raise
    for session, meta in profile.meta.sessions.items():
        colour = "green" if meta.sentinel.quiet else "yellow"
        console.print(f"{session}: machine was [{colour}]{escape(meta.sentinel.title())}[/]", highlight=False)
    return profile


def measured_lines(profile: Profile) -> list[tuple[str, str]]:
    """Label and value lines about a finished sweep."""
    lines = [("measured on", escape(profile.meta.fingerprint.title()))]
    for session, meta in profile.meta.sessions.items():
        skipped = f", {meta.skipped} skipped" if meta.skipped else ""
        skipped += f", {meta.flagged} measured under a throttle" if meta.flagged else ""
        lines.append(
            (
                session,
                f"{meta.points:,} of {meta.planned:,} points, {meta.rows:,} iterations, {meta.seconds:.0f} s{skipped}; "
                f"{escape(meta.sentinel.title())}",
            )
        )
    if profile.meta.rounds:
        last = profile.meta.rounds[-1]
        why = {"tolerance": "every cell is under the tolerance", "points": "all points are spent"}
        lines.append(
            (
                "fit points",
                f"{sum(one.chosen for one in profile.meta.rounds):,} chosen in rounds; worst cell at the last one "
                f"{last.worst_error:.1%} ({escape(last.worst)}); stopped: {why.get(last.stopped or '', 'time was up')}",
            )
        )
    return lines


def _cost(event: SweepEvent, budget_s: float | None) -> str:
    total = sum(event.estimate.values())
    parts = ", ".join(f"{session} {seconds:.0f} s" for session, seconds in event.estimate.items())
    within = "no time limit"
    if budget_s is not None:
        enough = "enough" if total < budget_s else "the fit session will stop at its share"
        within = f"budget {budget_s:.0f} s: {enough}"
    return f"cost of the whole plan: about {total:.0f} s ({parts}); {within}"
