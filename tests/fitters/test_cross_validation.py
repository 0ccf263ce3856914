"""Value folds: each axis by itself, whole values, most of them inside."""

import numpy as np

from chunkfit.fitters.cross_validation import value_folds
from chunkfit.fitters.rows import Rows


def rows_at(points):
    return Rows(points, np.ones(len(points)), np.arange(len(points)), np.zeros(len(points), dtype=bool))


def grid(*axes):
    return np.column_stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")])


def test_each_axis_that_varies_is_left_out_by_whole_values():
    points = grid([1, 2, 4, 8, 16, 32], [64], [16, 32, 64, 128, 256, 512, 1024], [0, 100, 200])
    by_n, by_c = value_folds(rows_at(points))  # one context, three prefixes: nothing lies between
    assert np.unique(points[by_n, 0]).tolist() == [4, 32]  # the largest too
    assert np.unique(points[by_c, 2]).tolist() == [32, 256]
    for fold, axis in ((by_n, 0), (by_c, 2)):
        assert not np.isin(points[~fold, axis], points[fold, axis]).any()


def test_an_axis_that_a_scene_lacks_is_not_left_out_there():
    points = np.concatenate([grid([1, 2, 4, 8], [64], [0], [0]), grid([0], [0], [16, 32, 64, 128], [0])])
    by_n, by_c = value_folds(rows_at(points))
    assert not (by_n & by_c).any()
    assert (points[by_n, 0] > 0).all()
    assert (points[by_c, 2] > 0).all()


def test_many_values_go_by_bands():
    chunks = np.arange(1, 1000)
    points = np.column_stack([np.zeros_like(chunks), np.zeros_like(chunks), chunks, np.zeros_like(chunks)])
    (held,) = value_folds(rows_at(points))
    assert np.abs(np.diff(held.astype(int))).sum() < 14
    assert 0.1 < held.mean() < 0.6
