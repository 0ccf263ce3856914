"""`chunkfit ingest`: another tool's log to a profile."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .output import JsonFlag, Result, emit, escape, grid

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ..profiler.importers.ingest import Ingested

Name = Annotated[
    str,
    typer.Argument(
        metavar="FORMAT",
        help="table, iterations, vllm, dynamo-trace, aiconfigurator, vllm-ascend, llmservingsim, rucnyz, rucnyz-live.",
    ),
]
MapText = Annotated[
    str,
    typer.Option(
        "--map",
        help="Where the log holds n, k, c, u, latency (and chunks, order): n=decodes,k=kv_tokens/decodes,u=0,... "
        "Columns, numbers, joined by * and /.",
    ),
]


@dataclass(frozen=True)
class ReadLog(Result):
    """A profile made of a log, and what of the log it is made of."""

    path: Path
    ingested: Ingested

    def data(self) -> dict[str, Any]:
        meta = self.ingested.profile.meta.model_dump(mode="json")
        return {"profile": str(self.path), "unread": self.ingested.unread} | meta

    def shown(self) -> Iterator[RenderableType]:
        yield grid(_lines(self.ingested))
        yield f"written: {self.path}"


def ingest(
    form: Name,
    file: Annotated[Path, typer.Argument(help="The log.")],
    out: Annotated[Path, typer.Option(help="Profile to write (Parquet).")] = Path("profile.parquet"),
    mapping: MapText = "",
    unit: Annotated[str | None, typer.Option(help="Of a table's latencies: us, ms or s.", show_default=False)] = None,
    where: Annotated[str, typer.Option(help="Only rows with COLUMN=VALUE,... of a file of many things.")] = "",
    aggregation: Annotated[
        str | None,
        typer.Option(help="What a row is, where the log does not say: iteration or mean:N.", show_default=False),
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(help="Sessions by time, points or replicates. Default: what fits the format.", show_default=False),
    ] = None,
    shares: Annotated[
        str, typer.Option(help="Percent of rows, points or replicates: fit,calibrate,test.")
    ] = "60,20,20",
    seed: Annotated[int, typer.Option(help="Of the split by points.")] = 0,
    since: Annotated[
        str | None,
        typer.Option("--from", help="First row in the order of time that is kept: 1500 or 27%.", show_default=False),
    ] = None,
    until: Annotated[str | None, typer.Option(help="Last row that is kept, likewise.", show_default=False)] = None,
    device_name: Annotated[str | None, typer.Option(help="As the driver names it.", show_default=False)] = None,
    model: Annotated[str | None, typer.Option(help="Model of the log.", show_default=False)] = None,
    dtype: Annotated[str | None, typer.Option(help="Of weights and KV cache.", show_default=False)] = None,
    tensor_parallel: Annotated[int | None, typer.Option(help="Degree.", show_default=False, min=1)] = None,
    engine: Annotated[str | None, typer.Option(help="vllm, sglang, ...", show_default=False)] = None,
    as_json: JsonFlag = False,
) -> None:
    """Read a log that another tool wrote into a profile that `chunkfit fit` takes.

    What neither the log nor an option says stays unknown. A row that is not understood refuses the file.

    Example: chunkfit ingest table steps.csv --map n=decodes,k=context,c=chunk,u=prefix,latency=step_ms --unit ms
    """
    from ..profiler.importers.ingest import ingest as read_log
    from ..profiler.importers.mapping import pairs
    from ..profiler.importers.samples import ReadOptions
    from ..profiler.importers.sessions import parse_shares
    from ..tables.fingerprint import Fingerprint

    ingested = read_log(
        form,
        file,
        ReadOptions(pairs(mapping, "--map"), unit, pairs(where, "--where")),
        split=split,
        shares=parse_shares(shares),
        seed=seed,
        aggregation=aggregation,
        since=since,
        until=until,
        stated=Fingerprint(
            device_name=device_name, model_name=model, dtype=dtype, tensor_parallel=tensor_parallel, engine=engine
        ),
    )
    ingested.profile.save(out)
    emit(ReadLog(out, ingested), as_json)


def _lines(ingested: Ingested) -> list[tuple[str, str]]:
    meta = ingested.profile.meta
    domain, imported = meta.domain, meta.imported
    assert imported is not None  # ingest sets it
    unknown = [name for name, value in meta.fingerprint.model_dump().items() if value is None]
    how = f"by {imported.split}" + (f", seed {meta.seed}" if imported.split == "points" else "")
    return [
        ("measured on", escape(meta.fingerprint.title())),
        ("read", f"{len(ingested.profile):,} rows; a row is {escape(_row_is(meta.aggregation))}"),
        *[("left out", f"[yellow]{escape(line)}[/]") for line in ingested.left_out],
        ("stated", escape("; ".join(f"{name} = {value}" for name, value in imported.stated.items()) or "nothing")),
        (
            "not read",
            escape("; ".join(f"{n} ({', '.join(vs)})" for n, vs in ingested.unread.items()) or "nothing"),
        ),
        (
            "domain",
            f"n to {domain.max_decodes:,}, k to {domain.max_context_tokens:,}, c to {domain.max_chunk_tokens:,}, u to "
            f"{domain.max_prefix_tokens:,}, n + c to {domain.max_batch_tokens:,}, KV to {domain.kv_tokens:,} tokens",
        ),
        (
            "of them",
            f"{imported.unequal_contexts:,} with unequal contexts, {imported.several_chunks:,} with several chunks, "
            "as far as the log says; they stand by mean context and sums",
        ),
        (f"sessions {how}", ", ".join(f"{s} {m.points:,} points" for s, m in meta.sessions.items())),
        ("quiet machine", "unknown: a log has no sentinel"),
        ("unknown", escape(", ".join(unknown))),
    ]


def _row_is(aggregation: str) -> str:
    if aggregation == "iteration":
        return "one iteration"
    if aggregation == "unknown":
        return "not known to be one iteration, so no P99 can be certified (see --aggregation; fit --uncertified)"
    many = aggregation.removeprefix("mean:")
    return f"a mean of {many} iterations, so no P99 can be certified (fit --uncertified gives expected times)"
