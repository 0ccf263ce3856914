"""A table in a second: one fitter, where a test is about something else than the choice among all of them."""

from functools import partial

from chunkfit.fitters.fit import fit as fit_table

fit = partial(fit_table, fitter="scene_experts")
