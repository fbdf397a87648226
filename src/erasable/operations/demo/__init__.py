"""Learn, forget, verify on handwritten digits: the whole idea in one short run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from erasable.operations.demo._record import Demo, Step
from erasable.operations.demo._steps import Story
from erasable.research.reproduce.journal import make_folder

__all__ = ["Demo", "Step", "demo"]


def demo(out: str | Path | None = None, *, progress: Callable[[int, int], None] | None = None) -> Demo:
    """A classifier learns digits of a hundred people, ten ask to be forgotten, and all of it is checked.

    Parameters
    ----------
    out : path, optional
        Folder for ``demo.png``, made if it is not there. Without matplotlib no picture is drawn, and the record says
        why.
    progress : callable, optional
        Called with (people gone, people to go) while more and more people leave.

    Returns
    -------
    Demo

    Raises
    ------
    VerificationError
        When the state that is left is not what learning its own rows gives.
    ConfigurationError
        When the folder cannot be made.
    StoreError
        When there is no room for the model file, which is made in a temporary folder and removed.

    Examples
    --------
    >>> from erasable.operations.demo import demo
    >>> report = demo()
    >>> [step.name for step in report.steps]
    ['learn', 'forget 10 people', 'verify', 'fresh fit on survivors', 'forget them in a file']
    >>> report.same, report.steps[2].digest == report.steps[3].digest
    (True, True)
    """
    folder = None if out is None else Path(out)
    if folder is not None:
        make_folder(folder)
    story = Story()
    story.learn()
    story.forget()
    story.verify()
    story.refit()
    story.forget_in_a_file()
    story.go_on(progress or (lambda done, total: None))
    if folder is not None:
        story.draw(folder / "demo.png")
    return story.told()
