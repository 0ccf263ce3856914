"""The benchmark of the simulator: its rows, on a few requests."""

import simulator_speed

from chunkfit.scheduler.cost import SLOWEAVE


def test_every_policy_has_its_rows():
    cost = SLOWEAVE.cost()
    rows = simulator_speed.speed_rows("few", simulator_speed.requests_at(20, 50.0), cost)
    rows += simulator_speed.overload_rows(cost, most=300, least=100, repeats=1)
    assert len(rows) == 3 * len(simulator_speed.POLICIES)
    assert all(row.value > 0 for row in rows)


def test_overload_is_timed_while_the_queue_is_long():
    name = "fixed-256"
    (row,) = (r for r in simulator_speed.overload_rows(SLOWEAVE.cost(), 300, 100, 1) if name in r.name)
    _, whole = simulator_speed.timed(simulator_speed.at_once(300), name, SLOWEAVE.cost())
    assert 0 < row.n < whole.iterations


def test_a_request_takes_less_than_a_kilobyte():
    _, added = simulator_speed.fresh("print(*scaled_run(100_000))").split()
    assert 106 < int(added) / 100_000 < 1000  # workload and result alone are 106 bytes
