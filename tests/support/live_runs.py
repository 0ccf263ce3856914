"""Live runs on the synthetic device's clock, under a table of it."""

from functools import lru_cache
from pathlib import Path

import chunkfit
from chunkfit.profiler.devices import open_device
from chunkfit.profiler.domains import default_domain
from chunkfit.scheduler.live.executor import VirtualExecutor
from chunkfit.tables import CostTable
from chunkfit.tables.document import sealed
from chunkfit.tables.schema_v1 import FactorsV1

GOLDEN = Path(chunkfit.__file__).parent / "tests" / "tables" / "golden" / "table-v1.json"
PAGES = default_domain("synthetic").kv_tokens // 16
# As they are measured on the synthetic device; the golden table is of a profile without such pairs.
FACTORS = FactorsV1(unequal_contexts=1.25, several_chunks=1.16, session_drift=1.0)


@lru_cache(maxsize=1)
def synthetic_table():
    document = CostTable.load(GOLDEN).document
    return CostTable(sealed(document.model_copy(update={"factors": FACTORS})))


def virtual(seed=0, pages=PAGES):
    return VirtualExecutor(open_device("synthetic", "none", default_domain("synthetic"), seed, "live"), pages)
