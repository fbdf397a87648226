"""The README's example runs and prints what its comments say."""

import contextlib
import io
import re
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def test_the_example_prints_what_its_comments_say():
    code = re.search(r"```python\n(.*?)```", README.read_text(), re.S).group(1)
    assert len([line for line in code.splitlines() if line.strip()]) <= 15
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "README.md", "exec"), {})
    lines = printed.getvalue().splitlines()
    said = re.findall(r"print\(.*\) +# ([\d. ]+)[:\n]", code)
    assert lines[: len(said)] == [s.strip() for s in said]
    assert len(said) == 2
    assert lines[2].startswith("verified: 409 core rows")


def test_every_other_example_runs():
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.S)[1:]
    assert len(blocks) == 2
    for code in blocks:
        exec(compile(code, "README.md", "exec"), {})


def test_every_file_the_readme_links_to_exists():
    links = re.findall(r"\]\(([^)#]+)\)", README.read_text())
    assert len(links) > 5
    assert [link for link in links if not (README.parent / link).exists()] == []
