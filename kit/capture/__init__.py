"""Recording of evidence: the sampler, log following, time-boxed tools, the run folder."""

from __future__ import annotations

from pathlib import Path


def sampler_program() -> str:
    """Text of the sampler as it is sent to an interpreter's standard input: the scrubbing functions, then the script.

    Examples
    --------
    >>> "def scrub_argv" in sampler_program() and sampler_program().rstrip().endswith("main()")
    True
    """
    here = Path(__file__).resolve().parent
    return (
        (here.parent / "redact.py").read_text(encoding="utf-8")
        + "\n\n"
        + (here / "sampler_script.py").read_text(encoding="utf-8")
    )
