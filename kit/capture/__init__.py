"""Recording of evidence: the sampler, log following, time-boxed tools, the run folder."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

SAMPLER_MODULES = ("reading", "tree", "threads", "process", "machine", "files", "programs", "script")
"""Modules of kit/capture/sampler in the order in which they need one another."""
_REDACTION = ("secret_names", "secret_shapes", "secret_lines", "secret_places", "secret_programs", "redact", "secret_environ")
_OWN_IMPORT = re.compile(r"^from kit\.[\w.]+ import (?:\([^)]*\)|[^(\n]+)\n", re.MULTILINE)


def redaction() -> str:
    """Text of the scrubbing functions, as it goes in front of a program that is sent to a host.

    Examples
    --------
    >>> "def scrub_argv" in redaction() and "from kit" not in redaction()
    True
    """
    folder = Path(__file__).resolve().parent.parent
    return _together([folder / f"{name}.py" for name in _REDACTION])


def _together(paths: list[Path]) -> str:
    return "\n\n".join(_OWN_IMPORT.sub("", path.read_text(encoding="utf-8")) for path in paths)


def sampler_program(parameters: dict[str, Any] | None = None) -> str:
    """Text of the sampler as it is sent to an interpreter's standard input: the scrubbing functions, then its modules.

    Examples
    --------
    >>> text = sampler_program({"roots": [7]})
    >>> "def scrub_argv" in text and "from kit" not in text and text.rstrip().endswith("main()")
    True
    """
    folder = Path(__file__).resolve().parent / "sampler"
    texts = [f"PARAMETERS = {json.dumps(parameters)!r}"] if parameters is not None else []
    return "\n\n".join([*texts, redaction(), _together([folder / f"{name}.py" for name in SAMPLER_MODULES])])
