"""One grammar: values with units are read, checked and written back; names, options and lists are split and joined."""

from typing import Annotated

import pytest
from pydantic import Field

from chunkfit.files.errors import UsageError
from chunkfit.files.specs import OptionsModel, join, read_options, split, split_list
from chunkfit.files.units import SHARE, SWITCH, Count, Duration, Factor, Share, Text, choice, rate


class Sample(OptionsModel):
    wait_ms: Duration = 500.0
    speed_per_s: Annotated[float, rate("/s")] = 10.0
    scale: Factor = 1.0
    share: Share = 0.0
    shares: Annotated[tuple[float, ...], SHARE.list(2, "2 shares")] = (0.0, 1.0)
    count: Count | None = None
    kind: Annotated[str, choice("per_token", "schedule")] = "per_token"
    keep: Annotated[bool, SWITCH] = True
    path: Text | None = Field(None, description="of a file")


TEXTS = {
    "wait": "1.1s",
    "speed": "8500/s",
    "scale": "1.4285714285714286x",
    "share": "7%",
    "shares": "2.5%/97.5%",
    "count": "12",
    "kind": "schedule",
    "keep": "no",
    "path": "a/b.csv",
}


def test_texts_are_read_and_written_back():
    sample = read_options(Sample, TEXTS, "sample")
    assert sample.wait_ms == 1100.0
    assert sample.share == 0.07
    assert sample.shares == (0.025, 0.975)
    assert sample.keep is False
    assert sample.texts() == TEXTS
    assert read_options(Sample, sample.texts(), "sample") == sample


def test_values_are_taken_by_field_and_defaults_are_not_written():
    sample = read_options(Sample, {"wait_ms": 500.0, "scale": 2.0}, "sample")
    assert sample.texts() == {"scale": "2x"}
    assert sample.texts(given=True) == {"wait": "500ms", "scale": "2x"}


def test_a_share_is_a_percentage_or_a_fraction_and_a_choice_takes_either_dash():
    given = {"share": "0.99", "kind": "per-token"}
    sample = read_options(Sample, given, "sample")
    assert (sample.share, sample.kind) == (0.99, "per_token")
    assert sample.share == read_options(Sample, {"share": "99%"}, "sample").share


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"wait": "25"}, r"sample: wait '25': expected a number with its unit \(us, ms, s, m, h\), such as 25ms"),
        ({"wait": "0ms"}, "wait '0ms': expected a time above 0"),
        ({"wait_ms": float("nan")}, "wait_ms nan: expected a time above 0"),
        ({"speed": "fast"}, "speed 'fast': expected a number above 0 with or without its unit"),
        ({"scale": "2"}, "scale '2': expected a factor with its x"),
        ({"scale": "infx"}, "scale 'infx': expected a factor with its x"),
        ({"share": "101%"}, "share '101%': expected a share from 0% to 100%"),
        ({"share": "99"}, "share '99': expected a share from 0% to 100%"),
        ({"share": "nan"}, "share 'nan': expected a share"),
        ({"shares": "10%"}, "shares '10%': expected 2 shares"),
        ({"count": "1.5"}, "count '1.5': expected a whole number from 1 to 1,000,000,000"),
        ({"count": True}, "count True: expected a whole number"),
        ({"kind": "none"}, "kind 'none': expected one of per_token, schedule"),
        ({"keep": "true"}, "keep 'true': expected yes or no"),
        ({"keep": 1}, "keep 1: expected yes or no"),
        ({"sped": "3"}, "sample: option 'sped' is unknown; expected wait, speed, .*; did you mean speed?"),
    ],
)
def test_a_wrong_value_is_named_with_what_was_expected(given, message):
    with pytest.raises(UsageError, match=message):
        read_options(Sample, given, "sample")


def test_a_text_is_split_and_joined():
    assert split("mixed_v1:prompt-scale=2x, rate=85", "workload", "") == (
        "mixed-v1",
        {"prompt_scale": "2x", "rate": "85"},
    )
    assert split("full", "policy", "") == ("full", {})
    assert join("mixed", {"rate": "85", "ttft": "1s"}) == "mixed:rate=85,ttft=1s"
    assert join("full", {}) == "full"
    for text, message in (
        ("mixed:", "workload 'mixed:': ''; expected option=value, as in mixed:rate=85"),
        ("mixed:rate", "'rate'; expected option=value"),
        ("mixed:rate=1,rate=2", "rate is given twice"),
    ):
        with pytest.raises(UsageError, match=message):
            split(text, "workload", "mixed:rate=85")


def test_a_list_is_split_at_commas_that_begin_a_text():
    assert split_list("a,b:x=1,y=2,c", "--policy") == ["a", "b:x=1,y=2", "c"]
    for text in ("a,,b", "a,a", ""):
        with pytest.raises(UsageError, match=r"--policy .*expected different texts joined by commas"):
            split_list(text, "--policy")
