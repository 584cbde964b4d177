"""What a post-mortem holds, in the order of the page: why, the explorer, hypotheses, next, the launch, what is missing, more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from kit import plot
from kit.analyse.verdict.verdict import Verdict, verdict
from kit.analyse.verdict.verdict_text import absent
from kit.clock import NS
from kit.document import Document, Section, Table
from kit.document.html import table
from kit.plot.timeline import plot_timeline
from kit.redact import scrub_text
from kit.render import page
from kit.render.launch import About, about, quiet
from kit.render.notebook import replaced
from kit.show import svg
from kit.show.explorer.pack import pack_run
from kit.show.explorer.page import explorer_html
from kit.show.explorer.still import picture, time_axis
from kit.show.explorer.story import told
from kit.show.folded import appendix, phases

if TYPE_CHECKING:
    from kit.analyse.launches.compare import Comparison
    from kit.run import Run

MANY = 1000
Step = Callable[[str], None]


@dataclass
class Postmortem:
    """A run that is reported, and the launches that it is held against; one that worked comes first."""

    run: Run
    others: list[Run]
    good: Run | None
    step: Step
    clean: Callable[[str], str] = scrub_text

    def judged(self) -> tuple[Verdict, Comparison | None]:
        """The verdict, and the comparison where there is something to compare with."""
        self.step("judging")
        found = verdict(self.run, against=self.good)
        if not self.others:
            return found, None
        from kit.analyse.launches.compare import compare

        self.step("comparing")
        return found, compare(*self.others, self.run)

    def document(self, brief: bool = False) -> Document:
        """The post-mortem as a document, for a ticket or a chat."""
        found, comparison = self.judged()
        shown = found.document(brief)
        parts = list(shown.sections)
        if comparison is not None:
            compared = comparison.document(brief=True) if brief else comparison.document()
            parts.insert(1, Section(f"compared: {compared.title}", compared.sections[0].blocks))
            parts += [] if brief else compared.sections[1:]
        if not brief:
            parts += [*about(found).sections(), Section("phases", [phases(self.run)])]
        return Document(shown.title, parts, shown.subtitle, None, shown.tone)

    def html(self) -> str:
        """The post-mortem as a page."""
        found, comparison = self.judged()
        facts, silent = about(found), quiet(found)
        captured, zero = self.run.captured_ns, self.run.launch_zero_ns
        end_s = (captured - zero) / NS if silent and zero is not None and captured else None
        axis = time_axis(self.run, silent.from_s if silent else None, end_s)
        lead = page.first_screen(found, facts, silent, picture(self.run, axis), axis)
        masked = partial(replaced, replace=self.clean)
        parts = [
            page.Part("why", "Why", masked(page.evidence(found, told(found)["evidence"]))),
            page.Part("change", "What to change", masked(page.change(found))),
            page.Part(
                "against", "Compared" + " with a launch that worked" * bool(self.good), masked(self._comparison(comparison))
            ),
            page.Part("explore", "Explore", self._explorer(found)),
            page.Part("hypotheses", "Hypotheses", masked(page.hypotheses(found))),
            page.Part("next", "Next", masked(page.steps(found))),
            page.Part("launch", "Environment and flags", masked(_launch(facts))),
            page.Part("missing", "What is missing", masked(_missing(found))),
            page.Part("appendix", "Appendix", masked(appendix(found, self.step).html)),
        ]
        self.step("writing")
        return page.page(self.clean(self.run.name), masked(lead), [part for part in parts if part.html], found.state)

    def _explorer(self, found: Verdict) -> str:
        """The explorer of the run, beside the launch that worked; a still timeline in print and where no script runs."""
        self.step("packing the explorer")
        packs = [pack_run(self.run, moments=True, clean=self.clean, good=self.good)]
        packs += [pack_run(one, moments=True, clean=self.clean) for one in ([self.good] if self.good else self.others[:1])]
        self.step("drawing the timeline")
        still = svg.figure(
            plot_timeline(self.run, verdict=found),
            "From the top: the phase of each rank, the log, then what was sampled. The dashed line is the last progress.",
        )
        hint = (
            "<p class='small hint'>Drag to choose a window; wheel and keys zoom; a click on a rank, thread or call filters "
            "all views; <kbd>?</kbd> lists the keys.</p>"
        )
        return hint + explorer_html(*packs, still=replaced(still, self.clean), with_script=False)

    def _comparison(self, comparison: Comparison | None) -> str:
        if comparison is None:
            return ""
        self.step("drawing the comparison")
        compared = comparison.document()
        drawn = svg.figure(plot.plot_comparison(comparison), "The same phase has the same colour in all; second 0 is the launch.")
        first, rest = page.sections(compared.sections[:1]), page.sections(compared.sections[1:])
        return f"<p>{page.escape(compared.title)}</p>{first}{drawn}{rest}"


def _launch(facts: About) -> str:
    parts = [page.command(facts.command)] if facts.command else []
    parts += [table(Table(("", ""), list(facts.versions.items())))] if facts.versions else []
    pair = [Table(("flag", "value"), facts.flags, len(facts.flags), "Flags given")]
    pair.append(Table(("variable", "value"), facts.environment, len(facts.environment), "Environment"))
    given = "".join(f"<div>{table(one)}</div>" for one in pair if one.rows)
    parts += [f"<div class='pair'>{given}</div>"] if given else []
    if facts.unrecorded:
        parts.append(f"<p class='small'>{facts.unrecorded} more variables are set; their values were not recorded.</p>")
    if facts.printed:
        printed = Table(("argument", "value"), facts.printed, len(facts.printed), "As the server printed them")
        parts.append(page.folded("Arguments that were not given: what the server printed of them", table(printed)))
    return "".join(parts)


def _missing(found: Verdict) -> str:
    """What the evidence lacks, with the command that gets it where no step before has it."""
    entries = []
    for sentence in absent(found):
        what, joint, command = sentence.partition("; get it with: ")
        entries.append(f"<li>{page.whole_words(what)}{page.command(command) if joint else ''}</li>")
    return f"<ul class='bare'>{''.join(entries)}</ul>" if entries else "<p>Nothing that would change the answer.</p>"
