"""The verdict as tables that people can read, sort and export."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from kit.analyse.verdict.scene import scene_of_run
from kit.analyse.verdict.verdict import Verdict, verdict
from kit.errors import KitError, UsageError
from kit.folder import whole
from kit.frames import TABLES
from kit.open import open_run
from kit.redact import MARK, scrub_text, secret_name
from kit.run import Run
from kit.secret_lines import Lines, value_first

if TYPE_CHECKING:
    import pandas


def _judged(path: str | Path | Run | Verdict) -> Verdict:
    return path if isinstance(path, Verdict) else verdict(path)


def facts(path: str | Path | Run | Verdict) -> pandas.DataFrame:
    """Facts of a launch as a frame.

    Parameters
    ----------
    path : str, path, Run or Verdict
        Evidence, or a verdict that was made already.

    Returns
    -------
    pandas.DataFrame
        Columns `fact`, `value` (JSON), `number`, `capture`, `line`, `text`: a row a piece of evidence.

    Raises
    ------
    EvidenceError
        Where nothing can be read.

    Examples
    --------
    >>> import kit
    >>> table = kit.facts(kit.sample("sg01-capture-hang"))
    >>> table[table["fact"] == "weights_done"]["value"].tolist()
    ['[64, 64]']
    """
    rows = []
    for name, fact in _judged(path).facts.items():
        number = float(fact.value) if isinstance(fact.value, (bool, int, float)) else None
        for where in fact.refs or [{}]:
            rows.append(
                {
                    "fact": name,
                    "value": json.dumps(fact.value, ensure_ascii=False),
                    "number": number,
                    "capture": where.get("capture"),
                    "line": where.get("line"),
                    "text": where.get("text"),
                }
            )
    return TABLES["facts"].build(rows)


def hypotheses(path: str | Path | Run | Verdict) -> pandas.DataFrame:
    """Signs for and against each class as a frame.

    Parameters
    ----------
    path : str, path, Run or Verdict
        Evidence, or a verdict that was made already.

    Returns
    -------
    pandas.DataFrame
        Columns `class`, `share`, `score`, `sign`, `weight`, `claim`, `reason`; the likeliest class first.

    Examples
    --------
    >>> import kit
    >>> from kit.analyse.verdict.tables import hypotheses
    >>> hypotheses(kit.sample("sg01-capture-hang"))["class"].iloc[0]
    'device_hang'
    """
    rows = []
    for hypothesis in _judged(path).hypotheses:
        about = {"class": hypothesis.name, "share": hypothesis.share, "score": hypothesis.score}
        signs = [*hypothesis.supporting, *hypothesis.opposing]
        rows += [
            {**about, "sign": sign.code, "weight": weight, "claim": sign.claim, "reason": reason}
            for sign, weight, reason in signs
        ]
        rows += [] if signs else [about]
    return TABLES["hypotheses"].build(rows)


def _scrubbed(table: pandas.DataFrame) -> pandas.DataFrame:
    """A table without secrets: loose files were not scrubbed when they were captured."""
    table = table.copy(deep=False)
    if "raw" in table.columns:  # records in their order: a key has several lines
        lines = Lines(flat=True)
        carried = table["raw"].map(lines.text, na_action="ignore")
        for one, two in pairwise(carried.index):
            if isinstance(carried[one], str) and value_first(carried[one]):
                carried[one] = scrub_text(f"{carried[one]}\n{carried[two]}").partition("\n")[0]
        changed = (carried != table["raw"]) & table["raw"].notna()
        if changed.any():
            table["raw"], table["text"] = carried, table["text"].mask(changed, carried.str.strip())
    for name in table.columns:
        if table[name].dtype.kind == "O" or str(table[name].dtype).startswith("str"):
            texts = {text: scrub_text(text) for text in table[name].dropna().unique() if isinstance(text, str)}
            changed = {text: clean for text, clean in texts.items() if clean != text}
            if changed:
                table[name] = table[name].replace(changed)
    if {"key", "value"} <= set(table.columns):
        named = table["key"].map(lambda key: isinstance(key, str) and secret_name(key)) & table["value"].notna()
        table.loc[named, "value"] = MARK
    return table


def export(
    path: str | Path | Run,
    frame: str,
    out: str | Path,
    *,
    captured_at: str | None = None,
    knowledge: str | Path | Iterable[str | Path] | None = None,
) -> int:
    """Write one frame of a launch to a file.

    Parameters
    ----------
    path : str, path or Run
        A run, a folder of loose files, or one file.
    frame : str
        Name of a frame, see docs/columns.md; `facts` and `hypotheses` are made of the verdict.
    out : str or path
        Its name ends in `.csv`, `.jsonl` or `.parquet`.
    captured_at, knowledge
        As for `kit.open_run`.

    Returns
    -------
    int
        Rows written.

    Raises
    ------
    UsageError
        Unknown frame or ending.
    EvidenceError
        Nothing can be read.
    KitError
        The file cannot be written.
    """
    ending = Path(out).suffix.lower()
    if ending not in (".csv", ".jsonl", ".parquet"):
        raise UsageError(f"unknown format of {out}", "expected .csv, .jsonl or .parquet", "for example: -o threads.parquet")
    run = path if isinstance(path, Run) else open_run(path, captured_at, knowledge)
    if frame == "notes":  # facts that cannot be are notes, too
        scene_of_run(run)
    table = {"facts": facts, "hypotheses": hypotheses}[frame](run) if frame in TABLES else run.frame(frame)
    table = _scrubbed(table)
    try:
        with whole(Path(out), shared=True) as file:
            if ending == ".csv":
                table.to_csv(file, index=False)
            elif ending == ".jsonl":
                table.to_json(file, orient="records", lines=True, date_format="iso", date_unit="ns", force_ascii=False)
            else:
                table.to_parquet(file, index=False)
    except OSError as error:
        raise KitError(f"cannot write {out}", error.strerror or str(error), "choose another place with -o") from error
    return len(table)
