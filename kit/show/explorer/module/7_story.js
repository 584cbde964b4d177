// What is said of a run: evidence that leads to its line, ranks, what to do next, hypotheses; as of the end or of an earlier moment.

class Story {
  constructor(panel) {
    this.panel = panel;
    this.tab = "evidence";
    this.shown = null;
    this.tabs = make("div", { class: "sk-tabs", role: "tablist", "aria-label": "Verdict" });
    this.body = make("div", { class: "sk-tab", role: "tabpanel", id: `${panel.id}-tab`, tabindex: 0 });
    this.element = make("div", { class: "sk-story" }, this.tabs, this.body);
    this.show(panel.head.verdict);
  }

  /** The verdict to show for the as-of cursor: what the kernel judged, else the latest that the page holds. */
  follow() {
    const { panel } = this;
    const { view, head } = panel;
    if (view.asOf === null) {
      panel.asked.hidden = true;
      this.show(head.verdict);
      return;
    }
    const at = panel.asOf;
    const judged = view.judged?.[panel.number];
    const earlier = view.host.judges ? judged : head.moments.filter(({ t }) => t <= at + 1e-6).at(-1);
    const when = `As of ${place(at - panel.shift)} ${clock(head, at)}: `;
    panel.asked.hidden = false;
    if (earlier) {
      const since = earlier.t !== undefined && at - earlier.t > 1 ? ` (judged at ${place(earlier.t)})` : "";
      panel.asked.textContent = when + (earlier.error ? plain(earlier.error) : `what was known then${since}. Later data is veiled; Escape shows all.`);
    } else {
      panel.asked.textContent = when + (view.host.judges ? "judging …" : "later data is veiled; this file holds no verdict of then.");
    }
    this.show(earlier && !earlier.error ? earlier : null);
  }

  show(verdict) {
    if (verdict === this.shown) return;
    this.shown = verdict;
    const { answer } = this.panel;
    answer.replaceChildren();
    answer.hidden = !verdict;
    this.element.hidden = !this.panel.head.verdict;
    if (verdict) {
      answer.dataset.state = verdict.state;
      answer.append(make("span", { class: "sk-state" }, verdict.state), plain(verdict.answer).replace(verdict.state, "").replace(/^[:\s]+/, ""));
    }
    this.fill();
  }

  fill() {
    const verdict = this.shown;
    const names = { evidence: "Evidence", ranks: "Ranks", next: "Next", hypotheses: "Hypotheses" };
    if (!verdict?.board?.rows.length) delete names.ranks;
    if (!(this.tab in names)) this.tab = "evidence";
    this.tabs.replaceChildren(...Object.entries(names).map(([name, label]) =>
      make("button", { role: "tab", id: `${this.panel.id}-${name}`, "aria-selected": String(name === this.tab), "aria-controls": this.body.id, tabindex: name === this.tab ? 0 : -1, onclick: () => this.choose(name), onkeydown: (event) => this.key(event, Object.keys(names)) }, label)));
    this.body.setAttribute("aria-labelledby", `${this.panel.id}-${this.tab}`);
    this.body.replaceChildren(...(verdict ? this[this.tab](verdict) : [make("p", { class: "sk-missing" }, "Nothing was known at this moment.")]));
  }

  choose(name) {
    this.tab = name;
    this.fill();
    this.tabs.querySelector('[aria-selected="true"]').focus();
  }

  key(event, names) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.stopPropagation();
    this.choose(names[(names.indexOf(this.tab) + step + names.length) % names.length]);
  }

  evidence(verdict) {
    const { panel } = this;
    const [begin, end] = panel.head.span;
    return [make("ol", { class: "sk-evidence" }, ...verdict.evidence.map(({ claim, file, line: at, t }) => {
      const inLog = panel.log && file && at && panel.log.files.includes(file);
      const where = file ? `${plain(file)}${at ? `:${at}` : ""}` : null;
      const known = typeof t === "number" && t >= begin && t <= end;
      const go = () => (inLog && panel.list.goTo(at, file)) || (known && panel.goToTime(t));
      const jump = inLog || known ? make("button", { class: "sk-jump", title: inLog ? "Show this line in the log" : `Show this moment, ${place(t)}`, onclick: go }, where) : where && make("code", {}, where);
      return make("li", {}, plain(claim), where ? " " : null, jump);
    }))];
  }

  ranks({ board }) {
    const number = new Set(board.numeric.map((name) => board.columns.indexOf(name)));
    const cells = (tag, row, scope) => row.map((cell, n) => make(tag, { scope: scope ?? null, class: number.has(n) ? "sk-number" : null }, plain(cell)));
    const rows = board.rows.map((row, n) => make("tr", { class: board.odd.includes(n) ? "sk-odd" : null }, ...cells("td", row)));
    return [make("div", { class: "sk-scroll", tabindex: 0, role: "region", "aria-label": "Ranks" }, make("table", {}, make("thead", {}, make("tr", {}, ...cells("th", board.columns, "col"))), make("tbody", {}, ...rows)))];
  }

  next(verdict) {
    if (!verdict.next.length) return [make("p", { class: "sk-missing" }, "Nothing more to collect.")];
    return [make("ol", { class: "sk-evidence" }, ...verdict.next.map(({ what, command }) => make("li", {}, plain(what), command ? make("div", { class: "sk-command" }, make("code", {}, plain(command)), copyButton(command)) : null)))];
  }

  hypotheses(verdict) {
    return verdict.hypotheses.map((one) => {
      const bar = make("span", { class: "sk-share" });
      bar.style.width = `${Math.max(one.share * 100, 0.5)}%`;
      const signs = (claims, word) => claims.map((claim) => make("li", {}, make("i", {}, word), ` ${plain(claim)}`));
      return make("details", { class: "sk-hypothesis" }, make("summary", {}, make("span", {}, `${plain(one.plain)} `, make("code", {}, one.class)), make("b", {}, `${Math.round(one.share * 100)} %`), make("span", { class: "sk-track" }, bar)), make("ul", {}, ...signs(one.for, "for"), ...signs(one.against, "against")));
    });
  }
}

function copyButton(text) {
  const button = make("button", { class: "sk-mini", onclick: async () => {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "copied";
    } catch {
      getSelection().selectAllChildren(button.previousSibling);
      button.textContent = "selected: press Ctrl+C";
    }
    setTimeout(() => (button.textContent = "copy"), 2000);
  } }, "copy");
  return button;
}
