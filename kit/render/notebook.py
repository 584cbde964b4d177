"""Notebooks: found, given parameters, executed with the running interpreter, scrubbed."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Callable, Mapping
from html import escape, unescape
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kit.errors import KitError
from kit.workspace import FOLDERS, POSTMORTEM

if TYPE_CHECKING:
    from nbformat import NotebookNode

CELL_TIMEOUT_S = 900
"""Longest a cell may take: reading a capture of some hundred MB for the first time takes minutes."""
PARAMETERS, INJECTED = "parameters", "injected-parameters"
_MARKUP = re.compile(r"(<[^<>]*>)")
_DESCRIPTION = re.compile(r"""\b(alt|title|aria-label|data-v|data-file|data-label)=(["'])(.*?)\2""")
_KERNEL = "stallkit"


def notebook_path(name: str) -> Path:
    """Find a notebook of the kit: beside the package in a checkout, else inside the installed package.

    Raises
    ------
    KitError
        Where neither place has it.

    Examples
    --------
    >>> notebook_path("01_postmortem.ipynb").name
    '01_postmortem.ipynb'
    """
    found = next((path for folder in FOLDERS if (path := folder / name).is_file()), None)
    if found is None:
        do = "install from a checkout: pip install -e ."
        raise KitError(f"no notebook {name}", "it is neither in the package nor beside it", do)
    return found


def with_parameters(notebook: NotebookNode, values: Mapping[str, Any]) -> NotebookNode:
    """Return a copy with a cell after the one tagged `parameters` that sets these values.

    Examples
    --------
    >>> from nbformat.v4 import new_code_cell, new_notebook
    >>> given = new_notebook(cells=[new_code_cell("run_path = 'a'", metadata={"tags": ["parameters"]})])
    >>> with_parameters(given, {"run_path": "b"}).cells[1].source
    "run_path = 'b'"
    """
    from copy import deepcopy

    from nbformat.v4 import new_code_cell

    result = deepcopy(notebook)
    at = next((n for n, cell in enumerate(result.cells) if PARAMETERS in cell.metadata.get("tags", [])), -1)
    source = "\n".join(f"{name} = {value!r}" for name, value in values.items())
    result.cells.insert(at + 1, new_code_cell(source, metadata={"tags": [INJECTED]}))
    return result


def execute(notebook: NotebookNode, folder: Path) -> list[str]:
    """Execute a notebook in place with the running interpreter; a failing cell does not stop the next.

    `notebook`: gets the outputs. `folder`: working directory of the kernel. Returns one line a failed cell: the error's name and
    text. Raises KitError where the kernel does not start or dies.
    """
    from jupyter_client.manager import AsyncKernelManager
    from nbclient import NotebookClient
    from nbclient.exceptions import CellTimeoutError, DeadKernelError

    with tempfile.TemporaryDirectory(prefix="stallkit-kernel-") as kernels:
        manager = AsyncKernelManager(kernel_name=_KERNEL, kernel_spec_manager=_this_interpreter(Path(kernels)))
        if manager.has_trait("transport_encryption"):
            manager.transport_encryption = "auto"  # ipykernel 7.3 and later warn about plain TCP
        client = NotebookClient(
            notebook,
            km=manager,
            timeout=CELL_TIMEOUT_S,
            allow_errors=True,
            kernel_name=_KERNEL,
            resources={"metadata": {"path": str(folder)}},
        )
        try:
            client.execute(env=_environment(), cleanup_kc=True)
        except (DeadKernelError, CellTimeoutError, RuntimeError) as error:
            raise KitError(
                "the notebook could not be executed",
                str(error).strip().splitlines()[-1][:300] or type(error).__name__,
                f"see that the kernel starts: {Path(sys.executable).name} -m ipykernel --version",
            ) from error
    return [
        f"{output.ename}: {output.evalue}"
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if output.output_type == "error"
    ]


def _this_interpreter(folder: Path):
    """A kernel specification for the running interpreter, so that no kernel needs to be installed."""
    from jupyter_client.kernelspec import KernelSpecManager

    (folder / _KERNEL).mkdir()
    argv = [sys.executable, "-m", "ipykernel_launcher", "--HistoryManager.enabled=False", "-f", "{connection_file}"]
    (folder / _KERNEL / "kernel.json").write_text(
        dumps({"argv": argv, "display_name": _KERNEL, "language": "python", "metadata": {"supported_encryption": ["curve"]}})
    )
    return KernelSpecManager(kernel_dirs=[str(folder)], ensure_native_kernel=False)


def _environment() -> dict[str, str]:
    """The environment of the kernel: this one, with the package importable and the debugger's advice off."""
    package = str(Path(__file__).resolve().parents[2])
    paths = [package, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYDEVD_DISABLE_FILE_VALIDATION": "1"}


def scrub(notebook: NotebookNode, replace: Callable[[str], str]) -> None:
    """Run a replacement over every text of a notebook, in place; images are left alone; widget states and tracebacks go.

    Examples
    --------
    >>> from nbformat.v4 import new_code_cell, new_notebook, new_output
    >>> notebook = new_notebook(cells=[new_code_cell("x", outputs=[new_output("stream", text="key=abc")])])
    >>> scrub(notebook, lambda text: text.replace("abc", "***"))
    >>> notebook.cells[0].outputs[0].text
    'key=***'
    """
    notebook.metadata.pop("widgets", None)
    for cell in notebook.cells:
        cell.source = replace(cell.source)
        for output in cell.get("outputs", []):
            if output.output_type == "stream":
                output.text = replace(output.text)
            elif output.output_type == "error":
                output.evalue, output.traceback = replace(output.evalue), []
            else:
                output.data.pop("application/vnd.jupyter.widget-view+json", None)
                for kind, value in output.data.items():
                    if kind == "text/html":
                        output.data[kind] = replaced(value, replace)
                    elif kind.startswith("text/"):
                        output.data[kind] = replace(value)


def replaced(html: str, replace: Callable[[str], str]) -> str:
    """Replace in the text and the descriptions of HTML: never in its tags, nor in the base64 of its images."""

    def described(found: re.Match) -> str:
        return f"{found[1]}={found[2]}{escape(replace(unescape(found[3])))}{found[2]}"

    parts = _MARKUP.split(html)  # text and tags take turns
    parts[::2] = [escape(replace(unescape(text)), quote=False) for text in parts[::2]]
    parts[1::2] = [_DESCRIPTION.sub(described, tag) for tag in parts[1::2]]
    return "".join(parts)


def postmortem_notebook(values: Mapping[str, Any], out: Path) -> None:
    """Write the post-mortem notebook with these parameters, executed and scrubbed: it can be run again where it lies."""
    import nbformat

    from kit.redact import scrub_text

    notebook = with_parameters(nbformat.read(notebook_path(POSTMORTEM), as_version=4), values)
    execute(notebook, out.resolve().parent)
    scrub(notebook, scrub_text)
    nbformat.write(notebook, out)
