"""A study on Ray: one core a run, on this machine or on a cluster."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Any

from ...files.errors import MissingExtraError, WorkerError
from ..compiled import sources_digest
from ..run_report import RunReport
from .cell import Cell, Costs
from .pools import Reports, named_run

LOCAL = "local"
REACH_S = 10.0


class Ray:
    """address: of a running cluster, or LOCAL for one on this machine that ends with the study.

    A node needs this release of chunkfit, and a workload's file at the same path; tables travel with the tasks.
    """

    def __init__(self, costs: Costs, address: str) -> None:
        try:
            import ray
        except ImportError as error:
            raise MissingExtraError("--ray needs ray, which is not installed: pip install 'chunkfit[ray]'") from error
        self._ray: Any = ray
        self._costs, self._address = costs, address
        self._shared: Any = None  # the costs, in the cluster's memory

    def play(self, cells: Sequence[Cell]) -> Reports:
        """Each cell once, in any order. Raises what `run_cell` raises; WorkerError where a node is lost or no cluster
        answers."""
        if self._shared is None:
            # An error of every cell shows before a cluster is asked for, and a local one finds compiled code.
            for cell in cells[:1]:
                yield cell, named_run(cell, self._costs)
            cells = cells[1:]
            if not cells:
                return
            _connect(self._ray, self._address)
            self._shared = self._ray.put(dict(self._costs))
        task, digest = self._ray.remote(num_cpus=1)(_play), sources_digest()
        left = {task.remote(cell, self._shared, digest): cell for cell in cells}
        while left:
            (done,), _ = self._ray.wait(list(left), num_returns=1)
            yield left.pop(done), _report(self._ray, done)

    def close(self) -> None:
        """Leaves the cluster; a local one ends."""
        if self._shared is not None:
            self._ray.shutdown()


def _connect(ray: Any, address: str) -> None:
    quiet = {"log_to_driver": False, "logging_level": "error"}
    try:
        if address == LOCAL:
            ray.init(address=LOCAL, include_dashboard=False, **quiet)
        else:
            _reach(address)
            ray.init(address=address, **quiet)
    except (ConnectionError, ValueError, RuntimeError, OSError) as error:
        raise WorkerError(
            f"--ray {address}: no cluster answers ({error}); expected {LOCAL}, auto, or the address of a running head "
            "node (`ray start --head`); it may want its token: RAY_AUTH_MODE=token, RAY_AUTH_TOKEN or ray's file"
        ) from error


def _reach(address: str) -> None:
    """Raises OSError where nobody listens at host:port; ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host, int(port)), REACH_S).close()


def _play(cell: Cell, costs: Costs, digest: str) -> RunReport:
    if sources_digest() != digest:
        raise WorkerError(
            f"a node has other sources of the scheduler ({sources_digest()[:12]}, here {digest[:12]}); expected the "
            "same, or reports cannot be compared: install one release of chunkfit on all nodes"
        )
    return named_run(cell, costs)


def _report(ray: Any, reference: Any) -> RunReport:
    """Ray wraps what a task raises; out comes the error itself."""
    try:
        report: RunReport = ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        raise error.cause from error
    except ray.exceptions.RayError as error:
        raise WorkerError(f"ray: {error}; what was played is kept in the journal: go on with --resume") from error
    return report
