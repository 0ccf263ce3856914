"""Live runs on the synthetic device's clock, and a table that knows its truth."""

from functools import lru_cache

from chunkfit.fitters.fit import fit
from chunkfit.profiler.devices import open_device
from chunkfit.profiler.domains import default_domain
from chunkfit.profiler.synthetic_profile import synthetic_profile
from chunkfit.scheduler.live.virtual import VirtualExecutor

PAGES = default_domain("synthetic").kv_tokens // 16


@lru_cache(maxsize=1)
def synthetic_table():
    profile = synthetic_profile(0, fit_points=300, calibrate_points=400, test_points=400)
    return fit(profile, fitter="scene_experts")


def virtual(seed=0, pages=PAGES):
    return VirtualExecutor(open_device("synthetic", "none", default_domain("synthetic"), seed, "live"), pages)
