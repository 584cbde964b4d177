"""The explorer without a kernel: a fragment of HTML with script and data inline, which asks nothing of a network."""

from __future__ import annotations

from base64 import b64encode
from functools import cache
from hashlib import sha256
from html import escape
from importlib.resources import files
from json import dumps

from kit.redact import scrub_text
from kit.run import Run

START = "\nmountAll();\n"


@cache
def module() -> str:
    """The ES module: its parts in the order of their names, with the style sheet as a constant. No build, nothing of others."""
    folder = files("kit.show.explorer") / "module"
    parts = sorted((part for part in folder.iterdir() if part.name.endswith(".js")), key=lambda part: part.name)
    style = (folder / "explorer.css").read_text(encoding="utf-8")
    return "\n".join([f"const CSS = {dumps(style)};", *(part.read_text(encoding="utf-8") for part in parts)])


def script() -> str:
    """The text of the inline script that draws every fragment of a page: always the same, so that a policy can name its hash.

    Examples
    --------
    >>> "</script" in script()
    False
    """
    return module() + START


def script_hash() -> str:
    """Source of the script for a Content-Security-Policy.

    Examples
    --------
    >>> script_hash()[:8]
    "'sha256-"
    """
    return f"'sha256-{b64encode(sha256(script().encode()).digest()).decode()}'"


def explorer_html(*runs: Run | bytes, still: str = "", with_script: bool = True) -> str:
    """The explorer of one or two runs as a fragment of HTML that works in a file, without network or kernel.

    `*runs`: runs, or packs of them (`kit.show.explorer.pack.pack_run`). Texts of a `Run` are masked as a report's are. `still`:
    HTML that stands in its place in print and where no script runs: a figure. `with_script`: leave the script out where the page
    has it already (`script`): it draws all fragments that it finds. A policy of `script-src` with `script_hash()` lets it
    run; it needs no other source.

    Examples
    --------
    >>> import kit
    >>> page = explorer_html(kit.open_run(kit.sample_path("sg01-capture-hang")))
    >>> page.count("<script"), "http" in page.partition("<script type=\\"module\\">")[0]
    (2, False)
    """
    from kit.show.explorer.pack import pack_run

    packs = [run if isinstance(run, bytes) else pack_run(run, moments=True, clean=scrub_text) for run in runs]
    blocks = "".join(f'<script type="application/x-stallkit">{b64encode(pack).decode()}</script>' for pack in packs)
    still = f'<div class="stallkit-still">{still}</div>' if still else ""
    code = f'<script type="module">{script()}</script>' if with_script else ""
    return f'<div class="stallkit-explorer">{still}{blocks}</div>{code}'


def page(fragment: str, title: str) -> str:
    """A whole page around a fragment, with a policy that lets it load nothing from anywhere."""
    policy = f"default-src 'none'; script-src {script_hash()}; style-src 'unsafe-inline'; img-src data:"
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        "<style>body{margin:16px;font-family:system-ui,sans-serif}"
        "@media(prefers-color-scheme:dark){body{background:#161b20;color:#e4e8eb}}</style></head>"
        f"<body><main><h1>{escape(title)}</h1>{fragment}</main></body></html>"
    )
