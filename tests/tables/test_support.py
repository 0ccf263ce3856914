"""Where a table was measured: each answer against all measured batches above it, and the refusal without any."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.chunk_of import chunk_of
from support.random_tables import random_arrays, random_support, random_table, table_of

from chunkfit.files.errors import OutOfDomainError, TableFormatError
from chunkfit.tables import Batch, CostTable, Scene
from chunkfit.tables.batch import Point
from chunkfit.tables.document import checksum
from chunkfit.tables.support import SCENE_COLUMNS, Support, SupportKind

seeds = st.integers(0, 3000)


def small_table(seed):
    """A table of few batches, so that all of them can be listed."""
    arrays = random_arrays(seed, max_n=4, max_k=9, max_u=4, max_c=6)
    return table_of(replace(arrays, support=random_support(arrays.domain, np.random.default_rng(seed + 5))))


def every_point(domain):
    ranges = (
        range(domain.max_decodes + 1),
        range(domain.max_context_tokens + 1),
        range(domain.max_chunk_tokens + 1),
        range(domain.max_prefix_tokens + 1),
    )
    points = np.stack(np.meshgrid(*ranges, indexing="ij"), -1).reshape(-1, 4)
    n, k, c, u = points.T
    batches = (n + c > 0) & ((n > 0) == (k > 0)) & ((c > 0) | (u == 0))
    return points[batches & domain.contains(points)]


def measured_points(table):
    """Those of the points that lie in a measured box, box by box from the edges."""
    support, kept = table.arrays.support, []
    for point in every_point(table.domain).tolist():
        scene = Point(*point).scene
        box = []
        for column in SCENE_COLUMNS[scene]:
            edges = list(support.edges.values())[column]
            box.append(sum(edge < point[column] for edge in edges))
        if support.measured[scene][tuple(box)]:
            kept.append(point)
    return np.asarray(kept, dtype=np.int64).reshape(-1, 4)


@settings(max_examples=60, deadline=None)
@given(seeds)
def test_an_answer_is_the_least_of_all_measured_batches_with_at_least_as_much_work(seed):
    table = small_table(seed)
    above = measured_points(table)
    bound = replace(table.arrays, support=None).read(above)[1] if len(above) else np.empty(0)
    points = every_point(table.domain)
    for point in points[np.random.default_rng(seed).permutation(len(points))[:60]].tolist():
        more = (above >= point).all(axis=1)
        kind = table.support_of(Point(*point))
        if not more.any():
            assert kind is SupportKind.UNKNOWN
            with pytest.raises(OutOfDomainError):
                table.read(np.asarray([point]))
            continue
        found = table.read(np.asarray([point]))
        assert found[1][0] == bound[more].min()
        assert found[0][0] <= found[1][0]
        assert (kind is SupportKind.MEASURED) == (above == point).all(axis=1).any()


@settings(max_examples=150, deadline=None)
@given(seeds, st.data())
def test_a_batch_with_more_work_is_never_known_where_one_with_less_is_not(seed, data):
    table = random_table(seed, holes=True)
    points = every_point(small_table(seed).domain)
    points = points[table.domain.contains(points)]
    if not len(points):
        return
    less = Point(*points[data.draw(st.integers(0, len(points) - 1))].tolist())
    gain = [data.draw(st.integers(0, 9)) for _ in range(4)]
    n, k, c, u = (a + b for a, b in zip(less, gain, strict=True))
    more = Point(n, max(k, 1) if n else 0, c, u if c else 0)
    if any(a > b for a, b in zip(less, more, strict=True)) or table.domain.refusal(*more) is not None:
        return
    if table.support_of(less) is SupportKind.UNKNOWN:
        assert table.support_of(more) is SupportKind.UNKNOWN


def test_shorter_contexts_and_fewer_decodes_than_measured_have_the_bound_of_the_measured_ones():
    arrays = random_arrays(3)
    d = arrays.domain
    edges = {
        "decodes": (d.max_decodes - 1, d.max_decodes),
        "context_tokens": (d.max_context_tokens - 1, d.max_context_tokens),
        "chunk_tokens": (d.max_chunk_tokens,),
        "prefix_tokens": (d.max_prefix_tokens,),
    }
    support = Support(
        edges,
        {
            Scene.DECODE: np.array([[False, False], [False, True]]),
            Scene.PREFILL: np.zeros((1, 1), bool),
            Scene.MIXED: np.zeros((2, 2, 1, 1), bool),
        },
    )
    domain = d.model_copy(update={"kv_tokens": 10**6, "context_length": 10**6, "max_batch_tokens": 10**6})
    table = table_of(replace(arrays, support=support, domain=domain))
    top = table.bound_ms(Batch.of(d.max_decodes, d.max_context_tokens))
    assert table.bound_ms(Batch.of(1, 1)) == top
    assert table.support(Batch.of(1, 1)) is SupportKind.BY_ORDER
    assert table.support(Batch.of(0, 0, 1)) is SupportKind.UNKNOWN
    assert support.pinned() == {"decodes": d.max_decodes, "context_tokens": d.max_context_tokens}
    assert chunk_of(table, 1, 1, 0, 1e9) == 0  # no chunk was measured beside decodes
    with pytest.raises(OutOfDomainError, match="no batch with as much work in every coordinate was measured"):
        chunk_of(table, 0, 0, 0, 1e9)


def test_the_file_keeps_the_support_and_its_lengths_are_checked(tmp_path):
    table = random_table(4, holes=True)
    path = tmp_path / "table.json"
    table.save(path)
    again = CostTable.load(path)
    assert again.document == table.document
    for scene, boxes in table.arrays.support.measured.items():
        np.testing.assert_array_equal(again.arrays.support.measured[scene], boxes)
    content = json.loads(path.read_text())
    content["support"]["measured"]["mixed"].pop()
    content["content_sha256"] = checksum(content)
    path.write_text(json.dumps(content))
    with pytest.raises(TableFormatError, match=r"support\.measured\.mixed"):
        CostTable.load(path)
