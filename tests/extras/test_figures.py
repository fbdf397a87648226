"""The extra figures: the pictures of the demo and of reproductions."""

import pytest

pytest.importorskip("matplotlib", reason="matplotlib is not installed")

from erasable.operations.rendering import pyplot


def test_lines_and_text_are_drawn(tmp_path):
    plt = pyplot()
    figure, axes = plt.subplots()
    axes.plot([1, 2, 3], [1, 4, 9], label="squares")
    axes.legend()
    figure.savefig(tmp_path / "f.svg")
    plt.close(figure)
    assert "<svg" in (tmp_path / "f.svg").read_text()
