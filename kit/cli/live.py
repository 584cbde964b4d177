"""Verbs that look at a running launch: collect, pull, triage, watch, guard."""

from __future__ import annotations

from kit.cli.parser import Verbs
from kit.cli.shared import add_knowledge


def add(verbs: Verbs) -> None:
    """Add the verbs."""
    from kit.capture import command
    from kit.live import command as triage_command
    from kit.live import guard_command, watch_command

    command.add_arguments(verbs.add("collect", command.main, "record diagnostics of a running launch"))
    command.add_pull_arguments(
        verbs.add("pull", command.pull_main, "copy files of a host into a run, scrubbed; run again to resume")
    )
    verb = verbs.add(
        "triage", triage_command.main, "test one hypothesis after the other on a running launch, and say what is wrong"
    )
    triage_command.add_arguments(verb)
    add_knowledge(verb)
    watch_command.add_arguments(verbs.add("watch", watch_command.main, "show what each rank of a running launch is doing"))
    guard_command.add_arguments(verbs.add("guard", guard_command.main, "start a launch and capture diagnostics if it stalls"))
