"""Verbs for notebooks: lab, notebooks."""

from __future__ import annotations

import argparse

from kit.cli.parser import Verbs
from kit.cli.shared import EVIDENCE, add_captured_at, put, say
from kit.errors import DONE


def add(verbs: Verbs) -> None:
    """Add the verbs."""
    verb = verbs.add("lab", lab, "open JupyterLab on the post-mortem of a launch, and print its address")
    verb.add_argument("path", nargs="?", metavar="PATH", help=f"{EVIDENCE}; without it the first notebook")
    verb.add_argument("-o", "--output", metavar="FOLDER", default=".", help="where the notebook is written (default: here)")
    add_captured_at(verb)
    verb.add_argument("--port", type=int, metavar="N", help="port to listen on (default: 8888 or the next free one)")
    verb.add_argument("--no-browser", action="store_true", help="print the address only")

    verb = verbs.add("notebooks", notebooks, "copy the notebooks into a folder, or add this Python to a Hub as a kernel")
    verb.add_argument("folder", nargs="?", metavar="FOLDER", help="where to; what is there already is left as it is")
    verb.add_argument(
        "--kernel", action="store_true", help="add a kernel `stallkit`, and its tile in the launcher, for this user"
    )


def lab(args: argparse.Namespace) -> int:
    """Open JupyterLab."""
    from kit.workspace import lab as opened

    about = {"captured_at": args.captured_at, "browser": not args.no_browser, "port": args.port}
    return opened(args.path, args.output, tell=say, **about)


def notebooks(args: argparse.Namespace) -> int:
    """Copy notebooks, add a kernel."""
    from kit import workspace

    if args.kernel:
        put(f"kernel `{workspace.KERNEL}`: {workspace.install_kernel()}; JupyterLab's launcher shows it after a reload")
    if args.folder or not args.kernel:
        copied = workspace.notebooks(args.folder or "stallkit-notebooks")
        put(f"{len(copied)} notebooks in {copied[0].parent}; open them: kit lab, or any JupyterLab whose kernel has stallkit")
    return DONE
