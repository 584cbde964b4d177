"""Notebooks where somebody works: copies of the kit's own, one for a launch, JupyterLab on them, a kernel for a Hub."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from kit.errors import EvidenceError, UsageError

PACKAGE = Path(__file__).resolve().parent
FOLDERS = (PACKAGE / "notebooks", PACKAGE.parent / "notebooks")
"""Where the kit's notebooks lie: inside an installed package, beside it in a checkout."""
START, POSTMORTEM = "00_start_here.ipynb", "01_postmortem.ipynb"
KERNEL = "stallkit"
FIRST_PORT, PORTS = 8888, 50
"""JupyterLab's own port, and how many after it are tried."""
START_S = 120.0
"""Longest that JupyterLab may take to answer; two seconds on an idle machine."""


def own_notebooks() -> list[Path]:
    """The kit's notebooks.

    Raises
    ------
    EvidenceError
        Where the installation holds none.
    """
    found = next((paths for folder in FOLDERS if (paths := sorted(folder.glob("*.ipynb")))), None)
    if found is None:
        raise EvidenceError("no notebooks", "neither the package nor a checkout holds them", "install it again from a wheel")
    return found


def notebooks(folder: str | Path) -> list[Path]:
    """Copy the kit's notebooks into a folder; what is there under the same name is left as it is.

    Returns
    -------
    list of pathlib.Path
        The notebooks of the folder.

    Examples
    --------
    >>> import tempfile
    >>> copied = notebooks(tempfile.mkdtemp())
    >>> copied[0].name
    '00_start_here.ipynb'
    """
    folder = _writable(Path(folder))
    targets = [(own, folder / own.name) for own in own_notebooks()]
    for own, target in targets:
        if not target.exists():
            shutil.copyfile(own, target)
    return [target for _, target in targets]


def notebook_of(run: str | Path, folder: str | Path = ".", captured_at: str | None = None) -> Path:
    """A post-mortem notebook of a launch, in a folder of yours: nothing is written among the evidence.

    Where it was made before, it is left as it is.

    Raises
    ------
    EvidenceError
        Where there is no such launch or nothing in it is evidence, or the folder cannot be written.
    """
    from kit.open import open_run

    run, folder = Path(run).resolve(), _writable(Path(folder))
    open_run(run, captured_at)
    target = folder / f"{run.name}.postmortem.ipynb"
    if not target.exists():
        own = next(path for path in own_notebooks() if path.name == POSTMORTEM)
        notebook = json.loads(own.read_text(encoding="utf-8"))
        cell = next(cell for cell in notebook["cells"] if "parameters" in cell["metadata"].get("tags", []))
        given = f"\n\nrun_path = {str(run)!r}\ncaptured_at = {captured_at!r}"
        cell["source"] = "".join(cell["source"]) + given
        target.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return target


def _writable(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise EvidenceError(f"cannot make {folder}", error.strerror or str(error), "name another folder") from error
    if not os.access(folder, os.W_OK):
        raise EvidenceError(f"cannot write into {folder}", "permission denied", "name another folder")
    return folder.resolve()


def lab(
    path: str | Path | None = None,
    out: str | Path = ".",
    *,
    captured_at: str | None = None,
    browser: bool = True,
    port: int | None = None,
    tell: Callable[[str], None] = print,
) -> int:
    """Open JupyterLab on the post-mortem of a launch, until it is interrupted.

    Parameters
    ----------
    path : str or path, optional
        A run, a folder of evidence, or one file; without it the first notebook.
    out : str or path
        Folder of the notebook: nothing is written among the evidence.
    captured_at : str, optional
        When the evidence was taken, local time of the host.
    browser : bool
        Open a browser, where this machine has a screen.
    port : int, optional
        A free one from 8888 on without it.
    tell : callable
        Receives the place of the notebook and the address.

    Returns
    -------
    int
        JupyterLab's exit code; 0 where it was interrupted.

    Raises
    ------
    EvidenceError
        Where there is no such launch, or the folder cannot be written.

    Examples
    --------
    >>> lab("data/sg01-capture-hang")  # doctest: +SKIP
    """
    if path is None:
        notebook = notebooks(Path(out, "stallkit-notebooks"))[0]
    else:
        notebook = notebook_of(path, out, captured_at)
    tell(f"notebook: {notebook}")
    return serve(notebook, tell, browser=browser, port=port)


def serve(
    notebook: Path, tell: Callable[[str], None], more: Sequence[str] = (), browser: bool = True, port: int | None = None
) -> int:
    """Run JupyterLab on a notebook until it is interrupted; the address is told once it answers.

    It listens on this machine alone and asks for a token, which stands in no command line. It runs under root too.
    """
    port, token = port or _free_port(), secrets.token_hex(24)
    command = [sys.executable, "-m", "jupyterlab", str(notebook), f"--ServerApp.root_dir={notebook.parent}"]
    command += [f"--ServerApp.port={port}", "--ServerApp.port_retries=0", "--ServerApp.ip=127.0.0.1", "--log-level=WARN"]
    command += ["--KernelManager.transport_encryption=auto", "--LabApp.extension_manager=readonly", "--LabApp.news_url=None"]
    command += ["--allow-root"] * (hasattr(os, "geteuid") and os.geteuid() == 0) + ["--no-browser"] * (not browser) + [*more]
    packages = os.pathsep.join(filter(None, (str(PACKAGE.parent), os.environ.get("PYTHONPATH"))))
    server = subprocess.Popen(command, env={**os.environ, "JUPYTER_TOKEN": token, "PYTHONPATH": packages})
    try:
        if _answers(server, port):
            tell(f"JupyterLab: http://127.0.0.1:{port}/lab/tree/{notebook.name}?token={token}")
            tell(f"from another machine: ssh -L {port}:127.0.0.1:{port} {socket.gethostname()}; Ctrl-C ends it")
        return server.wait()
    except KeyboardInterrupt:
        return 0
    finally:
        server.terminate()
        server.wait()


def _free_port() -> int:
    for port in range(FIRST_PORT, FIRST_PORT + PORTS):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue
    raise UsageError("no free port", f"{FIRST_PORT} to {FIRST_PORT + PORTS} are taken", "name one: kit lab --port N")


def _answers(server: subprocess.Popen, port: int) -> bool:
    """Whether the server listens, before it ends or its time is over."""
    until = time.monotonic() + START_S
    while server.poll() is None and time.monotonic() < until:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return True
        time.sleep(0.1)
    return False


def install_kernel(prefix: str | Path | None = None) -> Path:
    """Add this Python as a kernel and a tile of the launcher, for a JupyterLab or Hub that runs in another environment.

    `prefix`: environment to add it to; without it the user's own kernels. Returns folder of the kernel's specification.
    """
    from ipykernel.kernelspec import install

    about: dict[str, Any] = {"kernel_name": KERNEL, "display_name": "stallkit", "env": {"PYTHONPATH": str(PACKAGE.parent)}}
    where = {"prefix": str(prefix)} if prefix is not None else {"user": True}
    return Path(install(**about, **where))
