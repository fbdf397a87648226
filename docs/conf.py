"""The documentation site: ``make docs`` builds it into ``docs/_build``."""

from __future__ import annotations

import os
import re
import sys
from html import escape, unescape
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.util.logging import getLogger

import erasable

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import _examples  # noqa: E402  # in this folder
import _figures  # noqa: E402
import _generated  # noqa: E402

logger = getLogger(__name__)

project = "erasable"
author = copyright = "The erasable developers"
release = version = erasable.__version__

extensions = [
    "sphinx_gallery.gen_gallery",
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
    "sphinx_design",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}  # autosummary writes the latter
exclude_patterns = ["_build"]
templates_path = ["_templates"]
smartquotes_action = "qe"  # dashes stay: --option is no dash

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4
copybutton_exclude = ".linenos, .gp, .go"

autosummary_generate = True
numpydoc_show_class_members = False
numpydoc_validation_checks = {"PR01", "PR02"}  # every parameter is documented, and no other

sphinx_gallery_conf = {
    "examples_dirs": "../examples/gallery",
    "gallery_dirs": "gallery",
    "min_reported_time": 1e6,  # builds do not measure
    "show_memory": False,
    "download_all_examples": False,
    "abort_on_example_error": True,
}

html_theme = "pydata_sphinx_theme"
html_title = "erasable"
html_baseurl = os.environ.get("DOCS_URL", "")  # where the site will be: links to the social card need it
html_static_path = ["_static", "reference/generated/figures"]
html_css_files = ["site.css"]
html_sidebars = {name: [] for name in ("404", "benchmarks", "index")}  # nothing to navigate between
html_theme_options = {
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "navbar_end": ["version", "theme-switcher"],
    "navbar_persistent": ["search-button"],
    "footer_start": ["copyright"],
    "footer_center": ["version-note"],
    "footer_end": [],
}


def files_as_pages(app: Any, name: str, source: list[str]) -> None:
    """Lead links to files outside of this folder to the pages that show them."""
    for path, page in PAGES_OF_FILES.items():
        source[0] = source[0].replace(f"]({path}", f"]({page}")


PAGES_OF_FILES = {
    "../benchmarks/RESULTS.md": "benchmarks.md",
    "../README.md": "index.md",
    "../verifier/README.md": "verifier.md",
}

# Methods that other parts of the package call, and users have no use for.
INTERNAL = {"check_agrees", "check_block", "fitted_model", "forget_quietly", "from_state", "is_done", "learn_prepared"}
INTERNAL |= {"by_name", "commented_text", "describe", "encoding_text", "key_types", "keeping_raw", "learner_named"}
INTERNAL |= {"missing_texts", "raw_codes", "raw_names", "read_targets", "spelling", "widths"}
INTERNAL |= {"predictor", "encode_raw", "encoded", "mapped", "prepared", "raw_fits", "shares_of"}


def is_hidden(app: Any, what: str, name: str, member: Any, skip: bool, options: Any) -> bool | None:
    """Leave out internal methods, and those that scikit-learn defines: its own documentation has them."""
    of_others = str(getattr(member, "__module__", "")).startswith("sklearn.")
    never = app.env.docname.endswith("CoreSetUnlearner") and name in _examples.NOT_OF_CORE_SETS
    return True if of_others or never or name in INTERNAL else None


def add_example(app: Any, what: str, name: str, member: Any, options: Any, lines: list[str]) -> None:
    """Show the example of a method; warn, which fails the build, if a class, function or method has none."""
    if what not in ("class", "function", "method") or any(line.strip().startswith(">>>") for line in lines):
        return
    found = _examples.example(*name.split(".")[-2:])
    if not found:
        logger.warning("%s has no example: add one to its docstring or to docs/_examples.py.", name)
    lines += ["", "Examples", "--------", *found.splitlines(), ""]


def describe(app: Any, name: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Give a page its description, the first paragraph, and the tags that other sites show links by."""
    first = next(iter(doctree.findall(nodes.paragraph)), None) if doctree is not None else None
    text = " ".join(first.astext().split()) if first is not None else TAGLINE
    if len(text) > LONGEST:
        text = text[:LONGEST].rsplit(" ", 1)[0] + " …"
    tags = {"description": text, "twitter:card": "summary_large_image"}
    card = f"{html_baseurl.rstrip('/')}/_static/card.png" if html_baseurl else context["pathto"]("_static/card.png", 1)
    shared = {"og:title": context.get("title", project), "og:description": text, "og:image": card, "og:type": "website"}
    lines = [f'<meta name="{key}" content="{escape(value)}">' for key, value in tags.items()]
    lines += [f'<meta property="{key}" content="{escape(strip_tags(value))}">' for key, value in shared.items()]
    context["metatags"] = context.get("metatags", "") + "\n".join(lines)


TAGLINE = "Machine learning that can forget, bit for bit."
LONGEST = 200  # characters of a description


def strip_tags(title: str) -> str:
    """Titles are HTML."""
    return unescape(re.sub("<[^>]*>", "", title))


def write_index_for_programs(app: Any, error: Exception | None) -> None:
    """Write ``llms.txt``: every page with its title, for programs that read documentation."""
    if error is None and app.builder.format == "html":
        titles = sorted((name, node.astext()) for name, node in app.env.titles.items())
        lines = ["# erasable", "", f"> {TAGLINE}", ""]
        lines += [f"- [{title}]({name}.html)" for name, title in titles if name != "404"]
        (Path(app.outdir) / "llms.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def setup(app: Any) -> None:
    """Write the generated pages and figures, then build."""
    _figures.write(HERE.parent / "benchmarks" / "RESULTS.md", HERE / "reference" / "generated" / "figures")
    _generated.write(HERE / "reference" / "generated")
    app.connect("build-finished", write_index_for_programs)
    app.connect("html-page-context", describe)
    app.connect("source-read", files_as_pages)
    app.connect("autodoc-skip-member", is_hidden)
    app.connect("autodoc-process-docstring", add_example, priority=100)  # before numpydoc reads the sections
