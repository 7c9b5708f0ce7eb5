"""The documentation is true: its programs run, and print what it shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs.generate import generated_pages
from docs.jax_names import DIFFERS_, SAME, stale, statuses
from ftrace import errors
from ftrace.ground.missing_names import NEVER, NOT_YET
from tests.docs.pages import GALLERY, PAGES, ROOT, agrees, outputs_of, run_page

HINT = "python -m tests.docs.update writes the pages anew"
COMMANDS = re.compile(r"python -m (tests\.\w+)")
PICTURES = re.compile(r"!\[[^]]+\]\(([\w.]+)\)")
MOST_BYTES = 60_000


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_page_prints_what_it_shows(path: Path) -> None:
    page = path.read_text(encoding="utf-8")
    pairs = outputs_of(page)
    if not pairs:
        return
    run = run_page(path)
    for (_, shown), printed in zip(pairs, run.printed, strict=True):
        if shown is not None and shown.language == "text":
            assert agrees(shown.text, printed), f"{HINT}; now:\n{printed}"
    if path in GALLERY:
        assert sorted(run.pictures) == PICTURES.findall(page), "pictures of the page"


def test_generated_pages_are_current() -> None:
    for path, text in generated_pages().items():
        hint = "python -m docs.generate writes the generated pages anew"
        assert path.read_text(encoding="utf-8") == text, f"{path.name}: {hint}"


def test_every_name_of_jax_has_a_status() -> None:
    """The same, different and how, not yet, or never and why."""
    known = {SAME, DIFFERS_, NOT_YET, NEVER}
    for module, names in statuses().items():
        for name, (status, how) in names.items():
            assert status in known, f"jax.{module}.{name}"
            assert how or status in (SAME, NOT_YET), f"jax.{module}.{name}"
    assert stale() == [], "names of DIFFERS in docs/jax_names.py that are not there"


def test_every_exception_has_right_and_wrong_code() -> None:
    page = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    programs = [block for n in "12" for block, _ in outputs_of(page, n)]
    shown = [b.options["raises"] for b in programs if "raises" in b.options]
    classes = [
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, errors.FtraceError)
    ]
    assert {*shown} == {*classes} - {"FtraceError"}
    for section in page.split("\n## ")[1:]:
        name = section.split("\n", 1)[0]
        if name in shown:
            blocks = [block for n in "12" for block, _ in outputs_of(section, n)]
            wrong = [b for b in blocks if b.options.get("raises") == name]
            right = [b for b in blocks if "raises" not in b.options]
            assert wrong, f"{name} has no program that raises it"
            assert right, f"{name} has no program that is right"


def test_every_mistake_has_its_message_and_that_of_jax() -> None:
    page = (ROOT / "docs" / "mistakes.md").read_text(encoding="utf-8")
    sections = page.split("\n## ")[1:]
    assert len(sections) >= 20
    for section in sections:
        ((block, shown),) = outputs_of(section)
        assert shown is not None
        assert shown.text.startswith(f"{block.options['raises']}: "), section
        assert "\nJAX: `" in section


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    prose = re.sub(r"```.*?```|`[^`]*`", "", path.read_text("utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", prose):
        if not target.startswith(("http:", "https:")):
            assert (path.parent / target).exists(), f"{path.name} links to {target}"


def test_promises_name_tests_and_commands_that_exist() -> None:
    page = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
    named = re.findall(r"`(tests/[\w/]+\.py)`", page)
    named += [f"{m.replace('.', '/')}/__main__.py" for m in COMMANDS.findall(page)]
    assert len(named) > 20
    for path in named:
        assert (ROOT / path).exists(), f"reliability.md names {path}"


@pytest.mark.parametrize("page", ["architecture.md", "lowering.md"])
def test_maps_name_files_that_exist(page: str) -> None:
    named = re.findall(
        r"`([\w/]+/[\w.]+\.py)`", (ROOT / "docs" / page).read_text("utf-8")
    )
    rooms = [ROOT, ROOT / "ftrace", ROOT / "ftrace/backends/llvm"]
    assert len(named) > 10
    for path in named:
        assert any((room / path).exists() for room in rooms), f"{page} names {path}"


def test_the_map_names_what_its_files_have() -> None:
    """A name in a row of the map stands in one of the files of that row."""
    below = ("", "backends/llvm", "backends/llvm/schedule", "transforms/partition")
    rooms = [ROOT / "ftrace" / room for room in below]
    checked = 0
    for row in (ROOT / "docs/architecture.md").read_text("utf-8").splitlines():
        spans = re.findall(r"`([^`]+)`", row) if row.startswith("| ") else []
        paths = [s for s in spans if s.endswith(".py")]
        found = [room / p for p in paths for room in rooms if (room / p).exists()]
        text = "\n".join(path.read_text("utf-8") for path in found)
        for name in spans:
            if text and re.fullmatch(r"_?[a-z]+(_[a-z]+)+|[A-Z]\w+", name):
                assert re.search(rf"\b{name}\b", text), f"{name} is not in {paths}"
                checked += 1
    assert checked > 15


def test_every_page_is_reached_from_the_readme() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for path in ROOT.glob("docs/*.md"):
        assert f"(docs/{path.name})" in readme, f"README does not link {path.name}"


def test_gallery_shows_a_small_picture_of_each_page() -> None:
    folder = ROOT / "docs" / "gallery"
    index = (folder / "index.md").read_text(encoding="utf-8")
    programs = [path for path in GALLERY if path.name != "index.md"]
    entries = [f"({path.stem}.png)]({path.name})" for path in programs]
    assert [entry for entry in entries if entry not in index] == []
    assert sorted(path.name for path in folder.glob("*.png")) == sorted(
        name for p in programs for name in PICTURES.findall(p.read_text("utf-8"))
    )
    for picture in folder.glob("*.png"):
        assert picture.stat().st_size < MOST_BYTES, picture.name


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [("a\nb", "a\nb", True), ("a...c", "a\nb\nc", True), ("a", "b", False)],
)
def test_agrees_takes_dots_for_anything(shown: str, printed: str, same: bool) -> None:
    assert agrees(shown, printed) == same
