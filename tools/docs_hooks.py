"""What `make docs` makes of a page: outputs of commands, pictures of plots, and the help of every verb, all made anew.

A page holds `<!-- run: kit … -->`, which becomes the command with its output; a block of code that begins with
```` ```python gallery ````, whose last line's value becomes a picture below it; and `<!-- verbs -->`, which becomes the help of
every verb. With KIT_DOCS_DRAFT set nothing is run and nothing drawn: links and pages are checked only.
"""

from __future__ import annotations

import ast
import contextlib
import io
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RUN = re.compile(r"<!-- run: kit (?P<arguments>.+?) -->")
PLOT = re.compile(r"```python gallery\n(?P<code>.*?)```\n", re.DOTALL)
VERBS = "<!-- verbs -->"
WIDTH = 84
_pictures: dict[str, bytes] = {}


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Fill a page in."""
    if os.environ.get("KIT_DOCS_DRAFT"):
        return PLOT.sub("```python\n\\g<code>```\n", markdown)
    markdown = RUN.sub(lambda found: said_by(found["arguments"]), markdown)
    if VERBS in markdown:
        markdown = markdown.replace(VERBS, "\n".join(f"## kit {verb}\n\n{block(said)}" for verb, said in verbs().items()))
    return PLOT.sub(lambda found: picture(found["code"]), markdown)


def on_post_build(config: Any) -> None:
    """Put the pictures beside the pages."""
    folder = Path(config["site_dir"]) / "pictures"
    folder.mkdir(exist_ok=True)
    for name, data in _pictures.items():
        (folder / name).write_bytes(data)
    _pictures.clear()


def said_by(arguments: str) -> str:
    """A command and what it prints; what it prints as Markdown is read as such."""
    said = output(shlex.split(arguments))
    if "--brief" in arguments or "--markdown" in arguments:
        return block(f"$ kit {arguments}") + "\n" + "\n".join(f"> {line}" for line in said.splitlines()) + "\n"
    return block(f"$ kit {arguments}\n{said}")


def block(text: str) -> str:
    """A text as it stands."""
    return f"````text\n{text.rstrip()}\n````\n"


@contextlib.contextmanager
def width() -> Iterator[None]:
    """A terminal of a width that does not depend on ours."""
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = str(WIDTH)
    try:
        yield
    finally:
        os.environ.pop("COLUMNS") if before is None else os.environ.update(COLUMNS=before)


def output(arguments: list[str]) -> str:
    """What a command prints, run in the folder of the project."""
    from kit.cli import main

    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.chdir(ROOT), width():
        code = main(arguments)
    if code > 1:
        raise RuntimeError(f"kit {shlex.join(arguments)} ended with {code}")
    return said.getvalue()


def verbs() -> dict[str, str]:
    """The help of every verb, at a width that does not depend on the terminal."""
    from kit.cli import parser

    with width():
        return {name: verb.format_help() for name, verb in sorted(parser().verbs.items())}


def picture(code: str) -> str:
    """A piece of code, and the figure that its last line gives."""
    import kit
    from kit import plot

    steps = ast.parse(code)
    last = steps.body.pop()
    if not isinstance(last, ast.Expr):
        raise ValueError(f"the last line draws nothing: {code}")
    names: dict[str, Any] = {"kit": kit, "plot": plot}
    with contextlib.chdir(ROOT):
        exec(compile(steps, "<docs>", "exec"), names)  # code of our own pages
        drawn = eval(compile(ast.Expression(last.value), "<docs>", "eval"), names)
    figure = getattr(drawn, "figure", drawn)
    data = io.BytesIO()
    figure.savefig(data, dpi=160, bbox_inches="tight")
    name = f"{re.sub(r'[^a-z]+', '-', ast.unparse(last).split('(')[0].lower()).strip('-')}-{len(_pictures)}.png"
    _pictures[name] = data.getvalue()
    alt = plot.figure_alt(figure).replace('"', "&quot;")
    return f'```python\n{code}```\n\n<a href="pictures/{name}"><img src="pictures/{name}" alt="{alt}"></a>\n'
