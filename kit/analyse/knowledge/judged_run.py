"""Runs as cases: the facts by which they are told apart and found again, and what solved ones turned out to be."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from kit.analyse.verdict.options import unlikely
from kit.analyse.verdict.scene import Scene, scene_of_run
from kit.analyse.verdict.settings import COMMAND, PRINTED, Settings, settings_of
from kit.analyse.verdict.signatures import Context, context
from kit.analyse.verdict.verdict import Verdict, weigh
from kit.errors import EvidenceError
from kit.folder import unheld, write_whole
from kit.open import open_run
from kit.redact import scrub_text
from kit.run import Run
from kit.store import checksum

SOLVED_FILE = "solved.json"
"""In a folder of knowledge: what loose evidence turned out to be, by a checksum of the evidence."""
_PLAIN = re.compile(r"[A-Za-z][\w.+-]{0,40}|True|False")
_COMMON = ("False", "None", "auto")
"""Printed values that are mostly defaults: servers print all their arguments."""
_OF_THE_RUN = re.compile(r"(0x[0-9a-fA-F]+|(?:\b\w+:/)?/[^\s'\"(),]+|\b\d+(?:[.:]\d+)+\S*|\d+)")
"""Addresses, paths, versions and times, numbers."""
_SIZE = re.compile(r"(?:\w*model\w*|tokenizer\w*|trust_remote_code|host|m)")


@dataclass
class JudgedRun:
    """A run with everything that learning and comparing ask of it."""

    run: Run
    verdict: Verdict
    settings: Settings
    known: Context

    @property
    def scene(self) -> Scene:
        """What it was judged from."""
        return self.verdict.scene

    @property
    def arguments(self) -> dict[str, str]:
        """Launch arguments that may matter: words, no numbers, no paths and names; of printed ones, those that are no default."""
        typed, printed = self.settings.of(COMMAND), self.settings.of(PRINTED)
        found = {name: str(value) for name, value in typed.items()}
        if not typed:
            found = {name: str(value) for name, value in printed.items() if str(value) not in _COMMON}
        return {
            name: value
            for name, value in sorted(found.items())
            if _PLAIN.fullmatch(value) and not _SIZE.fullmatch(name) and unlikely(name, "option") is None
        }

    @property
    def error(self) -> str | None:
        """The first error, as an expression that fits others of its kind."""
        text = next(iter(self.known["error"]), "")
        return generalised(text) if text and scrub_text(text) == text else None  # a secret is no mark of a kind

    @property
    def series(self) -> str | None:
        """Range of versions around the server's: its minor series."""
        numbers = next(iter(self.known["version"]), "").split(".")
        if len(numbers) < 2 or not (numbers[0] + numbers[1]).isdecimal():
            return None
        return f">={numbers[0]}.{numbers[1]},<{numbers[0]}.{int(numbers[1]) + 1}"


def open_case(
    run: str | Path | Run, captured_at: str | None = None, knowledge: str | Path | Iterable[str | Path] | None = None
) -> JudgedRun:
    """Open a run and judge it.

    Raises
    ------
    kit.errors.EvidenceError
        Nothing of it can be read.
    """
    run = run if isinstance(run, Run) else open_run(run, captured_at, knowledge)
    if not any(capture.kind for capture in run.captures):
        raise EvidenceError(f"no evidence in {run.path}", "none of its files was recognised", "name a folder with a server's log")
    verdict = weigh(scene_of_run(run))
    return JudgedRun(
        run, verdict, settings_of(verdict.scene.evidence), context(verdict.scene, verdict.klass, verdict.signs, verdict.where)
    )


def generalised(text: str) -> str:
    r"""Expression for an error message: paths, addresses and numbers may be others; at most its first 100 characters count.

    Examples
    --------
    >>> generalised("cannot open /models/a.bin: 3 of 8 ranks (0x7f00)")
    'cannot open \\S+ \\d+ of \\d+ ranks \\(\\S+\\)'
    >>> import re
    >>> bool(re.search(generalised("rank 3 died: 'x'"), "rank 11 died: 'x'"))
    True
    """
    first = next(iter(text.strip().splitlines()), "")[:100].rstrip()
    found = ""
    for at, part in enumerate(_OF_THE_RUN.split(first)):  # every other part is of this run alone
        any_of_its_kind = r"\d+" if part.isdecimal() else r"\S+"
        found += any_of_its_kind if at % 2 else re.escape(part).replace(r"\ ", " ")
    return found


def evidence_id(run: Run) -> str:
    """Checksum of a run's captures: the same evidence in another place, under another name, is the same judged."""
    sums = sorted(capture.sha256 or checksum(capture.path) for capture in run.captures)
    return hashlib.sha256("\n".join(sums).encode()).hexdigest()[:32]


def solved(run: Run, folders: Iterable[Path] = ()) -> dict | None:
    """What a run turned out to be: `class`, `remedy`, `signature`; None where nobody has said it.

    It stands in the manifest of a recorded run, and for loose evidence in `solved.json` of a folder of knowledge.
    """
    entry = run.manifest.get("solved")
    if isinstance(entry, dict) and entry.get("class"):
        return entry
    notes = [note for folder in (*folders, *run.knowledge) if (note := _notes(folder / SOLVED_FILE))]
    return next((note[key] for note in notes if (key := evidence_id(run)) in note), None) if notes else None


def note_solved(run: Run, entry: dict, folder: Path) -> Path:
    """Write down what a run turned out to be; returns the file that says it."""
    manifest = run.path / "run.json"
    if run.recorded and os.access(manifest, os.W_OK) and os.access(run.path, os.W_OK):
        with unheld(run.path) as ours:
            data = json.loads(manifest.read_text(encoding="utf-8")) if ours else None
            if isinstance(data, dict):  # nobody records into it, and it is no file that was damaged
                run.manifest["solved"] = entry
                return _write(manifest, {**data, "solved": entry})
    return _write(folder / SOLVED_FILE, {**_notes(folder / SOLVED_FILE), evidence_id(run): entry})


def _notes(path: Path) -> dict:
    try:
        notes = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise EvidenceError(f"cannot read {path}", str(error), f"mend it or move it away: {path}") from error
    return notes if isinstance(notes, dict) else {}


def _write(path: Path, data: dict) -> Path:
    """Write a JSON file whole or not at all."""
    try:
        write_whole(path, json.dumps(data, indent=1, ensure_ascii=False) + "\n")
    except OSError as error:
        why = error.strerror or str(error)
        raise EvidenceError(f"cannot write {path}", why, "choose another folder: --knowledge FOLDER") from error
    return path
