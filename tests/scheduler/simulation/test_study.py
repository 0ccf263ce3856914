"""Reports in order, none played twice, what was played kept; the same wherever it is played."""

import json
import signal

import pytest

from chunkfit.files.errors import (
    ChunkfitError,
    MissingExtraError,
    RunReportError,
    StorageError,
    UsageError,
    WorkerError,
)
from chunkfit.scheduler.compiled import sources_digest
from chunkfit.scheduler.simulation import journal as journals
from chunkfit.scheduler.simulation.cell import cell
from chunkfit.scheduler.simulation.journal import open_journal
from chunkfit.scheduler.simulation.on_ray import Ray
from chunkfit.scheduler.simulation.pools import Processes
from chunkfit.scheduler.simulation.runs import Study, groups
from tests.support.studies import COSTS, SETTING, SMALL, Counting, cells_of

CELLS = cells_of()


@pytest.fixture(scope="module")
def here():
    """What one process says."""
    return Study(Processes(COSTS, 1)).reports(CELLS)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "study" / "runs.jsonl"


def opened(path, resume=False, overwrite=False):
    return open_journal(path, resume=resume, overwrite=overwrite)


def test_processes_give_the_same_bytes_in_the_order_asked(here):
    pool = Processes(COSTS, 2)
    try:
        there = Study(pool).reports(CELLS)
        again = Study(pool).reports(CELLS[::-1])  # by the processes alone: they are there already
    finally:
        pool.close()
    assert [each.model_dump_json() for each in there] == [each.model_dump_json() for each in here]
    assert again == here[::-1]


def test_an_error_says_of_which_run_it_is():
    bad = CELLS[0].model_copy(update={"policy": "sloweave:prefills=0"})
    for jobs in (1, 2):
        pool = Processes(COSTS, jobs)
        try:
            with pytest.raises(UsageError, match=r"policy sloweave:prefills=0, workload .*, seed 0: policy sloweave: "):
                Study(pool).reports([CELLS[0], bad, CELLS[1]])
        finally:
            pool.close()


def test_a_process_that_is_killed_ends_the_study_and_not_the_journal(path):
    pool = Processes(COSTS, 2)
    try:
        with opened(path) as journal:
            study = Study(pool, journal)
            study.reports(CELLS[:3])
            for process in list(pool._executor._processes.values()):
                process.kill()
            with pytest.raises(WorkerError, match="go on with --resume"):
                study.reports(CELLS)
    finally:
        pool.close()
    with opened(path, resume=True) as journal:
        assert set(journal.reports) == set(CELLS[:3])


def test_ctrl_c_ends_a_process_of_the_pool_without_a_word():
    from chunkfit.scheduler.simulation import pools

    before = signal.getsignal(signal.SIGINT)
    try:
        pools._start(COSTS)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGINT, before)
        pools._costs = {}


def test_none_is_played_twice(here):
    pool, told = Counting(), []
    study = Study(pool)
    assert study.reports([*CELLS[:3], CELLS[0]], lambda *done: told.append(done)) == [*here[:3], here[0]]
    assert told == [(0, 3), (1, 3), (2, 3), (3, 3)]
    assert study.reports(CELLS) == here
    assert pool.played == CELLS


def test_an_interrupted_study_goes_on_where_it_was(path, here):
    first = Counting(most=3)
    with pytest.raises(KeyboardInterrupt), opened(path) as journal:
        Study(first, journal).reports(CELLS)
    with path.open("ab") as file:
        file.write(b'{"cell": {"policy": "fu')  # a kill cuts the last line
    rest = Counting()
    with opened(path, resume=True) as journal:
        assert Study(rest, journal).reports(CELLS) == here
    assert first.played + rest.played == CELLS
    nothing = Counting()
    with opened(path, resume=True) as journal:
        assert Study(nothing, journal).reports(CELLS) == here
    assert not nothing.played


def test_a_study_that_played_nothing_is_none(path):
    for _ in range(2):
        with opened(path) as journal:
            assert not journal.reports
    path.write_text("notes of my own\n")
    with pytest.raises(UsageError, match="there is a study already"), opened(path):
        pass
    assert path.read_text() == "notes of my own\n"


def test_a_study_is_not_written_over_unasked(path):
    with opened(path) as journal:
        Study(Counting(), journal).reports(CELLS[:1])
    with pytest.raises(UsageError, match="--resume to go on with it, --overwrite to replace it"), opened(path):
        pass
    with opened(path, overwrite=True) as journal:
        assert not journal.reports
    assert len(path.read_text().splitlines()) == 1


def test_two_studies_do_not_write_one_journal(path):
    with (
        opened(path),
        pytest.raises(ChunkfitError, match="another process is writing it"),
        opened(path, resume=True),
    ):
        pass


def test_other_sources_do_not_go_on_with_it(path, monkeypatch):
    with opened(path) as journal:
        Study(Counting(), journal).reports(CELLS[:1])
    monkeypatch.setattr(journals, "sources_digest", lambda: "0" * 64)
    with pytest.raises(UsageError, match=f"other sources.*{sources_digest()[:12]}"), opened(path, resume=True):
        pass


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (lambda lines: [*lines[:1], "{}", *lines[1:]], "line 2: "),
        (lambda lines: lines[1:], "line 1: "),
        (lambda lines: [lines[0], lines[1].replace('"seed":0', '"seed":-1', 1)], r"line 2: \$\.cell\.seed"),
    ],
)
def test_damage_is_named_by_its_line(path, change, place):
    with opened(path) as journal:
        Study(Counting(), journal).reports(CELLS[:1])
    path.write_text("\n".join(change(path.read_text().splitlines())) + "\n")
    with pytest.raises(RunReportError, match=place), opened(path, resume=True):
        pass


def test_a_place_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot be written"), opened(tmp_path / "file" / "runs.jsonl"):
        pass


def test_no_process_is_no_pool():
    with pytest.raises(UsageError, match="expected 1 or more processes"):
        Processes(COSTS, 0)


def test_groups_are_over_seeds(here):
    found = groups(CELLS, here)
    assert [(group.policy, group.option("rate")) for group in found] == [
        ("sloweave", "40"),
        ("full", "40"),
        ("sloweave", "85"),
        ("full", "85"),
    ]
    goods = [report.over_all.good_share for report in here[:2]]
    assert found[0].mean("good_share") == sum(goods) / 2
    assert found[0].spreads["good_share"].seeds == 2
    assert found[0].mean("nothing") is None
    long = [report.metrics.groups["application 1"].good_share for report in here[:2]]
    assert found[0].parts["application 1"]["good_share"].mean == sum(long) / 2
    assert json.dumps(found[0].data(), allow_nan=False)


def test_ray_is_asked_for_by_name(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'chunkfit\[ray\]'"):
        Ray(COSTS, "local")


@pytest.mark.slow
def test_ray_on_this_machine_gives_the_same_bytes(here, monkeypatch):
    pytest.importorskip("ray", reason="ray is not installed: pip install 'chunkfit[ray]'")
    monkeypatch.setenv("RAY_AUTH_TOKEN", "of-this-test-alone")  # else ray makes one in the home folder
    pool = Ray(COSTS, "local")
    try:
        there = Study(pool).reports(CELLS)
        assert [each.model_dump_json() for each in there] == [each.model_dump_json() for each in here]
        bad = cell("full", SMALL, 0, SETTING).model_copy(update={"policy": "full:prefills=0"})
        with pytest.raises(UsageError, match="policy full:prefills=0, workload"):
            Study(pool).reports([bad])
    finally:
        pool.close()


@pytest.mark.slow
def test_a_cluster_that_does_not_answer():
    pytest.importorskip("ray", reason="ray is not installed: pip install 'chunkfit[ray]'")
    pool = Ray(COSTS, "127.0.0.1:9")
    with pytest.raises(WorkerError, match=r"--ray 127.0.0.1:9: no cluster answers .*ray start --head"):
        Study(pool).reports(CELLS[:2])
    pool.close()
