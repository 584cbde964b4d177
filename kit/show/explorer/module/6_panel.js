// One run: its verdict, its tracks on the shared axis, its log, and what is said of it.

let panels = 0;

const LINES = { memory: "Memory (RSS)", cpu: "CPU", reads: "Reads", gpu: "GPU", gpu_memory: "GPU memory" };
const NAMES = { phases: "Phases", log: "Log records", threads: "Threads", calls: "System calls", sockets: "Sockets", ...LINES };

class Panel {
  constructor(view, pack, number) {
    Object.assign(this, { view, number, head: pack.head, array: pack.array, id: `sk-${++panels}`, shift: 0, tracks: [] });
    this.log = this.readLog();
    this.bands = this.head.tracks.phases.bands ?? [];
    this.list = new LogList(this);
    this.build();
  }

  get look() {
    return this.view.look;
  }

  get window() {
    return [this.view.window[0] + this.shift, this.view.window[1] + this.shift];
  }

  get asOf() {
    return this.view.asOf === null ? Infinity : this.view.asOf + this.shift;
  }

  /** The filter as far as it is about this run: a pid or thread is one of the run it was clicked in. */
  get filter() {
    const { pid, tid, of, ...rest } = this.view.filter;
    return of === undefined || of === this.number ? this.view.filter : rest;
  }

  /** What a click in a track may filter by, in the order in which it is drawn: threads, calls or kinds of records. */
  choices(name) {
    const track = (wanted) => this.tracks.find((one) => one.name === wanted);
    if (name === "call") return (track("calls")?.data.names ?? []).map((call) => ({ call }));
    if (name === "kind") return (track("log")?.lanes ?? []).map((kind) => ({ kind: this.log.kinds[kind] }));
    const { tid = [], pid = [] } = track("threads") ?? {};
    const { rank } = this.filter;
    return Array.from(tid, (one, row) => ({ pid: pid[row], tid: one, of: this.number })).filter((one) => rank === undefined || this.head.pids[one.pid] === rank);
  }

  isFiltered(...names) {
    const own = { ...this.filter, search: this.list.search?.value || undefined, level: this.list.level?.value || undefined };
    return names.some((name) => own[name] !== undefined);
  }

  readLog() {
    const log = this.head.tracks.log;
    if (log.missing) return null;
    const read = (name) => this.array(log[name]);
    const found = { ...log, t: read("t"), line: read("line"), kind: read("kind"), level: read("level"), file: read("file"), rank: read("rank"), weight: read("weight"), text: read("text") };
    found.dated = Uint8Array.from(found.t, (t) => (t > -1e8 ? 1 : 0));
    if (log.more) found.more = { t: this.array(log.more[0]), group: this.array(log.more[1]), n: this.array(log.more[2]) };
    return found;
  }

  /** Whether a record passes the filters, search and the as-of cursor; the window aside. */
  logRow(i) {
    const { log, filter } = this;
    const { pids } = this.head;
    if (filter.kind !== undefined && log.kinds[log.kind[i]] !== filter.kind) return false;
    const rank = filter.rank ?? (filter.pid === undefined ? undefined : pids[filter.pid]);
    if (rank !== undefined && log.rank[i] !== rank && log.rank[i] >= 0) return false;
    if (rank !== undefined && log.rank[i] < 0 && this.hasRanks) return false;
    if (log.dated[i] && log.t[i] > this.asOf) return false;
    if (this.list.level.value && log.levels[log.level[i]] !== this.list.level.value) return false;
    const found = this.list.matches();
    return !found || found[i] === 1;
  }

  get hasRanks() {
    return (this.hasRanksKept ??= this.log.rank.some((rank) => rank >= 0));
  }

  shows(pid) {
    const { rank, pid: only } = this.filter;
    if (only !== undefined) return pid === only;
    return rank === undefined || this.head.pids[pid] === rank || !this.head.ranks.includes(rank);
  }

  showsThread(tid) {
    const { tid: only, rank, pid } = this.filter;
    if (only !== undefined) return tid === only;
    if (rank === undefined && pid === undefined) return true;
    return this.shows(this.ownerOf(tid));
  }

  ownerOf(tid) {
    if (!this.owners) {
      this.owners = new Map();
      const table = this.head.tracks.threads;
      if (!table.missing) {
        const pids = this.array(table.pid);
        this.array(table.tid).forEach((one, row) => this.owners.set(one, pids[row]));
      }
    }
    return this.owners.get(tid) ?? tid;
  }

  /** The last record before a second; with `listed` one of the list, with `passing` one that passes the filters. */
  lastRecord(t, kind, listed = false, passing = false) {
    const { log } = this;
    if (!log) return -1;
    let best = -1;
    const consider = (i) => {
      if (passing && !this.logRow(i)) return;
      if (log.dated[i] && log.t[i] <= t + 2e-6 && (kind === undefined || log.kinds[log.kind[i]] === kind) && (best < 0 || log.t[i] >= log.t[best])) best = i;
    };
    if (listed) this.list.rows.forEach(consider);
    else for (let i = 0; i < log.t.length; i++) consider(i);
    return best;
  }

  /** Put the reading line on a second, within the window, and the log beside it. */
  goToTime(t) {
    this.view.bring(t - this.shift);
    this.view.draw();
    this.view.setCursor(t - this.shift, null);
    this.list.showTime(t);
  }

  build() {
    const { head } = this;
    this.answer = make("p", { class: "sk-answer" });
    this.asked = make("p", { class: "sk-asof", hidden: true });
    this.overview = make("canvas", { role: "img", "aria-label": `The whole run, ${seconds(head.span[1] - head.span[0])}: drag to choose a window` });
    this.grip = make("div", { class: "sk-grip" });
    this.over = make("div", { class: "sk-row-plot sk-overview" }, this.overview, this.grip);
    this.ticks = make("canvas", { role: "img", "aria-label": "Time axis" });
    this.rowsBox = make("div", { class: "sk-tracks" });
    this.cursor = make("div", { class: "sk-cursor", hidden: true });
    this.brush = make("div", { class: "sk-brush", hidden: true });
    this.veil = make("div", { class: "sk-veil", hidden: true });
    this.handle = make("button", { class: "sk-handle", role: "slider", title: "As of: drag to see what could be known earlier", "aria-label": "As of", "aria-valuemin": head.span[0], "aria-valuemax": head.span[1] });
    this.layer = make("div", { class: "sk-layer" }, this.veil, this.brush, this.cursor, this.handle);
    this.note = make("div", { class: "sk-axisnote" });
    this.plots = make("div", { class: "sk-plots", tabindex: 0, role: "application", "aria-roledescription": "timeline", "aria-label": `Timeline of ${plain(head.name) || "the run"}. Plus and minus zoom, arrows move, n and p go to the next and the previous event, question mark lists all keys.` },
      line("Whole run", this.over), line("", make("div", { class: "sk-row-plot" }, this.ticks), this.note), this.rowsBox, this.layer);
    for (const [name, data] of Object.entries(head.tracks)) this.addTrack(name, data);
    this.story = new Story(this);
    this.chips = make("div", { class: "sk-chips", role: "group", "aria-label": "Processes" }, ...this.processChips());
    const { packs } = this.view; // a letter beside a name would be that of a comparison, which puts the launch that worked first
    const alike = packs.some((other, n) => n !== this.number && other.head.name === head.name);
    const title = packs.length > 1 ? make("p", { class: "sk-name" }, `${plain(head.name)}${alike ? ` (${this.number + 1})` : ""}`) : null;
    this.element = make("div", { class: "sk-panel" }, title, this.answer, this.asked, this.chips, this.plots, make("div", { class: `sk-below${head.verdict ? "" : " sk-alone"}` }, this.list.element, this.story.element));
    this.view.listen(this);
  }

  addTrack(name, data) {
    if (data.missing || data.note) {
      const words = data.missing ?? data.note;
      this.rowsBox.append(make("div", { class: "sk-line sk-line-note" }, make("div", { class: "sk-label" }, make("b", {}, NAMES[name])), make("p", { class: "sk-missing" }, ...sentence(words.replace(/^[A-Z][A-Za-z ]*: /, "")))));
      return;
    }
    const kinds = { phases: PhaseTrack, log: LogTrack, threads: ThreadTrack, calls: CallTrack, sockets: SocketTrack };
    const track = kinds[name] ? new kinds[name](this, name, data) : new LineTrack(this, name, data, LINES[name]);
    if (name === "phases") track.height = Math.min(Math.max(track.rows.length * 15, 18), 170);
    const legend = name === "threads" ? this.legend(track) : null;
    track.canvas = make("canvas", { role: "img", "aria-label": NAMES[name] });
    track.reading = make("span", { class: "sk-value" });
    track.about = make("span", { class: "sk-about" });
    const zoom = () => {
      const [begin, end] = track.extent ?? this.window;
      const room = Math.max((end - begin) * 0.04, 0.01);
      this.view.setWindow([begin - room - this.shift, end + room - this.shift]);
    };
    const title = track.extent ? make("button", { class: "sk-title", title: "Show the time that it has data of", onclick: zoom }, NAMES[name]) : make("b", {}, NAMES[name]);
    const parts = [title, track.reading, track.about];
    if (name === "threads" && track.busy) {
      const toggle = make("button", { class: "sk-mini", title: "Colour the threads by state, or by CPU used", onclick: () => {
        track.mode = track.mode === "state" ? "busy" : "state";
        toggle.textContent = track.mode === "state" ? "show CPU" : "show states";
        legend.hidden = track.mode !== "state";
        this.view.draw();
      } }, "show CPU");
      parts.push(toggle);
    }
    track.about.textContent = aboutTrack(name, track, data);
    track.plot = make("div", { class: "sk-row-plot", "data-track": name }, track.canvas);
    track.element = line(null, track.plot, ...parts);
    if (legend) track.plot.after(legend);
    this.rowsBox.append(track.element);
    this.tracks.push(track);
  }

  legend(track) {
    return make("div", { class: "sk-legend" }, ...track.data.states.map((letter) => {
      const swatch = make("i", {});
      swatch.dataset.state = letter;
      return make("span", {}, swatch, `${letter} ${this.head.state_names[letter]}`);
    }));
  }

  processChips() {
    const { processes } = this.head;
    const most = 24;
    const chips = processes.slice(0, most).map(({ pid, name, rank, colour }) => {
      const chip = make("button", { class: "sk-chip", "aria-pressed": "false", onclick: () => this.view.toggle(rank === null ? { pid, of: this.number } : { rank }) }, make("i", {}), plain(name));
      Object.assign(chip, { pid, rank, colour });
      return chip;
    });
    if (processes.length > most) chips.push(make("span", { class: "sk-about" }, `${most} of ${processes.length}`));
    return chips;
  }

  dress() {
    const { series } = this.head.palette;
    for (const chip of this.chips.querySelectorAll("button")) {
      chip.firstChild.style.background = tint(chip.colour < 0 ? "#999999" : series[chip.colour % series.length], this.look.dark);
      const { rank, pid } = this.filter;
      chip.setAttribute("aria-pressed", (rank !== undefined && chip.rank === rank) || (pid !== undefined && chip.pid === pid));
    }
    for (const swatch of this.plots.querySelectorAll("i[data-state]")) swatch.style.background = tint(this.head.palette.state[swatch.dataset.state], this.look.dark);
  }

  draw() {
    const width = this.ticks.parentElement.clientWidth;
    if (width <= 0) return;
    const whole = this.view.isWhole;
    this.axis = new Axis(this.window, width, whole && this.view.packs.length === 1 ? this.head.knee : null, this.shift);
    this.wholeAxis = new Axis([this.view.span[0] + this.shift, this.view.span[1] + this.shift], width, this.view.packs.length === 1 ? this.head.knee : null);
    this.drawTicks(width);
    for (const track of this.tracks) track.paint(track.canvas);
    this.drawOverview(width);
    this.drawLayer();
    this.dress();
    this.list.refresh();
  }

  drawTicks(width) {
    const ctx = surface(this.ticks, width, 34);
    ctx.font = FONT;
    ctx.textBaseline = "middle";
    let free = -Infinity;
    for (const { t, step } of this.axis.ticks()) {
      const x = this.axis.x(t);
      ctx.fillStyle = this.look.line;
      ctx.fillRect(Math.round(x), 28, 1, 6);
      const label = place(t - this.shift, step);
      const half = Math.max(ctx.measureText(label).width, ctx.measureText(clock(this.head, t, step)).width) / 2;
      const at = Math.min(Math.max(x, half), width - half - 9); // the handle stands at the right end
      if (at - half < free) continue;
      free = at + half + 8;
      ctx.textAlign = "center";
      ctx.fillStyle = this.look.ink;
      ctx.fillText(label, at, 8);
      ctx.fillStyle = this.look.dim;
      ctx.fillText(clock(this.head, t, step), at, 21);
    }
    this.note.textContent = this.axis.knee === null ? "" : "silence compressed";
  }

  /** Whether a phase that is still open is one that the launch has to leave. */
  stalls(phase) {
    return !["ready", "serving", "train_step"].includes(phase) && this.head.verdict?.state !== "ready";
  }

  /** What lies behind every track: ticks, silence, gaps in the samples, last progress. */
  background(ctx, height) {
    const { axis, head, look } = this;
    const band = (begin, end, colour) => {
      const x = Math.max(axis.x(begin), 0);
      const to = Math.min(axis.x(end), axis.width);
      if (to <= x) return;
      ctx.fillStyle = colour;
      ctx.fillRect(x, 0, to - x, height);
    };
    const state = head.verdict?.state;
    if (head.knee !== null && state !== "ready" && head.span[1] - head.knee > 10) band(head.knee, head.span[1], look.stall);
    for (const [begin, end] of head.gaps) band(begin, end, look.gap);
    ctx.fillStyle = look.grid;
    for (const { t } of axis.ticks()) ctx.fillRect(Math.round(axis.x(t)), 0, 1, height);
    if (head.knee !== null) {
      ctx.strokeStyle = look.warn;
      ctx.setLineDash([4, 3]);
      ctx.lineWidth = 1;
      ctx.beginPath();
      ctx.moveTo(axis.x(head.knee), 0);
      ctx.lineTo(axis.x(head.knee), height);
      ctx.stroke();
      ctx.setLineDash([]);
    }
  }

  drawOverview(width) {
    const high = 40;
    const ctx = surface(this.overview, width, high);
    const axis = this.wholeAxis;
    const { head } = this;
    const rank = this.bands[0]?.[0];
    for (const [own, phase, begin, end] of this.bands) {
      if (own !== rank) continue;
      ctx.fillStyle = tint(head.palette.phase[phase] ?? "#999999", this.look.dark);
      ctx.fillRect(axis.x(begin), high - 7, Math.max(axis.x(end) - axis.x(begin), 1), 6);
    }
    if (this.log) {
      const bins = new Float64Array(Math.ceil(width / 2));
      const add = (t, n) => {
        const bin = Math.floor(axis.x(t) / 2);
        if (bin >= 0 && bin < bins.length) bins[bin] += n;
      };
      for (let i = 0; i < this.log.t.length; i++) if (this.log.dated[i]) add(this.log.t[i], this.log.weight[i]);
      if (this.log.more) this.log.more.t.forEach((t, i) => add(t, this.log.more.n[i]));
      const most = bins.reduce((high_, n) => Math.max(high_, n), 1);
      ctx.fillStyle = this.look.dim;
      bins.forEach((n, bin) => {
        if (n) ctx.fillRect(bin * 2, high - 9 - (4 + (24 * Math.log1p(n)) / Math.log1p(most)), 1.5, 4 + (24 * Math.log1p(n)) / Math.log1p(most));
      });
    }
    ctx.fillStyle = this.look.warn;
    for (const event of head.events) {
      if (event.kind === "silence" || event.kind === "last progress") ctx.fillRect(axis.x(event.t), 0, 1, 5);
    }
    const [begin, end] = this.window;
    this.grip.style.left = `${axis.x(begin)}px`;
    this.grip.style.width = `${Math.max(axis.x(end) - axis.x(begin), 3)}px`;
    this.over.classList.toggle("sk-part", !this.view.isWhole);
  }

  /** Lines and veils above the tracks; cheap, so that they follow the pointer. */
  drawLayer() {
    const { axis, view } = this;
    if (!axis) return;
    const left = this.ticks.parentElement.offsetLeft;
    this.layer.style.left = `${left}px`;
    this.layer.style.width = `${axis.width}px`;
    const place_ = (element, t) => {
      const x = axis.x(t + this.shift);
      element.hidden = x < -1 || x > axis.width + 1;
      element.style.left = `${x}px`;
    };
    if (view.cursor === null) this.cursor.hidden = true;
    else place_(this.cursor, view.cursor);
    const end = view.asOf === null ? this.head.span[1] : this.asOf;
    const x = Math.min(Math.max(axis.x(end), 0), axis.width);
    this.veil.hidden = view.asOf === null;
    this.veil.style.left = `${x}px`;
    this.handle.style.left = `${x}px`;
    this.handle.style.top = `${this.ticks.parentElement.offsetTop + 20}px`;
    this.veil.style.top = `${this.rowsBox.offsetTop}px`;
    this.handle.setAttribute("aria-valuenow", end);
    this.handle.setAttribute("aria-valuetext", view.asOf === null ? "all of the evidence" : `${place(view.asOf)} ${clock(this.head, end)}`);
    this.handle.classList.toggle("sk-set", view.asOf !== null);
    const t = view.cursor === null ? null : view.cursor + this.shift;
    for (const track of this.tracks) track.reading.textContent = t === null ? "" : track.at(t);
  }
}

function aboutTrack(name, track, data) {
  if (name === "threads") return `${count(track.rows)} threads${data.of ? `, ${count(data.of[0])} of ${count(data.of[1])} moments` : ""}`;
  if (name === "calls") return data.of[0] < data.of[1] ? `${count(data.of[0])} of ${count(data.of[1])} listed` : plural(data.of[1], "call");
  if (name === "sockets") return data.of && data.of[0] < data.of[1] ? `${data.of[0]} of ${data.of[1]} lanes` : "";
  if (data.lines?.some((one) => one.of)) return "thinned: lowest and highest kept";
  return data.said ?? "";
}

function line(name, plot, ...label) {
  return make("div", { class: "sk-line" }, make("div", { class: "sk-label" }, name === null ? null : make("b", {}, name), ...label), plot);
}

function surface(canvas, width, height) {
  const ratio = globalThis.devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.height = `${height}px`;
  const ctx = canvas.getContext("2d");
  ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
  return ctx;
}
