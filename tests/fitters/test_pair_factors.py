"""Factors of unequal contexts and several chunks against the known truth, and what they do to the bound."""

from dataclasses import replace

import numpy as np
import pytest
from support.fitting import fit

from chunkfit import Profile
from chunkfit.fitters.margin import pair_factor
from chunkfit.fitters.validate import evidence_findings
from chunkfit.profiler.columns import batch_of
from chunkfit.profiler.devices import truth
from chunkfit.profiler.domains import SYNTHETIC_DOMAIN
from chunkfit.profiler.pairs import several_chunks, unequal_contexts
from chunkfit.profiler.synthetic_profile import synthetic_profile

ROLES = {"unequal": "unequal_contexts", "chunks": "several_chunks"}


@pytest.fixture(scope="module")
def profile() -> Profile:
    return synthetic_profile(0)


@pytest.fixture(scope="module")
def table(profile):
    return fit(profile)


def where(profile, mask):
    return Profile(profile.meta, {name: column[mask] for name, column in profile.columns.items()})


def true_factors(profile, role):
    part = profile.select("fit", role)
    layouts = part.columns["layout"].tolist()
    batches = {batch_of(text, *point) for text, point in zip(layouts, part.points().tolist(), strict=True) if text}
    return sorted(truth.layout_factor(batch) for batch in batches)


@pytest.mark.parametrize("role", ROLES)
def test_the_factor_is_the_largest_of_32_true_ones(profile, role):
    """The fastest of five repeats with 1% noise: their ratio is within 3%, the largest of 32 rather above."""
    found, true = pair_factor(profile, role), true_factors(profile, role)
    assert len(true) == 32
    assert true[-1] - 0.02 < found.factor < true[-1] + 0.03
    assert found.factor * 4096 == int(found.factor * 4096)
    assert "order statistic 32 of 32 ratios" in found.detail


@pytest.mark.parametrize("role", ROLES)
def test_too_few_pairs_give_no_factor(profile, role):
    columns = profile.columns
    layouts = sorted(set(columns["layout"][columns["role"] == role].tolist()) - {""})
    few = pair_factor(where(profile, ~np.isin(columns["layout"], layouts[:4])), role)
    assert few.factor is None
    assert few.detail == "not measured: 28 pairs of equal totals; needs 29"
    assert pair_factor(where(profile, ~np.isin(columns["layout"], layouts[:3])), role).factor >= 1
    alone = where(profile, ~((columns["role"] == role) & (columns["layout"] == "")))
    assert pair_factor(alone, role).detail.startswith("not measured: 0 pairs"), "a partner is missing"


def test_the_factor_is_at_least_one_and_slow_iterations_do_not_set_it(profile):
    rng = np.random.default_rng(0)
    paired = profile.columns["layout"] != ""
    quick = replace(profile, columns={**profile.columns, "latency_ms": np.where(paired, 1.0, 10.0)})
    assert pair_factor(quick, "chunks").factor == 1.0
    # Three of the five repeats of every batch ten times as long.
    slow = np.isin(profile.columns["repeat"], rng.permutation(5)[:3]) & np.isin(profile.columns["role"], list(ROLES))
    stalled = np.where(slow, 10, 1) * profile.columns["latency_ms"]
    stalling = replace(profile, columns={**profile.columns, "latency_ms": stalled})
    assert pair_factor(stalling, "unequal").factor == pytest.approx(pair_factor(profile, "unequal").factor, rel=0.03)


@pytest.mark.parametrize("role", ROLES)
def test_bounds_of_such_batches_cover_only_with_the_factor(table, role):
    """By the closed form, over batches that no profile has drawn."""
    draw = unequal_contexts if role == "unequal" else several_chunks
    batches = draw(SYNTHETIC_DOMAIN, 500, np.random.SeedSequence(99))
    points = np.asarray([batch.point() for batch in batches])
    ratio = np.asarray([truth.layout_factor(batch) for batch in batches])
    bound = np.asarray([table.bound_ms(batch) for batch in batches])
    assert truth.coverage(points, bound / ratio).mean() >= 0.99
    assert truth.coverage(points, table.read(points)[1] / ratio).mean() < 0.9
    assert (bound >= table.read(points)[1]).all()


def test_equal_batches_pay_nothing(profile, table):
    without = fit(where(profile, profile.columns["layout"] == ""))
    assert without.document.factors.unequal_contexts is None
    assert without.document.scenes == table.document.scenes
    assert without.document.certificate == table.document.certificate


def test_validate_recomputes_the_factors(profile, table, tmp_path):
    path = tmp_path / "p.parquet"
    profile.save(path)
    assert evidence_findings(table.document, path) == []
    for name in ROLES.values():
        factors = table.document.factors.model_copy(update={name: 1.0})
        found = evidence_findings(table.document.model_copy(update={"factors": factors}), path)
        assert [finding.where for finding in found] == [f"$.factors.{name}"]
        assert "stored 1.0, recomputed from the profile 1." in found[0].message
    where(profile, profile.columns["role"] != "unequal").save(path)
    messages = [finding.message for finding in evidence_findings(table.document, path)]
    assert any("recomputed from the profile None" in message for message in messages)
