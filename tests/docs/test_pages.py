"""README and docs: short where they must be, and nothing named that is not there."""

import pkgutil
import re

import pytest
from support.pages import PAGES, ROOT, name

PATH = re.compile(r"`((?:[\w.-]+/)+[\w.*-]+\.(?:py|md|ipynb|sh|json|png|svg))`")
LINK = re.compile(r"\]\(([^)#\s]+?)(?:#[\w-]+)?\)")


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().split()) < 1_200


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_paths_exist(page):
    missing = [path for path in PATH.findall(page.read_text()) if not list(ROOT.glob(path))]
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page):
    targets = [target for target in LINK.findall(page.read_text()) if "://" not in target]
    assert not [target for target in targets if not (page.parent / target).exists()]


def test_the_python_reference_names_what_there_is():
    names = re.findall(r"^::: (\S+)", (ROOT / "docs" / "api.md").read_text(), re.MULTILINE)
    assert len(names) > 10
    for dotted in names:
        pkgutil.resolve_name(dotted)


def test_every_page_is_in_the_menu():
    menu = (ROOT / "mkdocs.yml").read_text()
    pages = [page.relative_to(ROOT / "docs").as_posix() for page in PAGES if page.is_relative_to(ROOT / "docs")]
    assert not [page for page in pages if page not in menu]


def test_make_targets_exist():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {
        target for page in PAGES for target in re.findall(r"(?:`|^)make ([a-z-]+)", page.read_text(), re.MULTILINE)
    }
    assert named <= targets
