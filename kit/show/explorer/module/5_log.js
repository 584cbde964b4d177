// The log: a list that holds only the rows in sight; search by text, level and rank; jump to a line.

const ROW = 20;

class LogList {
  constructor(panel) {
    this.panel = panel;
    this.rows = new Int32Array(0);
    this.selected = -1;
    const id = `${panel.id}-log`;
    const { log } = panel;
    this.search = make("input", { type: "search", class: "sk-search", placeholder: "Search", "aria-label": "Search the log", oninput: () => this.changed() });
    this.level = choice("Level", "any level", log?.levels.filter(Boolean) ?? [], () => this.changed());
    const ranks = log ? [...new Set(log.rank)].filter((rank) => rank >= 0).sort((a, b) => a - b) : [];
    this.rank = choice("Rank", "any rank", ranks.map(String), () => {
      panel.view.setFilter({ rank: this.rank.value === "" ? undefined : Number(this.rank.value), pid: undefined, tid: undefined });
    });
    this.line = make("input", { type: "number", min: 1, class: "sk-line", placeholder: "Line", "aria-label": "Go to line", onkeydown: (event) => {
      if (event.key === "Enter" && this.line.value) this.goTo(Number(this.line.value));
    } });
    this.said = make("span", { class: "sk-said", role: "status" });
    this.inner = make("div", { class: "sk-rows", role: "presentation" });
    this.box = make("div", { class: "sk-list", id, tabindex: 0, role: "listbox", "aria-label": "Log records", onscroll: () => this.draw(), onkeydown: (event) => this.key(event) }, this.inner);
    this.nothing = make("div", { class: "sk-nothing", hidden: true });
    this.text = make("pre", { class: "sk-text", tabindex: 0, "aria-label": "Selected record", hidden: true });
    const bar = make("div", { class: "sk-logbar" }, make("b", {}, "Log"), this.search, this.level, ranks.length > 1 ? this.rank : null, this.line, this.said);
    this.element = make("div", { class: "sk-log" }, bar, make("div", { class: "sk-frame" }, this.box, this.nothing), this.text);
    if (!log) {
      const why = make("p", { class: "sk-missing" }, ...sentence(panel.head.tracks.log.missing));
      this.element.replaceChildren(make("div", { class: "sk-logbar" }, make("b", {}, "Log")), why);
      return;
    }
    this.lower = null;
    this.pool = [];
    new ResizeObserver(() => this.draw()).observe(this.box);
  }

  changed() {
    this.panel.view.schedule();
  }

  /** Which records hold the text searched for; null: all. */
  matches() {
    const wanted = this.search?.value.trim().toLowerCase() ?? "";
    if (wanted === this.wanted) return this.found;
    const { log } = this.panel;
    this.wanted = wanted;
    this.lower ??= log.text.map((text) => text.toLowerCase());
    return (this.found = wanted ? Uint8Array.from(this.lower, (text) => (text.includes(wanted) ? 1 : 0)) : null);
  }

  refresh() {
    const { panel } = this;
    const { log } = panel;
    if (!log) return;
    const [begin, end] = panel.window;
    const whole = panel.view.isWhole;
    const kept = [];
    for (let i = 0; i < log.t.length; i++) {
      if (panel.logRow(i) && (log.dated[i] ? log.t[i] >= begin && log.t[i] <= end : whole)) kept.push(i);
    }
    const anchor = this.rows[Math.floor(this.box.scrollTop / ROW)];
    this.rows = Int32Array.from(kept);
    this.inner.style.height = `${this.rows.length * ROW}px`;
    const [listed, all] = panel.head.tracks.log.of;
    const thinned = listed < all ? ` (${count(listed)} of ${count(all)} listed: errors, progress, first and last first)` : "";
    this.said.textContent = `${count(this.rows.length)} of ${plural(listed, "record")}${thinned}`;
    if (this.rank) this.rank.value = panel.filter.rank === undefined ? "" : String(panel.filter.rank);
    const key = `${this.rows.length} ${this.rows[0]} ${this.rows.at(-1)}`;
    if (key !== this.key_ && this.rows.length) {
      const to = this.selected >= 0 && bisect(this.rows, this.selected) < this.rows.length ? this.selected : anchor;
      if (to !== undefined && this.key_ !== undefined) this.show(to, false);
    }
    if (this.key_ === undefined && this.rows.length && panel.head.knee !== null) this.showTime(panel.head.knee);
    this.key_ = key;
    this.sayNothing();
    this.draw();
  }

  /** Where no record is listed: why, and the way to the last one before. */
  sayNothing() {
    const { panel } = this;
    this.nothing.hidden = this.rows.length > 0;
    if (this.rows.length) return;
    const last = panel.lastRecord(panel.window[0], undefined, false, true);
    const button = last >= 0 && make("button", { onclick: () => this.goTo(panel.log.line[last], panel.log.files[panel.log.file[last]]) }, `The last before: ${place(panel.log.t[last])}, line ${panel.log.line[last]}`);
    const filtered = panel.isFiltered("rank", "pid", "tid", "kind", "search", "level");
    this.nothing.replaceChildren(make("span", {}, `No record${filtered ? " passes the filters" : ""} in this window.`), button || "");
  }

  draw() {
    const { log, head } = this.panel;
    if (!log) return;
    const top = Math.floor(this.box.scrollTop / ROW);
    const room = Math.ceil((this.box.clientHeight || 280) / ROW) + 1;
    while (this.pool.length < room) this.pool.push(this.row());
    const step = 1;
    this.pool.forEach((row, n) => {
      const at = top + n;
      const i = this.rows[at];
      row.element.hidden = n >= room || i === undefined;
      if (i === undefined) return;
      row.at = at;
      row.element.id = `${this.box.id}-${at}`;
      row.element.style.transform = `translateY(${at * ROW}px)`;
      row.element.setAttribute("aria-posinset", at + 1);
      row.element.setAttribute("aria-setsize", this.rows.length);
      row.element.setAttribute("aria-selected", i === this.selected);
      row.mark.style.background = tint(head.palette.kind[log.kinds[log.kind[i]]], this.panel.look.dark);
      row.line.textContent = log.line[i] || "";
      row.time.textContent = log.dated[i] ? place(log.t[i], step) : "";
      row.rank.textContent = log.rank[i] >= 0 ? log.rank[i] : "";
      row.element.dataset.level = log.levels[log.level[i]];
      row.text.textContent = (log.weight[i] > 1 ? `(${count(log.weight[i])}×) ` : "") + oneLine(log.text[i].slice(0, 600));
    });
    const shownAt = this.selected >= 0 ? bisect(this.rows, this.selected) : -1;
    const inSight = shownAt >= top && shownAt < top + room && this.rows[shownAt] === this.selected;
    if (inSight) this.box.setAttribute("aria-activedescendant", `${this.box.id}-${shownAt}`);
    else this.box.removeAttribute("aria-activedescendant");
  }

  row() {
    const part = (name) => make("span", { class: `sk-${name}` });
    const row = { mark: part("mark"), line: part("no"), time: part("time"), rank: part("rank"), text: part("words") };
    row.element = make("div", { class: "sk-row", role: "option", "aria-selected": "false", onclick: () => this.select(this.rows[row.at]) }, row.mark, row.line, row.time, row.rank, row.text);
    this.inner.append(row.element);
    return row;
  }

  select(i, move = true) {
    const { log } = this.panel;
    this.selected = i;
    this.text.hidden = false;
    const rank = log.rank[i] >= 0 ? ` · rank ${log.rank[i]}` : "";
    const when = log.dated[i] ? ` · ${place(log.t[i], 0.001)} ${clock(this.panel.head, log.t[i])}` : "";
    this.text.textContent = `${plain(log.files[log.file[i]])}:${log.line[i]}${when}${rank}\n${plain(log.text[i])}`;
    if (move && log.dated[i]) this.panel.view.setCursor(log.t[i] - this.panel.shift, this.panel);
    this.draw();
  }

  /** Scroll so that a record, or the nearest that is listed, stands in the middle. */
  show(i, select = true) {
    if (!this.rows.length) return;
    const at = Math.min(bisect(this.rows, i), this.rows.length - 1);
    this.box.scrollTop = Math.max((at + 0.5) * ROW - this.box.clientHeight / 2, 0);
    if (select) this.select(this.rows[at], false);
    this.draw();
  }

  showTime(t) {
    const row = this.panel.lastRecord(t, undefined, true);
    if (row >= 0) this.show(row);
  }

  /** Go to a line of a file; what hides it is undone. */
  goTo(line, file) {
    const { log, view } = this.panel;
    let best = -1;
    for (let i = 0; i < log.t.length; i++) {
      if (file !== undefined && log.files[log.file[i]] !== file) continue;
      if (log.line[i] <= line && (best < 0 || log.line[i] > log.line[best])) best = i;
    }
    if (best < 0) return false;
    if (!this.panel.logRow(best)) {
      this.search.value = this.level.value = "";
      view.setFilter({ rank: undefined, pid: undefined, tid: undefined, kind: undefined, call: undefined });
    }
    if (log.dated[best]) view.bring(log.t[best] - this.panel.shift);
    else view.setWindow(view.span);
    view.draw();
    this.show(best);
    if (log.dated[best]) view.setCursor(log.t[best] - this.panel.shift, this.panel, false);
    return true;
  }

  key(event) {
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: 12, PageUp: -12 };
    if (!(event.key in steps) || !this.rows.length) return;
    event.preventDefault();
    event.stopPropagation();
    const now = this.selected >= 0 ? bisect(this.rows, this.selected) : Math.floor(this.box.scrollTop / ROW) - steps[event.key];
    const at = Math.min(Math.max(now + steps[event.key], 0), this.rows.length - 1);
    this.select(this.rows[at]);
    if ((at + 1) * ROW > this.box.scrollTop + this.box.clientHeight) this.box.scrollTop = (at + 1) * ROW - this.box.clientHeight;
    if (at * ROW < this.box.scrollTop) this.box.scrollTop = at * ROW;
    this.draw();
  }
}

function choice(label, any, values, changed) {
  return make("select", { "aria-label": label, onchange: changed }, make("option", { value: "" }, any), ...values.map((value) => make("option", { value }, label === "Rank" ? `rank ${value}` : value)));
}
