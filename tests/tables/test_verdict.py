"""The verdict is the worst of its concerns and names it first."""

from chunkfit.tables.verdict import ConcernV1, Grade, VerdictV1


def concern(name, grade):
    return ConcernV1(name=name, grade=grade, reason=f"{name} was found", advice="measure again")


def test_the_worst_concern_decides_and_stands_first():
    verdict = VerdictV1.of(
        [concern("note", Grade.GOOD), concern("drift", Grade.WIDE), concern("test_session", Grade.DO_NOT_USE)]
    )
    assert verdict.grade is Grade.DO_NOT_USE
    assert [one.name for one in verdict.concerns] == ["test_session", "drift", "note"]
    assert verdict.title() == "do not use: test_session was found"


def test_a_table_without_concerns_is_good_and_notes_do_not_change_that():
    assert VerdictV1.of([]).grade is Grade.GOOD
    assert VerdictV1.of([concern("note", Grade.GOOD)]).title() == "good"


def test_the_title_counts_further_concerns_of_the_same_grade():
    verdict = VerdictV1.of([concern("drift", Grade.WIDE), concern("width", Grade.WIDE)])
    assert verdict.title() == "wide: drift was found (and 1 more)"
