"""A measurement with its plan, cost, progress and verdicts on the terminal: shared by `profile` and `run`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..profiler.domains import capacity_note, default_domain, default_step_totals, default_warmup
from ..profiler.messages import ProfileRequest, SweepEvent, journal_of
from ..profiler.plan import CERTIFICATE_POINTS, LEAST_POINTS, SESSIONS, PlanOptions, SweepPlan, draw_plan
from ..profiler.sweep import journalled_plan
from ..profiler.sweep import profile as measure_profile
from ..profiler.traffic import read_traffic
from ..tables.domain import Domain
from .options import MeasureOptions, default_model
from .output import escape, progress_console

if TYPE_CHECKING:
    from rich.progress import Progress

    from ..profiler.profile import Profile


# More than any device measures with preparation and journal: 600 on a formula that takes no time.
POINTS_PER_SECOND = 500


def measure_request(out: Path, options: MeasureOptions) -> ProfileRequest:
    """The default plan of a device and model; a resumed measurement keeps the plan of its journal."""
    from ..profiler.devices import resolve_device

    device = resolve_device(options.device)
    model = options.model or default_model(device)
    plan = journalled_plan(out) if options.resume else None
    if plan is None:
        plan = _plan(default_domain(device, model), default_step_totals(device), device, options)
    return ProfileRequest(
        device=device,
        model=model,
        plan=plan,
        attention=options.attention,
        out=out,
        budget_s=options.budget_s,
        overwrite=options.overwrite,
    )


def vllm_request(out: Path, options: MeasureOptions, arguments: tuple[str, ...]) -> ProfileRequest:
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
    plan = journalled_plan(out) if options.resume else None
    facts = engine_facts(options.model, arguments)
    device = str(facts.fingerprint.device_kind)
    if plan is None:
        plan = _plan(facts.domain, facts.step_totals, device, options)
    return ProfileRequest(
        device=device,
        model=options.model,
        plan=plan,
        session_module=SESSION_MODULE,
        engine_arguments=arguments,
        out=out,
        budget_s=options.budget_s,
        overwrite=options.overwrite,
    )


def _plan(domain: Domain, step_totals: Sequence[int], device: str, options: MeasureOptions) -> SweepPlan:
    warmups, warmup_ms = default_warmup(device)
    points = options.points
    if options.budget_s is not None and points > POINTS_PER_SECOND * options.budget_s:
        # Points that no time is left for would be read and written by every process. The points of a session are a
        # random sequence, so fewer of them are as fair a sample.
        points = int(POINTS_PER_SECOND * options.budget_s)
        progress_console().print(
            f"[yellow]{options.points:,} points in {options.budget_s:g} s: cut to {points:,} a session, which is more "
            "than any device measures in that time; give more --minutes for more[/]",
            highlight=False,
            soft_wrap=True,
        )
    return draw_plan(
        domain,
        step_totals,
        options.seed,
        PlanOptions(
            fit_points=points,
            calibrate_points=points,
            test_points=points,
            warmups=warmups,
            warmup_ms=warmup_ms,
            tolerance=options.tolerance,
            traffic=None if options.traffic is None else read_traffic(options.traffic, domain),
        ),
    )


def measure(request: ProfileRequest, resume: bool) -> Profile:
    """Measure with progress on stderr; Ctrl-C prints how to go on."""
    from ..fitters.predictor import TablePredictor

    console = progress_console()
    plan = request.plan
    console.print(f"measuring {escape(request.device)} with model {escape(request.model)}", highlight=False)
    notes = (capacity_note(plan.domain, plan.clipped_fraction), plan.traffic.title() if plan.traffic else None)
    few = too_few_points(len(plan.calibrate))
    if few is not None:
        console.print(f"[yellow]{escape(few)}[/]", highlight=False, soft_wrap=True)
    for note in filter(None, notes):
        console.print(f"[dim]{escape(note)}[/]", highlight=False)
    with _bars() as progress:
        show = _Events(progress, plan, request.budget_s).show
        try:
            predictor = TablePredictor(plan.domain, plan.step_totals)
            profile = measure_profile(request, resume=resume, on_event=show, predictor=predictor)
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


def too_few_points(points: int, coverage: float = 0.99) -> str | None:
    """What to do where so many calibration points certify nothing at 0.95 confidence; None where they do."""
    from ..fitters.margin import best_coverage, points_needed

    needed = points_needed(coverage, 0.95)
    if points >= needed:
        return None
    return (
        f"{points:,} calibration points cannot certify {coverage:g}: {needed:,} are needed; "
        f"they can certify {best_coverage(points, 0.95):g} (--coverage), or ask for more (--points {needed})"
    )


def _bars() -> Progress:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    return Progress(
        TextColumn("{task.description:>10}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
        console=progress_console(),
    )


class _Events:
    """Events of a measurement, as bars and lines."""

    def __init__(self, progress: Progress, plan: SweepPlan, budget_s: float | None) -> None:
        self._progress, self._plan, self._budget_s = progress, plan, budget_s
        self._tasks = {
            session: progress.add_task(session, total=plan.planned(session), left="", start=False)
            for session in SESSIONS
        }

    def show(self, event: SweepEvent) -> None:
        task = self._tasks[event.session]
        if event.kind == "cost":
            self._print(_cost(event, self._budget_s))
            short = _too_short(event, self._plan, self._budget_s)
            if short is not None:
                self._print(f"[yellow]{short}[/]")
        elif event.kind == "session":
            self._progress.start_task(task)
            self._progress.update(task, completed=event.done, total=event.total)
        elif event.kind == "progress":
            left = "" if event.seconds_left is None else f"{event.seconds_left:.0f}s left"
            self._progress.update(task, completed=event.done, total=event.total, left=left)
        elif event.kind == "round":
            self._print(f"[dim]{escape(event.message)}[/]")
        elif event.kind == "end":
            self._progress.update(task, completed=event.done, total=event.total, left="")
            self._progress.stop_task(task)
            if event.message:
                self._print(f"{event.session}: {escape(event.message)}")
        elif event.kind == "skipped":
            self._print(f"[yellow]{event.session}: skipped: {escape(event.message)}[/]")

    def _print(self, text: str) -> None:
        self._progress.console.print(text, highlight=False)


def measured_lines(profile: Profile) -> list[tuple[str, str]]:
    """Label and value lines about a finished measurement."""
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
    calibrated = profile.meta.sessions["calibrate"].points if "calibrate" in profile.meta.sessions else 0
    few = too_few_points(calibrated)
    if few is not None:
        lines.append(("certificate", f"[yellow]{escape(few)}[/]"))
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


def _too_short(event: SweepEvent, plan: SweepPlan, budget_s: float | None) -> str | None:
    """The warning before the first point of a sweep whose time does not hold the points that a certificate needs."""
    if budget_s is None:
        return None
    each = {name: event.estimate.get(name, 0.0) / max(1, plan.planned(name)) for name in SESSIONS}
    seconds = sum(each[name] * min(LEAST_POINTS[name], plan.planned(name)) for name in SESSIONS)
    if seconds <= budget_s or len(plan.calibrate) < CERTIFICATE_POINTS:
        return None
    return (
        f"budget {budget_s:.0f} s: too short for {CERTIFICATE_POINTS} calibration points beside the others, which take "
        f"about {seconds:.0f} s: 0.99 will not be certified; give more --minutes"
    )
