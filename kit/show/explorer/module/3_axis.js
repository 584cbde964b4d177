// The time axis: linear, or, over the whole span, with the silence after the last progress compressed.

const ACTIVE_LEAST = 0.25;
const ACTIVE_SHARE = 0.6;

class Axis {
  constructor([begin, end], width, knee = null, shift = 0) {
    Object.assign(this, { begin, end, width, shift });
    const active = knee === null ? 1 : (knee - begin) / (end - begin);
    this.knee = active > 0 && active < ACTIVE_LEAST ? knee : null;
  }

  x(t) {
    if (this.knee === null) return ((t - this.begin) / (this.end - this.begin)) * this.width;
    const share = t <= this.knee
      ? (ACTIVE_SHARE * (t - this.begin)) / (this.knee - this.begin)
      : ACTIVE_SHARE + ((1 - ACTIVE_SHARE) * (t - this.knee)) / (this.end - this.knee);
    return share * this.width;
  }

  t(x) {
    const share = x / this.width;
    if (this.knee === null) return this.begin + share * (this.end - this.begin);
    return share <= ACTIVE_SHARE
      ? this.begin + (share / ACTIVE_SHARE) * (this.knee - this.begin)
      : this.knee + ((share - ACTIVE_SHARE) / (1 - ACTIVE_SHARE)) * (this.end - this.knee);
  }

  /** Round seconds to mark, with the step between them; each part of a compressed axis has its own. */
  ticks() {
    if (this.knee === null) return spread(this.begin - this.shift, this.end - this.shift, this.width / 85).map(({ t, step }) => ({ t: t + this.shift, step }));
    const room = this.width / 85;
    const early = spread(this.begin, this.knee, room * ACTIVE_SHARE);
    const from = early.length ? early.at(-1).t : this.begin;
    const late = spread(this.knee, this.end, room * (1 - ACTIVE_SHARE));
    return [...early, ...late.filter((tick) => this.x(tick.t) > this.x(from) + 70)];
  }
}

const STEPS = [1e-6, 2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10,
  15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800, 2592000, 7776000, 31536000];

function spread(begin, end, most) {
  const step = STEPS.find((one) => (end - begin) / one <= Math.max(most, 1)) ?? STEPS.at(-1);
  const ticks = [];
  for (let n = Math.ceil(begin / step - 1e-9); n * step <= end + 1e-9; n++) ticks.push({ t: n * step, step });
  return ticks;
}
