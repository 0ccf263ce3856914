"""The page holds everything, is one file, and says in words what does not hold."""

import json
import re
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from support.browser import CHROMIUM, visit

from chunkfit.cli.report.evidence import gather, misses
from chunkfit.cli.report.figures import MOST_DOTS, thinned
from chunkfit.cli.report.write import facts, report_html
from chunkfit.files.errors import TableFormatError, UsageError
from chunkfit.tables.grid import to_ms

SECTIONS = ["curves", "residuals", "coverage", "gap", "candidates", "drift", "fingerprint"]
EMPTY = {"meta", "link", "br", "img", "hr", "input"}


class Parts(HTMLParser):
    """Tags, attributes and text; complains about a tag that is not closed in its turn."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.attributes, self.open, self.text = Counter(), [], [], []
        self.feed(html)
        assert not self.open, self.open

    def handle_starttag(self, tag, attrs):
        self.tags[tag] += 1
        self.attributes += attrs
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags[tag] += 1
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


@pytest.fixture(scope="module")
def html(evidence):
    return report_html(evidence)


def test_it_is_one_file_without_scripts_and_without_addresses(html):
    parts = Parts(html)
    assert len(html.encode()) < 3_000_000
    assert not {"script", "img", "image", "iframe", "object", "link", "base"} & parts.tags.keys()
    for name, value in parts.attributes:
        assert not name.startswith("on")
        if name in ("href", "src", "xlink:href"):
            assert value.startswith("#"), value
    assert set(re.findall(r"https?://[^\"' ]+", html)) <= {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }
    assert "default-src 'none'" in dict(parts.attributes)["content"] or "default-src &#x27;none&#x27;" in html


def test_ids_are_unique_and_every_reference_has_its_target(html):
    ids = [value for name, value in Parts(html).attributes if name == "id"]
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'(?:href="|url\()#([^")]+)', html)) <= set(ids)


def test_every_section_is_there_and_every_figure_says_its_n(html):
    assert re.findall(r'<section id="(\w+)">', html) == SECTIONS
    for key, part in zip(SECTIONS, html.split("<section ")[1:], strict=True):
        text = " ".join(Parts("<section " + part.split("</section>")[0] + "</section>").text)
        assert len(text) > 100
        if "<svg" in part:
            assert re.search(r"n = \d|: \d+ of \d+", text), key
    assert html.count("<svg") == 6


def test_the_first_screen_says_what_is_promised_on_which_law(html, evidence):
    head = " ".join(Parts(re.search(r"<header.*?</header>", html, re.DOTALL)[0]).text)
    certificate = evidence.table.certificate
    for words in (
        "SYNTHETIC",
        "Verdict: ",
        "Valid: ",
        "0.99 at 0.95 confidence",
        f"{certificate.exceedances} of {certificate.rows} calibration rows above the bound",
        certificate.law,
        "thin scenes",
        "mean U/T",
    ):
        assert words in head
    assert "the same bounds, to the tick" in html


def test_the_same_figure_gives_the_same_markup(evidence):
    first, second = (facts(evidence)["coverage"]["svg"] for _ in range(2))
    assert first == second


def test_a_fitter_that_did_not_compete_and_steps_are_listed(evidence):
    options = dict(evidence.table.fitter.options)
    (linear,) = options["selection"]["candidates"]
    lost = {"name": "boosted", "pinball_50_percent": {}, "pinball_99_percent": {}, "reason": "needs <lightgbm>"}
    step = {"total": 257, "between": [256, 257], "rise_percent": 12.34, "standard_errors": 9.4, "points": [31, 1028]}
    options |= {"selection": {"why": "the only one", "candidates": [linear, lost]}, "steps_found": [step]}
    fitter = evidence.table.fitter.model_copy(update={"options": options})
    changed = replace(evidence, table=evidence.table.model_copy(update={"fitter": fitter}))
    text = " ".join(Parts(report_html(changed)).text)
    assert "boosted did not compete: needs <lightgbm>" in text
    assert "257 256 to 257 12.3% 9 31 1,028" in text


def test_a_broken_promise_is_said_at_the_top_and_by_the_exit_code(folder, tmp_path, command):
    out = tmp_path / "r.html"
    done = command("report", folder / "promised.json", "--profile", folder / "profile.parquet", "--out", out, "--json")
    assert done.code == 1
    assert done.json["valid"] is False
    assert done.json["bytes"] == out.stat().st_size
    assert done.json["concerns"][0]["level"] == "wrong"
    html = out.read_text()
    assert html.index("NOT VALID: 1 finding") < html.index("What the file claims") < html.index("<section")
    assert "Valid: " not in html


def test_a_fallen_bound_is_named_and_drawn_all_the_same(folder, tmp_path, evidence, monkeypatch):
    content = json.loads((folder / "table.json").read_text())
    base = content["scenes"]["mixed"]["base"]
    last = evidence.arrays.axes.shape("mixed")[-1] - 1
    low = float(to_ms(evidence.arrays.bound["mixed"].base[0, 0, 0, last - 1])) / 2
    base["expected_ms"][last] = base["bound_ms"][last] = float(np.floor(low))
    (tmp_path / "fallen.json").write_text(json.dumps(content))
    # What is tested is the page, not the fit done again.
    monkeypatch.setattr("chunkfit.cli.report.evidence.repeated", lambda *_: evidence.repeat)
    html = report_html(gather(tmp_path / "fallen.json", folder / "profile.parquet"))
    assert "NOT VALID" in html
    assert "a batch with less work" in html
    assert "checksum" in html


def test_other_data_is_refused(folder, imported, tmp_path):
    with pytest.raises(UsageError, match=r"log.parquet: not the profile that .*table.json was fitted on"):
        gather(folder / "table.json", imported.profile_path)
    with pytest.raises(UsageError, match="cannot be read"):
        gather(folder / "table.json", tmp_path / "absent.parquet")
    (tmp_path / "cut.json").write_text('{"format": ')
    with pytest.raises(TableFormatError, match="byte offset"):
        gather(tmp_path / "cut.json", folder / "profile.parquet")


def test_a_log_without_sentinel_says_unknown_and_its_names_stay_text(imported):
    html = report_html(imported)
    assert "no sentinel was measured, so nothing says whether the machine was quiet" in html
    assert "&lt;script&gt;alert(&#39;T &amp; U&#39;)&lt;/script&gt;" in html
    assert "<script" not in html
    assert "imported from log.csv" in html
    assert Parts(html).tags["svg"] == 5


def test_no_row_above_the_bound_is_thinned_out(evidence):
    test = evidence.readings["test"]
    many = test.where(np.arange(len(test.rows)).repeat(10))
    assert len(thinned(replace(many, bound_ms=many.expected_ms + np.inf)).rows) == MOST_DOTS
    high = replace(many, bound_ms=np.where(np.arange(len(many.rows)) % 7 == 1, 0.0, np.inf))
    assert thinned(high).above.sum() == high.above.sum()
    assert thinned(test) is test


def test_misses_are_those_of_the_table(evidence):
    found = {miss.label: miss for miss in misses(evidence)}
    stored = evidence.table.test
    whole = found["test, all"]
    assert whole.rows - whole.above == stored.coverage.covered
    assert (1 - whole.high, 1 - whole.low) == pytest.approx((stored.coverage.low, stored.coverage.high))
    bands = [miss for label, miss in found.items() if " ms" in label]
    assert (len(bands), sum(miss.rows for miss in bands), sum(miss.above for miss in bands)) == (
        4,
        whole.rows,
        whole.above,
    )


@pytest.mark.parametrize(("flagged", "lines"), [(0, 0), (5, 1), (320, 0)])
def test_rows_under_a_throttle_are_left_out_beside_all(evidence, flagged, lines):
    test = evidence.readings["test"]
    rows = replace(test.rows, flagged=np.arange(len(test.rows)) < flagged)
    found = misses(replace(evidence, readings={"test": replace(test, rows=rows)}))
    assert [miss.rows for miss in found if "not throttled" in miss.label] == [320 - flagged] * lines


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium here (Debian: apt-get install chromium)")
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_page_in_a_browser(html, tmp_path, dark):
    page = tmp_path / "report.html"
    page.write_text(html)
    boxes = (
        "[...document.querySelectorAll('header, section, svg')].map(part => { const box = part.getBoundingClientRect();"
        " return [part.id || part.getAttribute('aria-label'), box.width, box.height]; })"
    )
    wide = "document.documentElement.scrollWidth - window.innerWidth"
    colours = (
        "[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.querySelector('svg text')).fill]"
    )
    found = visit(page, tmp_path / "browser", [boxes, wide, colours], dark)
    assert found.requests == [page.as_uri()]
    assert found.complaints == []
    shown, over, (paper, ink) = found.answers
    assert [name for name, *_ in shown if name in SECTIONS] == SECTIONS
    assert all(width > 400 and height > 100 for _, width, height in shown), shown
    assert over <= 0
    light = [sum(map(int, re.findall(r"\d+", colour)[:3])) > 384 for colour in (paper, ink)]
    assert light == ([False, True] if dark else [True, False])


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium here (Debian: apt-get install chromium)")
def test_the_browser_would_have_told_of_a_script_and_an_image(html, tmp_path):
    page = tmp_path / "spoilt.html"
    page.write_text(html.replace("</h1>", '</h1><img src="http://127.0.0.1:9/x.png"><script>1</script>', 1))
    found = visit(page, tmp_path / "browser", [])
    assert "http://127.0.0.1:9/x.png" in found.requests
    assert len(found.complaints) == 2
