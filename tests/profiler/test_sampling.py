"""The sampling law: inside the domain, equal shares, its extra weight on edges and steps."""

import numpy as np
import pytest

from chunkfit.files.errors import UsageError
from chunkfit.profiler.domains import SYNTHETIC_DOMAIN
from chunkfit.profiler.sampling import BOUNDARY_SHARE, axis_range, corners, draw, inside, step_pairs
from chunkfit.tables.domain import Domain
from chunkfit.tables.grid import scene_of

# 64 decodes of 4,096 tokens would need 8 times its KV capacity.
CLIPPED = Domain(
    max_decodes=64,
    max_context_tokens=4096,
    max_chunk_tokens=1024,
    max_prefix_tokens=4096,
    max_batch_tokens=1024,
    kv_tokens=32_768,
    context_length=8192,
)
NO_PREFIX = CLIPPED.model_copy(update={"max_prefix_tokens": 0})


@pytest.mark.parametrize("domain", [SYNTHETIC_DOMAIN, CLIPPED, NO_PREFIX])
def test_points_are_distinct_inside_and_in_equal_shares(domain):
    drawn = draw(domain, 1000, (129,), 3)
    rows = [tuple(row) for row in drawn.points.tolist()]
    assert len(rows) == len(set(rows)) == 1000
    assert all(domain.refusal(*row) is None for row in rows)
    names, counts = np.unique(scene_of(drawn.points), return_counts=True)
    assert dict(zip(names.tolist(), counts.tolist(), strict=True)) == {"decode": 334, "prefill": 333, "mixed": 333}
    n, k, c, u = drawn.points.T
    assert ((n > 0) == (k > 0)).all()
    assert (u[c == 0] == 0).all()


def test_inside_agrees_with_the_domain():
    rng = np.random.default_rng(0)
    points = rng.integers(0, [140, 9000, 2300, 18_000], size=(4000, 4))
    agreed = [SYNTHETIC_DOMAIN.refusal(*row) is None for row in points.tolist()]
    assert inside(SYNTHETIC_DOMAIN, points).tolist() == agreed
    assert 0 < sum(agreed) < 4000


def test_the_law_has_the_shares_it_states():
    n, k, c, u = np.concatenate([draw(SYNTHETIC_DOMAIN, 600, (129,), seed).points for seed in range(10)]).T
    mixed = (n > 0) & (c > 0)
    steps = np.isin((n + c)[mixed], (128, 129)).mean()
    assert 0.09 < steps < 0.13  # 10%, and the few that fall there by themselves
    prefill = n == 0
    assert 0.13 < (u[prefill] == 0).mean() < 0.2  # a little under 20%: chunks of few tokens repeat
    at_edge = (c[prefill] == 2048) | (u[prefill] == 16_384)
    assert BOUNDARY_SHARE * 0.8 < at_edge.mean() < BOUNDARY_SHARE * 1.5
    # Even in the logarithm: as many contexts between 16 and 362 as between 362 and 8192.
    assert 0.42 < (k[(n > 0)] < 362).mean() < 0.55


def test_what_capacity_clips_is_counted():
    assert draw(CLIPPED, 600, (), 0).rejected > 0
    roomy = CLIPPED.model_copy(update={"kv_tokens": 10**7, "max_batch_tokens": 4096})
    assert draw(roomy, 600, (), 0).rejected == 0


def test_seeds_decide_and_scrambles_differ():
    first, again, other = (draw(SYNTHETIC_DOMAIN, 300, (129,), seed).points for seed in (5, 5, 6))
    assert (first == again).all()
    shared = {tuple(r) for r in first.tolist()} & {tuple(r) for r in other.tolist()}
    assert len(shared) < 30


def test_excluded_points_are_never_drawn():
    taken = {tuple(row) for row in draw(NO_PREFIX, 400, (), 1).points.tolist()}
    drawn = draw(NO_PREFIX, 400, (), 1, exclude=taken).points.tolist()
    assert not taken & {tuple(row) for row in drawn}


def test_a_domain_with_too_few_points_is_refused():
    small = Domain(
        max_decodes=2,
        max_context_tokens=4,
        max_chunk_tokens=4,
        max_prefix_tokens=0,
        max_batch_tokens=6,
        kv_tokens=64,
        context_length=64,
    )
    with pytest.raises(UsageError, match=r"scene (decode|prefill).*found \d+ distinct points.*expected 100"):
        draw(small, 300, (), 0)


def test_corners_are_the_feasible_ends_of_every_axis():
    found = corners(CLIPPED)
    assert (1, 16, 0, 0) in found
    assert (0, 0, 1024, 4096) in found
    assert (64, 4096, 0, 0) not in found  # does not fit the KV pool
    assert all(CLIPPED.refusal(*point) is None for point in found)
    for axis in range(4):
        assert {point[axis] for point in found} <= {0, *axis_range(CLIPPED, axis)}


def test_step_pairs_hold_the_same_states_on_both_sides():
    pairs = step_pairs(SYNTHETIC_DOMAIN, (129,), 6, np.random.SeedSequence(0))
    before = {(n, k, u) for n, k, c, u in pairs if c and n + c == 128}
    after = {(n, k, u) for n, k, c, u in pairs if c and n + c == 129}
    assert before == after
    assert len([n for n, *_ in before if n]) >= 4
    assert len([n for n, *_ in before if not n]) >= 4
    # 129 decodes are past the domain: only the near side of the step is there.
    assert {n for n, _, c, _ in pairs if c == 0} == {128}
