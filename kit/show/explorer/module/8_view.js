// The explorer: one or two runs, one window, one filter, one cursor; pointer, wheel and keys; and its two homes, notebook and page.

const KEYS = [
  ["+ −", "zoom in and out; the wheel does too once the timeline was clicked, or with Ctrl"],
  ["← →", "move the window"],
  ["Shift ← →", "move the reading line; its values are read out"],
  ["Home", "the whole run"],
  ["Backspace", "the window before"],
  ["n p", "next and previous event: phase, silence, first sample, gap, last progress"],
  ["a", "as of the reading line: what could be known then"],
  ["/", "search the log"],
  ["g", "go to a line of the log"],
  ["1 … 9", "rank 0 … 8 alone, again for all"],
  ["c t k", "the next system call, thread, kind of record alone; with Shift the one before"],
  ["Esc", "undo: as of, filter, window"],
  ["?", "this list"],
];

class View {
  constructor(element, packs, host) {
    Object.assign(this, { element, packs, host, filter: {}, cursor: null, asOf: null, judged: null, before: [], panels: [] });
    this.look = this.readLook();
    this.span = this.wholeSpan(packs.map(() => 0), packs);
    this.window = [...this.span];
    this.build();
  }

  wholeSpan(shifts, packs = this.packs) {
    const begins = packs.map(({ head }, n) => head.span[0] - shifts[n]);
    const ends = packs.map(({ head }, n) => head.span[1] - shifts[n]);
    return [Math.min(...begins), Math.max(...ends)];
  }

  get isWhole() {
    return this.window[0] === this.span[0] && this.window[1] === this.span[1];
  }

  readLook() {
    const dark = isDark();
    this.element.dataset.dark = dark;
    return dark
      ? { dark, paper: "#161b20", ink: "#e4e8eb", dim: "#a3adb6", line: "#4a545e", grid: "rgba(255,255,255,.07)", stall: "rgba(224,122,60,.13)", gap: "rgba(255,255,255,.12)", warn: "#ff8a45" }
      : { dark, paper: "#ffffff", ink: "#1d2329", dim: "#56616b", line: "#b9c2ca", grid: "rgba(20,30,40,.07)", stall: "rgba(224,122,60,.12)", gap: "rgba(20,30,40,.13)", warn: "#b8460e" };
  }

  build() {
    const button = (label, title, act) => make("button", { class: "sk-tool", title, "aria-label": title, onclick: act }, label);
    this.readout = make("span", { class: "sk-readout" });
    this.filters = make("span", { class: "sk-filters" });
    this.spoken = make("div", { class: "sk-hidden", role: "status", "aria-live": "polite" });
    this.tip = make("div", { class: "sk-tip", hidden: true, "aria-hidden": "true" });
    this.help = make("dialog", { class: "sk-help", "aria-label": "Keys" }, make("b", {}, "Keys"), make("dl", {}, ...KEYS.flatMap(([key, does]) => [make("dt", {}, ...key.split(" ").map((one) => (one === "…" ? " … " : make("kbd", {}, one)))), make("dd", {}, does)])), make("button", { class: "sk-tool", onclick: () => this.help.close() }, "close"));
    this.align = this.packs.length > 1 ? this.alignChoice() : null;
    this.bar = make("div", { class: "sk-bar", role: "toolbar", "aria-label": "Window" },
      button("−", "Zoom out (-)", () => this.zoom(2)), button("+", "Zoom in (+)", () => this.zoom(0.5)), button("whole", "The whole run (Home)", () => this.setWindow(this.span)),
      button("‹ event", "Previous event (p)", () => this.step(-1)), button("event ›", "Next event (n)", () => this.step(1)), this.align, this.readout, this.filters, button("?", "Keys (?)", () => this.help.showModal()));
    this.panels = this.packs.map((pack, number) => new Panel(this, pack, number));
    const columns = make("div", { class: `sk-panels sk-panels-${this.packs.length}` }, ...this.panels.map((panel) => panel.element));
    this.element.replaceChildren(this.bar, columns, this.spoken, this.tip, this.help);
    this.element.addEventListener("keydown", (event) => this.key(event));
    this.draw();
  }

  /** Go on where the view before stood: what was searched, which tab was open, where the focus was. */
  resume(before) {
    this.panels.forEach((panel, number) => {
      const old = before.panels[number];
      if (!old) return;
      for (const name of ["search", "level"]) if (panel.list[name] && old.list[name]) panel.list[name].value = old.list[name].value;
      panel.story.tab = old.story.tab;
      panel.story.fill();
    });
    this.cursor = before.cursor;
    if (before.focused) this.panels[0].plots.focus({ preventScroll: true });
  }

  alignChoice() {
    const begins = this.packs.map(({ head }) => new Map((head.tracks.phases.bands ?? []).map(([, phase, begin]) => [phase, begin]).reverse()));
    const common = [...begins[0].keys()].reverse().filter((phase) => begins.every((one) => one.has(phase)));
    const select = make("select", { "aria-label": "Align the runs at", onchange: () => {
      this.panels.forEach((panel, n) => (panel.shift = select.value ? begins[n].get(select.value) : 0));
      this.span = this.wholeSpan(this.panels.map((panel) => panel.shift));
      this.window = [...this.span];
      this.host.changed({ _shifts: this.panels.map((panel) => panel.shift) });
      this.tellWindow();
      this.schedule();
    } }, make("option", { value: "" }, "align at launch"), ...common.map((phase) => make("option", { value: phase }, `align at ${phase}`)));
    return select;
  }

  schedule() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      guarded(this.element, () => this.draw());
    });
  }

  draw() {
    const began = performance.now();
    const [begin, end] = this.window;
    const step = end - begin < 20 ? 0.01 : 1;
    this.readout.textContent = this.isWhole ? `${seconds(end - begin)}` : `${place(begin, step)} – ${place(end, step)} (${seconds(end - begin)})`;
    this.drawFilters();
    for (const panel of this.panels) panel.draw();
    this.drawn = performance.now() - began;
  }

  drawFilters() {
    const { of, ...own } = this.filter;
    const chips = Object.entries(own).map(([name, value]) => make("button", { class: "sk-chip sk-on", "aria-label": `Remove the filter ${name} ${plain(value)}`, onclick: () => this.setFilter({ [name]: undefined }) }, `${name === "tid" ? "thread" : name} ${plain(value)} ✕`));
    this.filters.replaceChildren(...chips);
  }

  drawLayers() {
    for (const panel of this.panels) panel.drawLayer();
  }

  // ---- what can be changed

  setWindow([begin, end], { remember = true, tell = true } = {}) {
    const least = 1e-4;
    const width = Math.min(Math.max(end - begin, least), this.span[1] - this.span[0]);
    begin = Math.min(Math.max(begin, this.span[0]), this.span[1] - width);
    const window_ = width >= this.span[1] - this.span[0] ? [...this.span] : [begin, begin + width];
    if (window_[0] === this.window[0] && window_[1] === this.window[1]) return;
    if (remember) this.before = [...this.before.slice(-40), this.window];
    this.window = window_;
    this.schedule();
    if (tell) this.tellWindow();
  }

  /** Tell Python what is shown; nothing stands for all, rows without a time too. */
  tellWindow() {
    this.host.changed({ window: this.isWhole ? [] : this.window });
  }

  zoom(factor, at = this.cursor ?? (this.window[0] + this.window[1]) / 2) {
    const [begin, end] = this.window;
    const still = at >= begin && at <= end ? at : (begin + end) / 2;
    this.setWindow([still - (still - begin) * factor, still + (end - still) * factor]);
  }

  pan(share) {
    const width = this.window[1] - this.window[0];
    this.setWindow([this.window[0] + share * width, this.window[1] + share * width]);
  }

  /** Move the window, no wider than it is, so that a second lies in it. */
  bring(t) {
    const [begin, end] = this.window;
    if (t < begin || t > end) this.setWindow([t - (end - begin) / 2, t + (end - begin) / 2]);
  }

  setFilter(change, { tell = true } = {}) {
    const next = { ...this.filter, ...change };
    if (next.pid === undefined && next.tid === undefined) delete next.of;
    this.filter = Object.fromEntries(Object.entries(next).filter(([, value]) => value !== undefined));
    this.schedule();
    if (tell) this.host.changed({ filters: this.filter });
  }

  /** What a click filters; the same click again undoes it. */
  toggle(change) {
    const same = Object.entries(change).every(([name, value]) => name === "of" || this.filter[name] === value);
    if (same) return this.setFilter(Object.fromEntries(Object.keys(change).map((name) => [name, undefined])));
    const other = "rank" in change ? { pid: undefined, tid: undefined } : "pid" in change ? { rank: undefined, tid: undefined } : {};
    return this.setFilter({ ...other, ...change });
  }

  /** Show the next or the previous of what a track tells apart alone; past the last one all of them. */
  alone(name, way) {
    const all = this.panels[0].choices(name);
    const at = all.findIndex((one) => Object.entries(one).every(([key, value]) => this.filter[key] === value));
    const next = all[at < 0 && way < 0 ? all.length - 1 : at + way];
    const none = { thread: { pid: undefined, tid: undefined }, call: { call: undefined }, kind: { kind: undefined } }[name];
    this.setFilter(next ?? none);
    this.say(next ? `${name} ${plain(next.tid ?? next.call ?? next.kind)}` : all.length ? `all ${name}s` : `no ${name} was recorded`);
  }

  setCursor(t, panel, tell = true) {
    this.cursor = t;
    if (t !== null && panel && tell) this.bring(t);
    this.drawLayers();
  }

  setAsOf(t, { tell = true } = {}) {
    this.asOf = t === null || t >= this.span[1] - 1e-6 ? null : Math.max(t, this.span[0]);
    this.judged = null;
    for (const panel of this.panels) panel.story.follow();
    this.schedule();
    if (tell) this.host.changed({ as_of: this.asOf });
  }

  /** To the next or the previous event of any run. */
  step(way) {
    const events = this.panels.flatMap((panel) => panel.head.events.map((event) => ({ ...event, t: event.t - panel.shift, panel }))).sort((a, b) => a.t - b.t);
    const from = this.cursor ?? (way > 0 ? -Infinity : Infinity);
    const next = way > 0 ? events.find(({ t }) => t > from + 1e-6) : events.filter(({ t }) => t < from - 1e-6).at(-1);
    if (!next) return this.say(way > 0 ? "no later event" : "no earlier event");
    next.panel.goToTime(next.t + next.panel.shift);
    return this.say(`${place(next.t)}: ${plain(next.label)}`, true);
  }

  say(text, show = false) {
    this.spoken.textContent = text;
    if (!show || this.cursor === null) return;
    const panel = this.panels[0];
    const box = panel.ticks.getBoundingClientRect();
    this.tell([text], box.left + panel.axis.x(this.cursor + panel.shift), box.bottom);
    clearTimeout(this.saying);
    this.saying = setTimeout(() => (this.tip.hidden = true), 2500);
  }

  /** Show words beside a point of the screen. */
  tell(words, x, y) {
    this.tip.hidden = !words.length;
    if (!words.length) return;
    this.tip.replaceChildren(...words.map((word) => {
      if (typeof word === "string") return make("div", {}, word);
      const swatch = make("i", {});
      swatch.style.background = word.colour;
      return make("div", {}, swatch, word.text);
    }));
    const own = this.element.getBoundingClientRect();
    const left = Math.min(Math.max(x - own.left + 14, 4), Math.max(own.width - this.tip.offsetWidth - 6, 4));
    const under = y - own.top + 16;
    this.tip.style.left = `${left}px`;
    this.tip.style.top = `${under + this.tip.offsetHeight > own.height ? Math.max(under - this.tip.offsetHeight - 32, 0) : under}px`;
  }

  // ---- pointer and keys

  listen(panel) {
    const { plots, over, handle } = panel;
    plots.addEventListener("pointermove", (event) => this.hover(panel, event));
    plots.addEventListener("pointerleave", () => {
      this.tip.hidden = true;
    });
    plots.addEventListener("pointerdown", (event) => this.press(panel, event));
    plots.addEventListener("dblclick", () => this.setWindow(this.span));
    plots.addEventListener("wheel", (event) => this.wheel(panel, event), { passive: false });
    over.addEventListener("pointerdown", (event) => this.pressOverview(panel, event));
    handle.addEventListener("pointerdown", (event) => this.dragAsOf(panel, event));
    handle.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -0.01, ArrowRight: 0.01, PageDown: -0.1, PageUp: 0.1 }[event.key];
      if (!step) return;
      event.preventDefault();
      event.stopPropagation();
      this.setAsOf((this.asOf ?? this.span[1]) + step * (this.window[1] - this.window[0]));
    });
  }

  trackAt(panel, event) {
    return panel.tracks.find(({ plot }) => plot.contains(event.target));
  }

  hover(panel, event) {
    const box = panel.ticks.getBoundingClientRect();
    const x = event.clientX - box.left;
    if (x < 0 || x > box.width || this.dragging || !panel.axis) return;
    const t = panel.axis.t(x);
    this.cursor = t - panel.shift;
    this.drawLayers();
    const track = this.trackAt(panel, event);
    const words = track ? track.under(t, event.clientY - track.canvas.getBoundingClientRect().top) : [];
    const gap = panel.head.gaps.find(([begin, end]) => begin <= t && t <= end);
    const near = this.window[1] - this.window[0] < 60 ? 0.01 : 1;
    this.tell([`${place(t - panel.shift, near)}  ${clock(panel.head, t, near)}`, ...words, ...(gap ? [`no samples: ${plain(gap[2])}`] : [])], event.clientX, event.clientY);
  }

  press(panel, event) {
    const track = this.trackAt(panel, event);
    if (event.button !== 0 || !(track || panel.ticks.contains(event.target))) return;
    const box = panel.ticks.getBoundingClientRect();
    const from = event.clientX - box.left;
    const panning = event.shiftKey;
    const at = [...this.window];
    this.drag(event, (x) => {
      const moved = x - box.left - from;
      if (Math.abs(moved) < 4 && !this.dragged) return;
      this.dragged = true;
      this.tip.hidden = true;
      if (panning) {
        const by = (moved / box.width) * (at[1] - at[0]);
        this.setWindow([at[0] - by, at[1] - by], { remember: false });
        return;
      }
      const to = Math.min(Math.max(x - box.left, 0), box.width);
      panel.brush.hidden = false;
      panel.brush.style.left = `${Math.min(from, to)}px`;
      panel.brush.style.width = `${Math.abs(to - from)}px`;
    }, (x) => {
      panel.brush.hidden = true;
      if (this.dragged && !panning) {
        const to = Math.min(Math.max(x - box.left, 0), box.width);
        const [begin, end] = [panel.axis.t(Math.min(from, to)), panel.axis.t(Math.max(from, to))];
        this.setWindow([begin - panel.shift, end - panel.shift]);
      } else if (!this.dragged) this.click(panel, track, panel.axis.t(from), event);
    });
  }

  click(panel, track, t, event) {
    panel.plots.focus({ preventScroll: true });
    this.cursor = t - panel.shift;
    const pick = track?.pick(t, event.clientY - track.canvas.getBoundingClientRect().top);
    if (pick) this.toggle("pid" in pick || "tid" in pick ? { ...pick, of: panel.number } : pick);
    this.draw();
    panel.list.showTime(t);
  }

  pressOverview(panel, event) {
    if (event.button !== 0) return;
    event.stopPropagation();
    const box = panel.overview.getBoundingClientRect();
    const axis = panel.wholeAxis;
    const start = event.clientX - box.left;
    const [begin, end] = panel.window.map((t) => axis.x(t));
    const edge = this.isWhole ? "" : Math.abs(start - begin) < 7 ? "left" : Math.abs(start - end) < 7 ? "right" : start > begin && start < end ? "move" : "";
    const tOf = (x) => axis.t(Math.min(Math.max(x, 0), box.width)) - panel.shift;
    this.drag(event, (x) => {
      const to = x - box.left;
      if (Math.abs(to - start) > 3) this.dragged = true;
      if (!this.dragged) return;
      if (edge === "move") this.setWindow([tOf(begin + to - start), tOf(end + to - start)], { remember: false });
      else if (edge === "left") this.setWindow([tOf(Math.min(to, end - 2)), tOf(end)], { remember: false });
      else if (edge === "right") this.setWindow([tOf(begin), tOf(Math.max(to, begin + 2))], { remember: false });
      else this.setWindow([tOf(Math.min(start, to)), tOf(Math.max(start, to))], { remember: false });
    }, () => {
      if (!this.dragged && !this.isWhole) this.bring(tOf(start));
    });
  }

  dragAsOf(panel, event) {
    event.stopPropagation();
    event.preventDefault();
    panel.handle.focus();
    const box = panel.ticks.getBoundingClientRect();
    const at = (x) => panel.axis.t(Math.min(Math.max(x - box.left, 0), box.width)) - panel.shift;
    this.drag(event, (x) => this.setAsOf(at(x), { tell: false }), (x) => this.setAsOf(at(x)));
  }

  drag(event, move, end) {
    this.dragging = true;
    this.dragged = false;
    const moved = (one) => move(one.clientX);
    const up = (one) => {
      removeEventListener("pointermove", moved);
      removeEventListener("pointerup", up);
      removeEventListener("pointercancel", up);
      this.dragging = false;
      if (one.type === "pointerup") guarded(this.element, () => end(one.clientX));
    };
    addEventListener("pointermove", moved);
    addEventListener("pointerup", up);
    addEventListener("pointercancel", up);
  }

  wheel(panel, event) {
    const focused = this.element.contains(document.activeElement) && document.activeElement !== document.body;
    if (!(event.ctrlKey || event.metaKey || focused)) return;
    const box = panel.ticks.getBoundingClientRect();
    const x = event.clientX - box.left;
    if (x < 0 || !panel.axis) return;
    event.preventDefault();
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.shiftKey) this.pan((event.deltaX || event.deltaY) / box.width);
    else this.zoom(Math.min(Math.max(Math.exp(event.deltaY * 0.0022), 0.4), 2.5), panel.axis.t(x) - panel.shift);
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || this.help.open) return;
    if (event.key === "Escape") return this.escape(event);
    if (event.target.matches("input, select, textarea")) return;
    const move = (by) => {
      if (event.shiftKey) this.read(by);
      else this.pan(by * 8);
    };
    const act = {
      "+": () => this.zoom(0.5), "=": () => this.zoom(0.5), "-": () => this.zoom(2), _: () => this.zoom(2),
      ArrowLeft: () => move(-0.02), ArrowRight: () => move(0.02),
      Home: () => this.setWindow(this.span),
      Backspace: () => this.back(),
      n: () => this.step(1), p: () => this.step(-1),
      a: () => this.setAsOf(this.asOf === null && this.cursor !== null ? this.cursor : null),
      "/": () => this.panels[0].list.search?.focus(),
      g: () => this.panels[0].list.line?.focus(),
      "?": () => this.help.showModal(),
      c: () => this.alone("call", 1), C: () => this.alone("call", -1), t: () => this.alone("thread", 1), T: () => this.alone("thread", -1),
      k: () => this.alone("kind", 1), K: () => this.alone("kind", -1),
    }[event.key] ?? (/^[1-9]$/.test(event.key) && this.panels.some(({ head }) => head.ranks.includes(event.key - 1)) ? () => this.toggle({ rank: event.key - 1 }) : null);
    if (!act) return;
    event.preventDefault();
    event.stopPropagation();
    guarded(this.element, act);
  }

  back() {
    const window_ = this.before.pop();
    if (window_) this.setWindow(window_, { remember: false });
  }

  escape(event) {
    if (event.target.matches("input") && event.target.value) {
      event.target.value = "";
      this.schedule();
    } else if (event.target.matches("input")) this.panels[0].plots.focus();
    else if (this.asOf !== null) this.setAsOf(null);
    else if (Object.keys(this.filter).length) this.setFilter({ rank: undefined, pid: undefined, tid: undefined, call: undefined, kind: undefined });
    else this.setWindow(this.span);
    event.stopPropagation();
  }

  /** Move the reading line by a share of the window, and read the values there out. */
  read(share) {
    const [begin, end] = this.window;
    const t = Math.min(Math.max((this.cursor ?? begin) + share * (end - begin), begin), end);
    this.setCursor(t, null);
    const panel = this.panels[0];
    const words = panel.tracks.map((track) => [track.title, track.at(t + panel.shift)]).filter(([, said]) => said).map(([title, said]) => `${title} ${said}`);
    this.say([place(t, (end - begin) / 100), ...words].join(". "));
  }
}

/** A mistake of ours is shown where it happened, and nothing else breaks. */
function guarded(element, act) {
  try {
    return act();
  } catch (error) {
    const said = make("p", { class: "sk-error", role: "alert" }, `The explorer failed: ${plain(error?.message ?? error)}. The frames and the verdict are not touched by it; reload to try again.`);
    element.querySelector(":scope > .sk-error")?.remove();
    element.append(said);
    console.error(error);
    return undefined;
  }
}

let sheet = null;

function styled(element) {
  const root = element.getRootNode();
  if (!sheet) {
    sheet = new CSSStyleSheet();
    sheet.replaceSync(CSS);
  }
  const owner = root.adoptedStyleSheets ? root : document;
  if (!owner.adoptedStyleSheets.includes(sheet)) owner.adoptedStyleSheets = [...owner.adoptedStyleSheets, sheet];
}

/** Draw packs into an element, and again whenever its width or the theme changes. */
async function mount(element, zipped, host) {
  element.classList.add("sk", "mathjax_ignore");
  element.dataset.lmSuppressShortcuts = "true";
  element.setAttribute("role", "region");
  element.setAttribute("aria-label", "Explorer of a launch");
  try {
    const packs = await Promise.all(zipped.map(openPack));
    styled(element);
    const view = (element.explorer = new View(element, packs, host));
    const redress = () => {
      view.look = view.readLook();
      view.schedule();
    };
    let width = 0;
    const sizes = new ResizeObserver(() => {
      if (element.clientWidth !== width) view.schedule();
      width = element.clientWidth;
    });
    sizes.observe(element);
    const theme = new MutationObserver(redress);
    const attributeFilter = ["data-jp-theme-light", "data-theme", "class"];
    theme.observe(document.body, { attributes: true, attributeFilter });
    theme.observe(document.documentElement, { attributes: true, attributeFilter });
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    scheme.addEventListener("change", redress);
    view.close = () => {
      view.focused = element.contains(document.activeElement);
      sizes.disconnect();
      theme.disconnect();
      scheme.removeEventListener("change", redress);
    };
    return view;
  } catch (error) {
    guarded(element, () => {
      throw error;
    });
    return null;
  }
}

/** In a notebook: the model of the widget holds packs, window and filters (kit/show/explorer/widget.py). */
async function render({ model, el }) {
  const element = make("div");
  el.append(element);
  const host = {
    judges: true,
    changed(what) {
      for (const [name, value] of Object.entries(what)) model.set(name, value);
      clearTimeout(host.saving);
      host.saving = setTimeout(() => {
        host.saving = null;
        model.save_changes();
      }, 60);
    },
  };
  const packs = () => model.get("_packs").map((view) => new Uint8Array(view.buffer, view.byteOffset, view.byteLength));
  let view = null;
  const open = async () => {
    const before = view;
    before?.close();
    view = await mount(element, packs(), host);
    if (!view) return;
    const { window: window_, filter, asOf } = before ?? { window: model.get("window"), filter: model.get("filters"), asOf: model.get("as_of") };
    const later = before && before.window[1] === before.span[1] ? view.span[1] - before.span[1] : 0; // who looks at the end follows it
    if (window_.length && !before?.isWhole) view.setWindow([window_[0] + later, window_[1] + later], { tell: false, remember: false });
    if (before) view.resume(before);
    view.setFilter(filter ?? {}, { tell: false });
    if (asOf !== null && asOf !== undefined) view.setAsOf(asOf, { tell: false });
    view.judged = model.get("_judged");
    view.draw();
    for (const panel of view.panels) panel.story.follow();
    view.tellWindow();
  };
  model.on("change:_packs", open);
  model.on("change:window", () => view?.setWindow(model.get("window").length ? model.get("window") : view.span, { tell: false }));
  model.on("change:filters", () => {
    if (!view || JSON.stringify(model.get("filters")) === JSON.stringify(view.filter)) return;
    view.filter = { ...model.get("filters") };
    view.schedule();
  });
  model.on("change:as_of", () => {
    if (view && model.get("as_of") !== view.asOf) view.setAsOf(model.get("as_of"), { tell: false });
  });
  model.on("change:_judged", () => {
    if (!view) return;
    view.judged = model.get("_judged");
    for (const panel of view.panels) panel.story.follow();
  });
  await open();
  return () => {
    view?.close();
    model.off();
  };
}

/** In a page: each element of the class holds its packs as base64 in data blocks. */
function mountAll(root = document) {
  return Promise.all([...root.querySelectorAll(".stallkit-explorer:not([data-mounted])")].map((element) => {
    element.dataset.mounted = "true";
    const packs = [...element.querySelectorAll('script[type="application/x-stallkit"]')].map((block) => Uint8Array.from(atob(block.textContent.trim()), (one) => one.charCodeAt(0)));
    const stage = make("div");
    element.append(stage); // the style sheet hides the still picture on a screen, and this one in print
    return mount(stage, packs, { judges: false, changed() {} });
  }));
}

export { mount, mountAll, openPack };
export default { render };
