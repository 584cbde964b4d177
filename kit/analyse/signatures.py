"""Known signatures with remedies: patterns over facts, kept as data in `kit/knowledge/signatures.toml`."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path

from kit.analyse.ranks import argument_fields
from kit.analyse.signs import Scene

FILE = Path(__file__).parent.parent / "knowledge" / "signatures.toml"


@cache
def signatures() -> list[dict]:
    """All signatures, the specific ones first."""
    return tomllib.loads(FILE.read_text(encoding="utf-8"))["signature"]


def context(scene: Scene, klass: str, signs: set[str]) -> dict[str, str]:
    """What signatures may ask about: class, phase, server, signs, launch arguments (`arg.NAME`), GPU name, mount type."""
    found = {
        "class": klass,
        "phase": scene.phase or "",
        "server": scene.evidence.log.server or "",
        "signs": " ".join(sorted(signs)),
        "gpu": "; ".join(sorted({row["name"] for row in scene.evidence.gpus if row.get("name")})),
        "filesystem": " ".join(sorted({row["type"] for row in scene.evidence.filesystems if row.get("type")})),
        "error": str(scene.facts.value("first_error") or ""),
    }
    for fields in argument_fields(scene.evidence):
        for name, value in fields.items():
            found.setdefault(f"arg.{name}", str(value))
    return found


def remedy(scene: Scene, klass: str, signs: set[str]) -> dict | None:
    """The first signature that fits, as `name`, `what`, `do`, `source`, `matched`; None where none fits.

    A signature's `when` table holds regular expressions by name of the context; all must be found.
    """
    known = context(scene, klass, signs)
    for entry in signatures():
        if all(re.search(pattern, known.get(name, "")) for name, pattern in entry["when"].items()):
            return {
                "name": entry["name"],
                "what": entry["what"],
                "do": entry["do"],
                "source": entry.get("source", ""),
                "matched": {name: known.get(name, "")[:120] for name in entry["when"]},
            }
    return None
