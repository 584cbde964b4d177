"""Copy a run without what names the machine or its people: for runs that are shown to others or bundled."""

from __future__ import annotations

import hashlib
import ipaddress
import json
import re
from pathlib import Path
from typing import Any

from kit.capture.manifest import make_folder
from kit.errors import EvidenceError

_IPV4 = re.compile(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.]*\w)")
_IPV6 = re.compile(r"(?<![\w:.])[0-9a-fA-F]{0,4}(?::[0-9a-fA-F]{0,4}){2,7}(?![\w:])")
_MAC = re.compile(r"(?<![\w:])(?:[0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}(?![\w:])")
DOCUMENTATION_V4, DOCUMENTATION_V6 = "192.0.2.{}", "2001:db8::{:x}"
"""Addresses set aside for examples: RFC 5737 and RFC 3849."""


class Anonymiser:
    """Replaces names consistently: the same machine has the same stand-in in every file of a run.

    Parameters
    ----------
    replacements : dict of str to str
        What to replace: paths wherever they stand, host and user names where they stand as words.

    Examples
    --------
    >>> change = Anonymiser({"/home/ada/models": "/models", "gpu-box": "host"})
    >>> change("gpu-box:/home/ada/models/m 10.1.2.3 10.1.2.3 127.0.0.1 gpu-boxes")
    'host:/models/m 192.0.2.1 192.0.2.1 127.0.0.1 gpu-boxes'
    """

    def __init__(self, replacements: dict[str, str]):
        self._replacements = dict(replacements)
        self._stand_ins: dict[str, str] = {}
        longest_first = sorted(replacements, key=len, reverse=True)
        parts = [re.escape(key) if "/" in key else rf"(?<!\w){re.escape(key)}(?!\w)" for key in longest_first if key]
        self._names = re.compile("|".join(parts)) if parts else None

    def __call__(self, text: str) -> str:
        if self._names is not None:
            text = self._names.sub(lambda found: self._replacements[found.group()], text)
        text = _MAC.sub(lambda found: self._stand_in(found.group().lower(), "02:00:00:00:00:{:02x}"), text)
        text = _IPV4.sub(self._address, text)
        return _IPV6.sub(self._address, text)

    def _address(self, found: re.Match[str]) -> str:
        try:
            address = ipaddress.ip_address(found.group())
        except ValueError:
            return found.group()
        if address.is_loopback or address.is_unspecified or address.is_multicast or str(address).startswith("255."):
            return found.group()
        if address.version == 6 and not re.match(
            r"(?i)[23][0-9a-f]{3}:|f[cd][0-9a-f]{2}:|fe[89ab][0-9a-f]:|::ffff:", found.group()
        ):
            return found.group()  # most likely no address: a time, a C++ name
        return self._stand_in(str(address), DOCUMENTATION_V4 if address.version == 4 else DOCUMENTATION_V6)

    def _stand_in(self, original: str, pattern: str) -> str:
        if original not in self._stand_ins:
            number = 1 + sum(pattern.split("{")[0] == value[: len(pattern.split("{")[0])] for value in self._stand_ins.values())
            self._stand_ins[original] = pattern.format(number)
        return self._stand_ins[original]


def anonymise_run(src: str | Path, dst: str | Path, replacements: dict[str, str], drop: tuple[str, ...] = ()) -> Path:
    """Copy a run with names, paths and addresses replaced in raw files and manifest, checksums taken anew.

    The command lines of the launch's parents are left out.

    Parameters
    ----------
    src, dst : str or path
        Run folder, and the folder to make.
    replacements : dict of str to str
        See `Anonymiser`. Host name, user names and paths of the machine belong there.
    drop : tuple of str
        Captures (such as `raw/dmesg.txt`) that are left out; the manifest says so.

    Returns
    -------
    pathlib.Path
        `dst`.

    Raises
    ------
    EvidenceError
        Where `src` is no recorded run.
    """
    targets = [name for name in str(_manifest(Path(src)).get("target", "local")).split(", ") if name != "local"]
    named = {name: f"ssh://host{number if len(targets) > 1 else ''}" for number, name in enumerate(targets, 1)}
    return _anonymise(Path(src), Path(dst), Anonymiser({**named, **replacements}), drop)


def _manifest(folder: Path) -> dict[str, Any]:
    try:
        return json.loads((folder / "run.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise EvidenceError(f"{folder} is no recorded run", f"run.json: {error}", f"look what is there: ls {folder}") from error


def _anonymise(src: Path, dst: Path, change: Anonymiser, drop: tuple[str, ...]) -> Path:
    manifest = _manifest(src)
    make_folder(dst)
    for number, host in enumerate(manifest.get("hosts") or (), 1):
        name, host["name"] = host["name"], f"host{number}"
        _anonymise(src / name, dst / host["name"], change, drop)
    kept = []
    for entry in manifest["captures"]:
        if entry["file"] in drop:
            manifest["missing"].append(
                {"what": entry["file"], "why": "left out when the run was made anonymous", "do": "record again"}
            )
            continue
        if (src / entry["file"]).is_file():
            _copy(src / entry["file"], dst / entry["file"], entry, change)
        kept.append(entry)
    manifest["captures"], manifest["name"] = kept, dst.name
    if manifest.get("launch"):
        manifest["launch"]["parents"] = []  # the programs above a launch tell about the machine, not about the launch
    text = json.dumps(_changed(manifest, change), indent=1, ensure_ascii=False) + "\n"
    (dst / "run.json").write_text(text, encoding="utf-8")
    return dst


def _copy(src: Path, dst: Path, entry: dict[str, Any], change: Anonymiser) -> None:
    digest, size = hashlib.sha256(), 0
    with open(src, "rb") as file, open(dst, "wb") as copy:
        for line in file:
            data = change(line.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
            copy.write(data)
            digest.update(data)
            size += len(data)
    entry.update(sha256=digest.hexdigest(), size=size)


def _changed(value: Any, change: Anonymiser) -> Any:
    """The same structure with every text changed, but for checksums and times."""
    if isinstance(value, dict):
        return {
            key: item if key in ("sha256", "file") or key.endswith("_at") else _changed(item, change)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_changed(item, change) for item in value]
    return change(value) if isinstance(value, str) else value
