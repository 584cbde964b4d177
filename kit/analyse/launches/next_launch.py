"""Which launch to try next: the change of one setting whose outcome leaves the fewest candidates."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from kit.analyse.launches.study import READY_OR_NOT
from kit.analyse.verdict.options import Launch, command_line, with_option_of
from kit.analyse.verdict.settings import ENVIRONMENT, ONLY_SET, SECRET
from kit.redact import scrub_text

if TYPE_CHECKING:
    from kit.analyse.launches.study import Candidate, Study
    from kit.analyse.verdict.settings import Setting

HALVE_FROM = 4
"""From so many candidates on, half of them changed at once leaves fewer than one changed alone."""


def steps(study: Study) -> list[dict[str, Any]]:
    """Launches to try, the one that teaches most first.

    Returns `what`, `setting`, `value`, `base`, `command`, `if_ready`, `if_not`; the last two name the candidates that are left.
    """
    good, bad = study.group(True), study.group(False)
    if not good or not bad:
        return []
    again = [_repeat(study, study.alike[0][1])] if study.alike else []
    if not study.separating:
        return again or _towards(study)
    outcome = study.separating[0].outcome
    candidates = [one for one in study.separating if one.outcome == outcome]
    found = [_best(study, candidates)]
    if found[0] and len(candidates) >= HALVE_FROM:
        found.append(_half(study, candidates, found[0]["base"]))
    return [one for one in found if one] + again


def _best(study: Study, candidates: list[Candidate]) -> dict[str, Any] | None:
    """The change of one setting, from any launch, that splits the candidates most evenly; ties: a change of a launch that is not
    ready, the candidate least likely by chance, the easiest to change."""
    best, best_rank = None, None
    for place, candidate in enumerate(candidates):
        for base in range(len(study.launches)):
            for donor in range(len(study.launches)):
                setting = candidate.setting
                if not (setting.known[base] and setting.known[donor]) or setting.values[base] == setting.values[donor]:
                    continue
                ready, stuck = _predicted(candidates, base, {setting.name: setting.values[donor]})
                if study.outcomes[base] is True and not stuck or study.outcomes[base] is False and not ready:
                    continue
                rank = (
                    -min(len(ready), len(stuck)),
                    _tried(study, base, setting, donor),
                    study.outcomes[base] is not False,
                    _command(study, base, donor, setting) is None,
                    place,
                    sum(1 for _, b, settings in study.pairs if b == base for _ in settings),
                )
                if best_rank is None or rank < best_rank:
                    best, best_rank = (base, donor, setting, ready, stuck), rank
    return _step(study, *best) if best else None


def _predicted(candidates: list[Candidate], base: int, changed: dict[str, str | None]) -> tuple[list[str], list[str]]:
    """Candidates by which a launch would be ready, and those by which it would not, if each decided alone."""
    ready, stuck = [], []
    for one in candidates:
        known = one.name in changed or one.setting.known[base]
        said = one.predicts(changed.get(one.name, one.setting.values[base])) if known else None
        if said is not None:
            (ready if said else stuck).append(one.name)
    return ready, stuck


def _tried(study: Study, base: int, setting: Setting, donor: int) -> bool:
    """Whether a launch with just these settings was made already."""
    chosen = [one.setting for one in study.held]
    wanted = {one.name: one.values[base] for one in chosen} | {setting.name: setting.values[donor]}
    return any(all(one.values[number] == wanted[one.name] for one in chosen) for number in range(len(study.launches)))


def _step(study: Study, base: int, donor: int, setting: Setting, ready: list[str], stuck: list[str]) -> dict[str, Any]:
    value = setting.values[donor]
    words = f"with {setting.name} {_said(value)} as in {study.names[donor]}"
    known = ": made before, so it can only confirm" if _tried(study, base, setting, donor) else ""
    return {
        "what": f"{study.names[base]} again, {words}, all else unchanged{known}",
        "setting": setting.name,
        "value": value,
        "base": study.names[base],
        "command": _command(study, base, donor, setting),
        "if_ready": ready,
        "if_not": stuck,
    }


def _said(value: str | None) -> str:
    return "not given" if value is None else f"= {value}"


def _command(study: Study, base: int, donor: int, *settings: Setting) -> str | None:
    """The command of one launch with settings as another has them; None where it must be done by hand."""
    launch, other = (study.launches[number].settings.launch for number in (base, donor))
    inherited = []
    for setting in settings:
        changed = with_option_of(launch, other, setting.name) if launch and other and launch.server == other.server else None
        if launch and not changed and setting.source == ENVIRONMENT and not launch.image:
            inherited += _inherited(setting.name, setting.values[donor])  # the shell's, so no command names it
            changed = _typed(launch) if inherited else None
        launch = command_line(changed) if changed else None
    return scrub_text(" ".join([*inherited, _typed(launch)])) if launch and settings else None


def _inherited(name: str, value: str | None) -> list[str]:
    """Words before a command that give it a variable, or take one away; none where the value is not known."""
    if value is None:
        return ["env", "-u", name]
    return [] if value in (ONLY_SET, SECRET) else ["env", f"{name}={shlex.quote(value)}"]


def _typed(launch: Launch) -> str:
    """A command as it stands: with an option as the launch itself has it."""
    first = next(iter(launch.options), None)
    return (first is not None and with_option_of(launch, launch, first)) or launch.program


def _half(study: Study, candidates: list[Candidate], base_name: str) -> dict[str, Any] | None:
    """Half of the candidates changed at once: the way to the deciding one in the fewest launches."""
    base = study.names.index(base_name)
    donor = next((good for good, bad, _ in study.pairs if bad == base), None)
    if donor is None:
        return None
    half = [one for one in candidates if one.setting.known[base] and one.setting.known[donor]][: len(candidates) // 2]
    changed = {one.name: one.setting.values[donor] for one in half}
    ready, stuck = _predicted(candidates, base, changed)
    return {
        "what": f"or halve the {len(candidates)}: {base_name} with these as in {study.names[donor]}: {', '.join(changed)}",
        "setting": ", ".join(changed),
        "value": ", ".join(_said(value) for value in changed.values()),
        "base": base_name,
        "command": _command(study, base, donor, *(one.setting for one in half)),
        "if_ready": ready,
        "if_not": stuck,
    }


def _repeat(study: Study, number: int) -> dict[str, Any]:
    """The same launch once more: its outcome is not decided by what was captured of its settings."""
    launch = study.launches[number].settings.launch
    often = "fails" if study.words == READY_OR_NOT else "is slow"
    return {
        "what": f"{study.names[number]} again, unchanged: see how often it {often} before you look for a setting",
        "setting": None,
        "value": None,
        "base": study.names[number],
        "command": scrub_text(_typed(launch)) if launch else None,
        "if_ready": [],
        "if_not": [],
    }


def _towards(study: Study) -> list[dict[str, Any]]:
    """No setting tells the outcomes apart alone: from a launch that is not ready towards the ready one closest to it."""
    good, bad, settings = study.pairs[0]
    ranked = sorted(settings, key=lambda one: _command(study, bad, good, one) is None)
    names = [one.name for one in settings]
    return [_step(study, bad, good, ranked[0], [ranked[0].name], [name for name in names if name != ranked[0].name])]
