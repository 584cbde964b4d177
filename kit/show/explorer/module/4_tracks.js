// Tracks: each draws the part of one source that lies in the window, tells what is under the pointer, and what a click there filters.

const FONT = "11px system-ui, sans-serif";

class Track {
  constructor(panel, name, data) {
    Object.assign(this, { panel, name, data, height: 60 });
  }

  get axis() {
    return this.panel.axis;
  }

  colour(colour) {
    return tint(colour, this.panel.look.dark);
  }

  /** Write small text that stays legible on top of what is drawn. */
  write(text, x, y, align = "left") {
    const { ctx } = this;
    ctx.save();
    ctx.textAlign = align;
    ctx.lineWidth = 3;
    ctx.strokeStyle = this.panel.look.paper;
    ctx.strokeText(text, x, y);
    ctx.fillStyle = this.panel.look.dim;
    ctx.fillText(text, x, y);
    ctx.restore();
  }

  paint(canvas) {
    const width = this.axis.width;
    const ratio = globalThis.devicePixelRatio || 1;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(this.height * ratio);
    canvas.style.height = `${this.height}px`;
    const ctx = (this.ctx = canvas.getContext("2d"));
    ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    ctx.font = FONT;
    ctx.textBaseline = "middle";
    this.panel.background(ctx, this.height);
    this.draw(ctx, width);
  }

  /** First and last second that it has anything of. */
  get extent() {
    return this.t?.length ? [this.t[0], this.t[this.t.length - 1]] : null;
  }

  /** Words on what stands at a second: the label shows them while the pointer moves. */
  at() {
    return "";
  }

  /** Lines of words on what is under the pointer. */
  under() {
    return [];
  }

  /** The filter that a click means. */
  pick() {
    return null;
  }
}

class PhaseTrack extends Track {
  constructor(...given) {
    super(...given);
    this.rows = [...new Set(this.data.bands.map(([rank]) => rank))].sort((a, b) => (a ?? -1) - (b ?? -1));
    this.title = "Phases";
  }

  get shownRows() {
    const { rank } = this.panel.filter;
    const own = this.rows.filter((row) => row === rank || row === null);
    return rank !== undefined && own.length ? own : this.rows;
  }

  draw(ctx) {
    const rows = this.shownRows;
    const step = this.height / rows.length;
    for (const [rank, phase, begin, end, open] of this.data.bands) {
      const row = rows.indexOf(rank);
      if (row < 0 || end < this.axis.begin || begin > this.axis.end) continue;
      const x = Math.max(this.axis.x(begin), -5);
      const width = Math.max(Math.min(this.axis.x(end), this.axis.width + 5) - x, 1);
      const gap = step > 5 ? 1 : 0;
      ctx.fillStyle = this.colour(this.panel.head.palette.phase[phase] ?? "#999999");
      ctx.fillRect(x, row * step, width, step - gap);
      if (open && this.panel.stalls(phase)) this.hatch(ctx, x, row * step, width, step - gap);
      if (step >= 12 && width > ctx.measureText(phase).width + 12) {
        ctx.fillStyle = "#15191e";
        ctx.fillText(phase.replaceAll("_", " "), Math.max(x, 0) + 5, row * step + (step - gap) / 2 + 0.5);
      }
    }
    if (step < 12 || rows.length < 2) return;
    ctx.textAlign = "right";
    for (const [number, rank] of rows.entries()) {
      const covered = this.data.bands.some(([own, , begin, end]) => own === rank && begin < this.axis.t(this.axis.width - 8) && end >= this.axis.end - 1e-9);
      ctx.fillStyle = covered ? "#15191e" : this.panel.look.dim;
      ctx.fillText(String(rank ?? "all"), this.axis.width - 5, (number + 0.5) * step);
    }
    ctx.textAlign = "left";
  }

  hatch(ctx, x, y, width, height) {
    ctx.save();
    ctx.beginPath();
    ctx.rect(x, y, width, height);
    ctx.clip();
    ctx.strokeStyle = "rgba(255,255,255,.45)";
    ctx.lineWidth = 1.5;
    ctx.beginPath();
    for (let at = x - (x % 9) - height; at < x + width; at += 9) {
      ctx.moveTo(at, y + height);
      ctx.lineTo(at + height, y);
    }
    ctx.stroke();
    ctx.restore();
  }

  rowAt(y) {
    return this.shownRows[Math.min(Math.max(Math.floor((y / this.height) * this.shownRows.length), 0), this.shownRows.length - 1)];
  }

  at(t) {
    const now = new Map();
    for (const [, phase] of this.data.bands.filter(([, , begin, end]) => begin <= t && t < end)) now.set(phase, (now.get(phase) ?? 0) + 1);
    return [...now].map(([phase, n]) => (this.rows.length > 1 ? `${phase} ${n}×` : phase)).join(", ");
  }

  under(t, y) {
    const rank = this.rowAt(y);
    const bands = this.data.bands.filter(([own, , begin, end]) => own === rank && begin <= t && t <= end);
    return bands.map(([, phase, begin, end, open]) =>
      `${rank === null ? "" : `rank ${rank}: `}${phase} from ${place(begin)}, ${open ? "still in it after" : "took"} ${seconds(end - begin)}`);
  }

  pick(t, y) {
    const rank = this.rowAt(y);
    return rank === null ? null : { rank };
  }
}

class LogTrack extends Track {
  constructor(...given) {
    super(...given);
    const log = this.panel.log;
    this.title = "Log records";
    const seen = new Set(log.kind);
    for (const group of log.more?.group ?? []) seen.add(group);
    this.lanes = log.kinds.map((kind, number) => number).filter((number) => seen.has(number));
    this.height = Math.max(this.lanes.length * 15, 30);
  }

  draw(ctx, width) {
    const { log } = this.panel;
    const bins = Math.ceil(width / 3);
    const counts = log.kinds.map(() => new Float64Array(bins));
    const add = (t, kind, n) => {
      if (t < this.axis.begin || t > this.axis.end) return;
      counts[kind][Math.min(Math.floor(this.axis.x(t) / 3), bins - 1)] += n;
    };
    for (let i = 0; i < log.t.length; i++) if (this.panel.logRow(i)) add(log.t[i], log.kind[i], log.weight[i]);
    if (log.more && !this.panel.isFiltered("rank", "pid", "tid", "search", "level")) {
      for (let i = 0; i < log.more.t.length; i++) {
        if (this.panel.filter.kind === undefined || this.panel.filter.kind === log.kinds[log.more.group[i]]) add(log.more.t[i], log.more.group[i], log.more.n[i]);
      }
    }
    this.most = Math.max(1, ...counts.map((one) => one.reduce((most, n) => Math.max(most, n), 0)));
    const step = this.height / this.lanes.length;
    this.lanes.forEach((kind, lane) => {
      ctx.fillStyle = this.colour(this.panel.head.palette.kind[log.kinds[kind]]);
      counts[kind].forEach((n, bin) => {
        if (!n) return;
        const high = (0.3 + (0.6 * Math.log1p(n)) / Math.log1p(this.most)) * (step - 1);
        ctx.fillRect(bin * 3, (lane + 1) * step - high - 0.5, 2.4, high);
      });
      this.write(log.kinds[kind], 4, (lane + 0.5) * step);
    });
  }

  kindAt(y) {
    return this.panel.log.kinds[this.lanes[Math.min(Math.floor((y / this.height) * this.lanes.length), this.lanes.length - 1)]];
  }

  at(t) {
    const { log } = this.panel;
    const row = this.panel.lastRecord(t);
    return row < 0 ? "" : `last ${seconds(t - log.t[row])} ago`;
  }

  under(t, y) {
    const row = this.panel.lastRecord(t, this.kindAt(y));
    if (row < 0) return [`no ${this.kindAt(y)} record before`];
    const { log } = this.panel;
    return [`last ${this.kindAt(y)} record, ${seconds(t - log.t[row])} before:`, oneLine(log.text[row]).slice(0, 160)];
  }

  pick(t, y) {
    return { kind: this.kindAt(y) };
  }
}

class LineTrack extends Track {
  constructor(panel, name, data, title) {
    super(panel, name, data);
    this.title = title;
    this.height = 64;
    this.unit = UNITS[data.unit];
    this.lines = data.lines.map((line) => {
      const t = panel.array(line.t);
      const v = panel.array(line.v);
      const gaps = Float64Array.from(t.slice(1, 2000), (one, n) => one - t[n]).sort();
      return { ...line, t, v, levels: minMaxPyramid(v), usual: gaps[gaps.length >> 1] || 1 };
    });
  }

  get extent() {
    return [Math.min(...this.lines.map(({ t }) => t[0])), Math.max(...this.lines.map(({ t }) => t.at(-1)))];
  }

  get shownLines() {
    return this.lines.filter((line) => line.gpu !== undefined || this.panel.shows(line.pid));
  }

  draw(ctx, width) {
    const lines = this.shownLines;
    let most = 0;
    const parts = lines.map((line) => {
      const from = Math.max(bisect(line.t, this.axis.begin) - 1, 0);
      const to = Math.min(bisect(line.t, this.axis.end) + 1, line.t.length);
      const level = levelFor(line.levels, to - from, width);
      const first = Math.floor(from / level.step);
      const last = Math.ceil(to / level.step);
      for (let i = first; i < last; i++) most = Math.max(most, level.high[i]);
      return { line, level, first, last };
    });
    this.most = most = this.data.unit === "%" ? 100 : most * 1.12 || 1;
    const ticks = this.grid(ctx, width);
    for (const part of parts.sort((a, b) => (a.line.pid === this.data.odd) - (b.line.pid === this.data.odd))) this.trace(ctx, part);
    for (const [value, y] of ticks) this.write(this.unit(value), 4, Math.max(y, 7));
  }

  lineColour(line) {
    const { series } = this.panel.head.palette;
    return this.colour(line.colour < 0 ? "#999999" : series[line.colour % series.length]);
  }

  y(value) {
    return this.height - 3 - (value / this.most) * (this.height - 8);
  }

  /** Draw the lines of round values; returns each with its height. */
  grid(ctx, width) {
    ctx.strokeStyle = this.panel.look.grid;
    ctx.lineWidth = 1;
    const values = rounds(this.data.unit === "%" ? 100 : this.most, this.data.unit.startsWith("bytes"));
    const ticks = values.map((value) => [value, Math.round(this.y(value)) + 0.5]);
    for (const [, y] of ticks) {
      ctx.beginPath();
      ctx.moveTo(0, y);
      ctx.lineTo(width, y);
      ctx.stroke();
    }
    return ticks;
  }

  trace(ctx, { line, level, first, last }) {
    ctx.strokeStyle = this.lineColour(line);
    ctx.lineWidth = line.pid === this.data.odd ? 2.2 : 1.4;
    ctx.beginPath();
    let before = null;
    for (let i = first; i < last; i++) {
      if ((i - first) % 48 === 47 && before) {
        ctx.stroke(); // a browser draws many short paths far faster than one that crosses itself often
        ctx.beginPath();
        ctx.moveTo(before.x, before.y);
      }
      const at = i * level.step;
      const t = line.t[at];
      const x = this.axis.x(t);
      const low = this.y(level.low[i]);
      const high = this.y(level.high[i]);
      const broken = before === null || t - before.t > Math.max(6 * line.usual * level.step, 3);
      if (broken) {
        if (before?.alone) ctx.rect(before.x - 1, before.y - 1, 2, 2);
        ctx.moveTo(x, low);
      } else {
        if (this.data.step) ctx.lineTo(x, before.y);
        ctx.lineTo(x, low);
      }
      if (high !== low) ctx.lineTo(x, high);
      before = { t: line.t[Math.min(at + level.step - 1, line.t.length - 1)], x, y: high, alone: broken };
    }
    if (before?.alone) ctx.rect(before.x - 1, before.y - 1, 2, 2);
    ctx.stroke();
  }

  value(line, t) {
    const at = bisect(line.t, t + 1e-9) - 1;
    if (at < 0 || t - line.t[at] > Math.max(6 * line.usual, 3)) return null;
    return line.v[at];
  }

  at(t) {
    const found = this.shownLines.map((line) => this.value(line, t)).filter((value) => value !== null);
    if (!found.length) return "";
    const low = this.unit(Math.min(...found));
    const high = this.unit(Math.max(...found));
    return low === high ? low : `${low} – ${high}`;
  }

  under(t, y) {
    const found = this.shownLines.map((line) => ({ line, value: this.value(line, t) })).filter(({ value }) => value !== null);
    found.sort((a, b) => Math.abs(this.y(a.value) - y) - Math.abs(this.y(b.value) - y));
    const words = found.slice(0, 9).map(({ line, value }) => ({ text: `${plain(line.label)}: ${this.unit(value)}`, colour: this.lineColour(line) }));
    return found.length > 9 ? [...words, `… 9 of ${found.length}`] : words;
  }

  pick(t, y) {
    let best = null;
    for (const line of this.shownLines) {
      const value = this.value(line, t);
      if (value === null) continue;
      const off = Math.abs(this.y(value) - y);
      if (off < 14 && (!best || off < best.off)) best = { off, line };
    }
    if (!best || best.line.gpu !== undefined) return null;
    return best.line.rank === null ? { pid: best.line.pid } : { rank: best.line.rank };
  }
}

/** Two round values to mark, half and whole, below the largest. */
function rounds(most, binary) {
  const base = binary ? 2 ** Math.floor(Math.log2(most)) : 10 ** Math.floor(Math.log10(most));
  const top = binary ? base : [5, 2, 1].map((factor) => factor * base).find((value) => value <= most);
  return [top / 2, top];
}

class ThreadTrack extends Track {
  constructor(...given) {
    super(...given);
    const { data, panel } = this;
    this.title = "Threads";
    for (const name of ["t", "codes", "pid", "tid", "comm", "place"]) this[name] = panel.array(data[name]);
    this.columns = this.t.length;
    this.rows = this.tid.length;
    this.mode = "state";
    this.tables = { state: codePyramid(this.codes, this.rows, this.columns) };
    if (data.busy !== undefined) this.busy = panel.array(data.busy);
    const gaps = Float64Array.from(this.t.slice(1), (one, n) => one - this.t[n]).sort();
    this.usual = gaps[gaps.length >> 1] || 1;
    this.height = Math.min(Math.max(this.rows * 3, 60), 190);
    this.folded = new Map();
  }

  get levels() {
    if (this.mode === "busy" && !this.tables.busy) this.tables.busy = codePyramid(this.busy, this.rows, this.columns);
    return this.tables[this.mode];
  }

  /** Rows of pixels, each with the threads it stands for: processes in turn, a blank row between two. */
  get bands() {
    const { filter } = this.panel;
    const key = JSON.stringify([filter.rank, filter.pid, filter.tid]);
    if (this.bandsKey === key) return this.bandsKept;
    const groups = [];
    for (let row = 0; row < this.rows; row++) {
      if (!this.panel.shows(this.pid[row]) || (filter.tid !== undefined && this.tid[row] !== filter.tid)) continue;
      if (groups.at(-1)?.pid !== this.pid[row]) groups.push({ pid: this.pid[row], rows: [] });
      groups.at(-1).rows.push(row);
    }
    const total = groups.reduce((sum, group) => sum + group.rows.length, 0) || 1;
    const room = this.height - Math.max(groups.length - 1, 0) * 2;
    let y = 0;
    const pixels = [];
    for (const group of groups) {
      const high = Math.max(Math.round((room * group.rows.length) / total), 1);
      group.y = y;
      group.high = high;
      const lines = Math.min(high, group.rows.length);
      for (let line = 0; line < lines; line++) {
        const rows = group.rows.slice(Math.floor((line * group.rows.length) / lines), Math.floor(((line + 1) * group.rows.length) / lines));
        pixels.push({ y: y + (line * high) / lines, high: high / lines, rows });
      }
      y += high + 2;
    }
    this.folded.clear();
    this.bandsKey = key;
    return (this.bandsKept = { groups, pixels });
  }

  /** A level with one row for each row of pixels: the highest code of its threads. */
  rowsOf(level) {
    const key = `${this.mode} ${level.step}`;
    const { pixels } = this.bands;
    if (!this.folded.has(key)) {
      const table = new Uint8Array(pixels.length * level.columns);
      pixels.forEach(({ rows }, line) => {
        const to = line * level.columns;
        for (const row of rows) {
          const from = row * level.columns;
          for (let i = 0; i < level.columns; i++) if (level.codes[from + i] > table[to + i]) table[to + i] = level.codes[from + i];
        }
      });
      this.folded.set(key, table);
    }
    return this.folded.get(key);
  }

  colours() {
    if (this.mode === "busy") return (code) => `rgba(${this.panel.look.dark ? "255,150,80" : "213,94,0"},${code ? 0.18 + 0.82 * Math.sqrt(Math.min(code, 200) / 200) : 0})`;
    const words = this.data.states.map((letter) => this.colour(this.panel.head.palette.state[letter]));
    return (code) => (code ? words[code - 1] : null);
  }

  draw(ctx) {
    const { groups, pixels } = this.bands;
    const from = Math.max(bisect(this.t, this.axis.begin) - 1, 0);
    const to = Math.min(bisect(this.t, this.axis.end) + 1, this.columns);
    const level = levelFor(this.levels, to - from, this.axis.width);
    const table = this.rowsOf(level);
    const colour = this.colours();
    const edges = [];
    for (let i = Math.floor(from / level.step); i < Math.ceil(to / level.step); i++) {
      const begin = this.t[i * level.step];
      const next = this.t[Math.min((i + 1) * level.step, this.columns - 1)];
      const end = next > begin ? Math.min(next, this.t[Math.min((i + 1) * level.step, this.columns) - 1] + 3 * this.usual) : begin + this.usual;
      edges.push({ i, x: this.axis.x(begin), to: Math.max(this.axis.x(end), this.axis.x(begin) + 0.75) });
    }
    pixels.forEach(({ y, high }, line) => {
      const base = line * level.columns;
      let run = null;
      const flush = () => {
        const paint = run && colour(run.code);
        if (!paint) return;
        ctx.fillStyle = paint;
        ctx.fillRect(run.x, y, run.to - run.x, high);
      };
      for (const edge of edges) {
        const code = table[base + edge.i];
        if (run && run.code === code && edge.x - run.to < 1) run.to = edge.to;
        else {
          flush();
          run = { code, x: edge.x, to: edge.to };
        }
      }
      flush();
    });
    for (const { pid, y, high } of groups) {
      if (high >= 11) this.write(plain(this.data.processes[pid]?.name ?? `pid ${pid}`), 4, Math.max(y + Math.min(high / 2, 12), 7));
    }
  }

  threadAt(t, y) {
    const { pixels } = this.bands;
    const line = pixels.find((one) => y >= one.y && y < one.y + one.high);
    const column = bisect(this.t, t + 1e-9) - 1;
    if (!line || column < 0 || t - this.t[column] > 3 * this.usual) return null;
    let best = line.rows[0];
    for (const row of line.rows) if (this.codes[row * this.columns + column] > this.codes[best * this.columns + column]) best = row;
    return { row: best, column, others: line.rows.length - 1 };
  }

  at(t) {
    const column = bisect(this.t, t + 1e-9) - 1;
    if (column < 0 || t - this.t[column] > 3 * this.usual) return "";
    const counts = new Float64Array(this.data.states.length + 1);
    for (const { rows } of this.bands.pixels) for (const row of rows) counts[this.codes[row * this.columns + column]]++;
    return this.data.states.map((letter, n) => [letter, counts[n + 1]]).filter(([, n]) => n).reverse().map(([letter, n]) => `${letter} ${n}`).join(" · ");
  }

  under(t, y) {
    const found = this.threadAt(t, y);
    if (!found) return [];
    const { row, column, others } = found;
    const code = this.codes[row * this.columns + column];
    const letter = this.data.states[code - 1];
    const words = [
      `${plain(this.data.processes[this.pid[row]]?.name ?? this.pid[row])} · thread ${this.tid[row]} ${plain(this.data.comms[this.comm[row]])}`,
      code ? `${letter}: ${this.panel.head.state_names[letter]}` : "not seen at this moment",
    ];
    const where = this.data.places[this.place[row]];
    if (where) words.push(`last seen in ${plain(where)}`);
    if (this.busy) words.push(`${(this.busy[row * this.columns + column] / 2).toFixed(0)} % of a core`);
    if (others) words.push(`${others} other threads are drawn in this row, the rarest state on top`);
    return words;
  }

  pick(t, y) {
    const found = this.threadAt(t, y);
    return found && { tid: this.tid[found.row], pid: this.pid[found.row] };
  }
}

class CallTrack extends Track {
  constructor(...given) {
    super(...given);
    const { data, panel } = this;
    this.title = "System calls";
    for (const name of ["t", "took", "call", "tid", "error", "open", "told", "text"]) this[name] = panel.array(data[name]);
    if (data.more) [this.moreT, this.moreCall, this.moreN] = data.more.map((number) => panel.array(number));
    this.texts = new Map(Array.from(this.told, (row, n) => [row, this.text[n]]));
    this.lanes = Math.min(data.names.length, 8);
    this.height = Math.max(this.lanes * 15, 30);
    this.longest = this.took.reduce((most, one) => Math.max(most, one), 0);
  }

  lane(call) {
    const { filter } = this.panel;
    if (filter.call !== undefined) return this.data.names[call] === filter.call ? 0 : -1;
    return call < 7 || this.lanes < 8 ? call : this.data.names.length === 8 ? call : 7;
  }

  get names() {
    const { filter } = this.panel;
    if (filter.call !== undefined) return [filter.call];
    return this.data.names.length > 8 ? [...this.data.names.slice(0, 7), `${this.data.names.length - 7} others`] : this.data.names;
  }

  draw(ctx, width) {
    const lanes = this.names.length;
    const step = this.height / lanes;
    const bins = Math.ceil(width / 2);
    const counts = Array.from({ length: lanes }, () => new Float64Array(bins));
    const series = this.panel.head.palette.series;
    const dead = [];
    const add = (t, lane, n) => {
      if (lane >= 0 && t >= this.axis.begin && t <= this.axis.end) counts[lane][Math.min(Math.floor(this.axis.x(t) / 2), bins - 1)] += n;
    };
    const last = Array.from({ length: lanes }, () => -1);
    for (let i = 0; i < this.t.length; i++) {
      if (this.t[i] + this.took[i] < this.axis.begin && !this.open[i]) continue;
      if (this.t[i] > this.axis.end) break;
      if (!this.panel.showsThread(this.tid[i])) continue;
      const lane = this.lane(this.call[i]);
      if (lane < 0) continue;
      add(this.t[i], lane, 1);
      const x = this.axis.x(this.t[i]);
      const to = this.open[i] ? this.axis.x(this.panel.head.span[1]) : this.axis.x(this.t[i] + this.took[i]);
      if (this.open[i]) dead.push([x, to, lane]);
      else if (to - x > 3 && to > last[lane] + 1) {
        ctx.globalAlpha = 0.28;
        ctx.fillStyle = this.colour(series[lane % series.length]);
        ctx.fillRect(Math.max(x, last[lane]), (lane + 0.62) * step, to - Math.max(x, last[lane]), step * 0.3);
        ctx.globalAlpha = 1;
        last[lane] = to;
      }
    }
    if (this.moreT && !this.panel.isFiltered("rank", "pid", "tid")) for (let i = 0; i < this.moreT.length; i++) add(this.moreT[i], this.lane(this.moreCall[i]), this.moreN[i]);
    const most = Math.max(1, ...counts.map((one) => one.reduce((high, n) => Math.max(high, n), 0)));
    counts.forEach((one, lane) => {
      ctx.fillStyle = this.colour(series[lane % series.length]);
      one.forEach((n, bin) => {
        if (!n) return;
        const high = (0.3 + (0.6 * Math.log1p(n)) / Math.log1p(most)) * (step - 1);
        ctx.fillRect(bin * 2, (lane + 1) * step - high - 0.5, 1.6, high);
      });
    });
    ctx.strokeStyle = this.colour("#D55E00");
    ctx.setLineDash([4, 3]);
    for (const [x, to, lane] of dead) {
      ctx.beginPath();
      ctx.moveTo(Math.max(x, 0), (lane + 0.5) * step);
      ctx.lineTo(Math.min(to, width), (lane + 0.5) * step);
      ctx.stroke();
    }
    ctx.setLineDash([]);
    this.names.forEach((name, lane) => this.write(plain(name), 4, (lane + 0.5) * step));
  }

  nearest(t, y) {
    const lane = Math.min(Math.floor((y / this.height) * this.names.length), this.names.length - 1);
    const near = this.axis.t(6) - this.axis.t(0);
    let best = -1;
    for (let i = 0; i < this.t.length && this.t[i] <= t + near; i++) {
      if (this.lane(this.call[i]) !== lane || !this.panel.showsThread(this.tid[i])) continue;
      const over = this.open[i] || (this.t[i] <= t && t <= this.t[i] + this.took[i]);
      if ((over || Math.abs(this.t[i] - t) < near) && (best < 0 || this.took[i] >= this.took[best] || this.open[i])) best = i;
    }
    return { lane, best };
  }

  at(t) {
    const near = (this.axis.t(4) - this.axis.t(0)) || 1;
    const n = bisect(this.t, t + near) - bisect(this.t, t - near);
    return n ? plural(n, "call") : "";
  }

  under(t, y) {
    const { lane, best } = this.nearest(t, y);
    if (best < 0) return [this.names[lane]];
    const took = this.open[best] ? "never returned" : `took ${seconds(this.took[best])}`;
    const error = this.data.errors[this.error[best]];
    const words = [`${plain(this.data.names[this.call[best]])} of thread ${this.tid[best]} ${took}${error ? `, ${plain(error)}` : ""}`];
    if (this.texts.has(best)) words.push(oneLine(this.texts.get(best)).slice(0, 160));
    return words;
  }

  pick(t, y) {
    const { lane, best } = this.nearest(t, y);
    if (best >= 0) return { call: this.data.names[this.call[best]] };
    return this.data.names[lane] === this.names[lane] ? { call: this.names[lane] } : null;
  }
}

const SOCKET_COLOUR = { LISTEN: "#009E73", ESTAB: "#56B4E9", "SYN-SENT": "#D55E00", "SYN-RECV": "#E69F00", "CLOSE-WAIT": "#CC79A7" };

class SocketTrack extends Track {
  constructor(...given) {
    super(...given);
    const { data, panel } = this;
    this.title = "Sockets";
    this.t = panel.array(data.moments);
    const gaps = Float64Array.from(this.t.slice(1), (one, n) => one - this.t[n]).sort();
    this.usual = gaps[gaps.length >> 1] || 5;
    this.lanes = data.lanes.map((lane) => ({ ...lane, at: panel.array(lane.at), n: panel.array(lane.n) }));
    this.asked = [...new Set(data.probes.map(([, what]) => what))].slice(0, 5);
    this.height = Math.max((this.lanes.length + this.asked.length) * 13, 26);
  }

  label(lane) {
    return `${lane.state} ${lane.port < 0 ? "other ports" : `:${lane.port}`}`;
  }

  draw(ctx, width) {
    const step = this.height / (this.lanes.length + this.asked.length);
    this.lanes.forEach((lane, row) => {
      const most = lane.n.reduce((high, n) => Math.max(high, n), 1);
      for (let i = 0; i < lane.at.length; i++) {
        const begin = this.t[lane.at[i]];
        const end = Math.min(this.t[lane.at[i] + 1] ?? Infinity, begin + 3 * this.usual);
        const x = this.axis.x(begin);
        const to = Math.max(this.axis.x(Math.min(end, this.panel.head.span[1])), x + 2);
        if (to < 0 || x > width) continue;
        ctx.fillStyle = this.colour(SOCKET_COLOUR[lane.state] ?? "#999999");
        ctx.globalAlpha = 0.3 + (0.4 * lane.n[i]) / most;
        ctx.fillRect(x, row * step + 2, to - x, step - 4);
      }
      ctx.globalAlpha = 1;
      this.write(this.label(lane), 4, (row + 0.5) * step);
    });
    this.asked.forEach((what, number) => this.write(plain(what), 4, (this.lanes.length + number + 0.5) * step));
    for (const [t, what, status] of this.data.probes) {
      const row = this.asked.indexOf(what);
      if (row < 0) continue;
      ctx.fillStyle = this.colour(status >= 200 && status < 300 ? "#009E73" : "#D55E00");
      ctx.beginPath();
      ctx.arc(this.axis.x(t), (this.lanes.length + row + 0.5) * step, 4, 0, 7);
      ctx.fill();
    }
  }

  at(t) {
    const column = bisect(this.t, t + 1e-9) - 1;
    const open = this.lanes.filter((lane) => lane.state === "LISTEN" && lane.at.includes(column));
    return open.length ? `listen ${open.map((lane) => (lane.port < 0 ? "others" : `:${lane.port}`)).slice(0, 3).join(" ")}` : "";
  }

  under(t, y) {
    const row = Math.min(Math.floor((y / this.height) * (this.lanes.length + this.asked.length)), this.lanes.length + this.asked.length - 1);
    if (row < this.lanes.length) {
      const lane = this.lanes[row];
      const found = lane.at.indexOf(bisect(this.t, t + 1e-9) - 1);
      return [`${this.label(lane)}: ${found < 0 ? "none at this moment" : count(lane.n[found])}`];
    }
    const what = this.asked[row - this.lanes.length];
    const near = this.data.probes.filter(([, own]) => own === what).sort((a, b) => Math.abs(a[0] - t) - Math.abs(b[0] - t))[0];
    return [`${plain(what)} at ${place(near[0])}: ${near[2] ? `HTTP ${near[2]}` : plain(near[3] || "no answer")}`];
  }
}
