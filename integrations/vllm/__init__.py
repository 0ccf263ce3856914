"""vLLM profiled and scheduled; what `--scheduler-cls` takes. Importing this imports no vLLM.

Written against vLLM 0.32 and 0.33. The modules that import vLLM are `recorder`, `scheduler`, `sweep_scheduler`,
`device`, `facts` and `stat_logger`; all rules and arithmetic are in the others, which need none.
"""

from ...files.lazy import lazy_names

__all__ = ["ChunkfitStatLogger", "RecordingScheduler", "SLOWeaveScheduler"]

__getattr__ = lazy_names(
    __name__,
    {
        "ChunkfitStatLogger": ".stat_logger",
        "RecordingScheduler": ".recorder",
        "SLOWeaveScheduler": ".scheduler",
    },
)
