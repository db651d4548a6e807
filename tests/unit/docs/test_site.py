"""The site's layout and its check. `make docs-check` builds the site itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.site import Layout, llms_txt
from docs.site_check import faults_of


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    laid = Layout(tmp_path_factory.mktemp("site"))
    laid.write()
    return laid


def test_each_page_stands_in_the_navigation(layout: Layout) -> None:
    assert layout.left_out == []


def test_the_index_for_models_names_each_page_of_docs(layout: Layout) -> None:
    index = llms_txt(layout.pages, layout.settings)
    ours = [place for place in layout.pages if not place.startswith("about/")]
    assert [place for place in ours if f"]({place})" not in index] == []


def test_links_out_of_docs_lead_to_copies(layout: Layout) -> None:
    assert (
        "](../about/tests/infrastructure/test_updates.py.txt)"
        in layout.pages["decisions/0080-updates.md"]
    )
    assert (layout.folder / "pages/about/tests/infrastructure/test_updates.py.txt").is_file()


def test_states_are_tables_since_no_library_may_be_loaded_to_draw_them(layout: Layout) -> None:
    assert "mermaid" not in layout.pages["states.md"]
    assert "| from | event | to |" in layout.pages["states.md"]


@pytest.mark.parametrize(
    ("page", "fault"),
    [
        ('<a href="b.html">b</a>', "a.html: b.html leads nowhere"),
        ('<a href="#x">x</a>', "a.html: #x leads nowhere"),
        (
            '<script src="https://cdn.example.com/x.js"></script>',
            "a.html: loads https://cdn.example.com/x.js",
        ),
        (
            '<link rel="stylesheet" href="//fonts.example.com/x.css">',
            "a.html: loads //fonts.example.com/x.css",
        ),
    ],
)
def test_a_fault_of_a_page_is_found(page: str, fault: str, tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(page, "utf-8")
    assert faults_of(tmp_path) == [fault]


def test_a_style_that_loads_a_font_from_elsewhere_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.css").write_text("@font-face{src:url(https://fonts.example.com/a.woff2)}")
    assert faults_of(tmp_path) == ["a.css: loads https://fonts.example.com/a.woff2"]


def test_links_that_lead_somewhere_are_no_faults(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text('<h2 id="x">x</h2><a href="#x">x</a><a href="b.html#y">y</a>')
    (tmp_path / "b.html").write_text('<a id="y"></a><a href="https://example.com/">elsewhere</a>')
    assert faults_of(tmp_path) == []
