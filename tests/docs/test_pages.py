"""The documents are held to the repository: links lead somewhere, files named are there, examples run."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
PYTHON = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NAMED_FILE = re.compile(r"`((?:[\w.-]+/)+[\w.-]+\.(?:py|yaml|md))`")
NAMED_FUNCTION = re.compile(r"`([\w.]+)\(\)` in\s+`((?:[\w.-]+/)+[\w.-]+\.py)`")
TARGET = re.compile(r"\bmake ([a-z][\w-]*)")


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_link_leads_to_a_file_that_is_there(page: Path) -> None:
    for link in LINK.findall(FENCE.sub("", page.read_text())):
        if link.startswith(("http://", "https://", "#")):
            continue
        path, _, heading = link.partition("#")
        target = page.parent / path
        assert target.exists(), f"{name(page)} links to {link}, which is not there"
        if heading:
            assert heading in anchors(target), f"{name(page)} links to {link}; {path} has no such heading"


@pytest.mark.parametrize("page", [ROOT / "docs" / "follow-a-record.md", ROOT / "docs" / "architecture.md"], ids=name)
def test_every_file_named_on_the_way_of_a_record_is_there(page: Path) -> None:
    named = NAMED_FILE.findall(page.read_text())
    assert named
    missing = sorted({path for path in named if not (ROOT / path).is_file()})
    assert not missing, f"{name(page)} names files that are not there: {missing}"


def test_every_function_named_on_the_way_of_a_record_is_in_its_file() -> None:
    named = NAMED_FUNCTION.findall((ROOT / "docs" / "follow-a-record.md").read_text())
    assert len(named) > 20
    for function, path in named:
        last = function.split(".")[-1]
        assert f"def {last}(" in (ROOT / path).read_text(), f"{path} has no function {function}"


def test_the_pages_on_the_way_of_a_record_come_in_the_order_of_the_design() -> None:
    text = (ROOT / "docs" / "follow-a-record.md").read_text()
    drawn = text[text.index("    source") : text.index("## 0.")]
    steps = ["source", "address", "binding", "decode", "envelope", "partition", "part", "entry", "shard"]
    assert sorted(steps, key=drawn.index) == steps


def test_the_examples_of_the_readme_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = PYTHON.findall((ROOT / "README.md").read_text())
    assert blocks
    shared: dict[str, object] = {"__name__": "readme"}
    for number, block in enumerate(blocks, 1):
        exec(compile(block, f"README.md, example {number}", "exec"), shared)


def test_make_help_lists_every_target_that_the_readme_names() -> None:
    shown = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    listed = set(TARGET.findall(shown))
    for target in TARGET.findall((ROOT / "README.md").read_text()):
        assert target in listed, f"README.md names `make {target}`; make help lists {sorted(listed)}"


def test_the_index_has_every_page() -> None:
    linked = set(LINK.findall((ROOT / "docs" / "index.md").read_text()))
    pages = {page.name for page in (ROOT / "docs").glob("*.md")} - {"index.md"}
    assert pages <= linked, f"docs/index.md does not link {sorted(pages - linked)}"


def test_the_list_of_rfcs_has_every_rfc_with_goals_and_non_goals() -> None:
    folder = ROOT / "docs" / "rfcs"
    listed = (folder / "README.md").read_text()
    for page in folder.glob("[0-9]*.md"):
        assert f"({page.name})" in listed, f"docs/rfcs/README.md does not list {page.name}"
        text = page.read_text()
        assert "## Goals" in text, page.name
        assert "## Non-Goals" in text, page.name


def anchors(page: Path) -> set[str]:
    """Headings as they are linked to."""
    found = re.findall(r"^#+ (.+)$", FENCE.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in found}
