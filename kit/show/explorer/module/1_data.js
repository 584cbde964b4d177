// Reading a pack (kit/show/explorer/packing.py): gzip, a JSON head, typed arrays; and pyramids that never hide a spike.

async function inflate(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** Open a pack; arrays are decoded when they are first asked for. */
async function openPack(zipped) {
  const bytes = await inflate(zipped);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (view.getUint32(0) !== 0x534b5831) throw new Error("this is not a pack of the explorer, or of another version of it");
  const length = view.getUint32(4, true);
  const head = JSON.parse(new TextDecoder().decode(bytes.subarray(8, 8 + length)));
  let at = 8 + length;
  const places = head.arrays.map(([codec, count, size, scale]) => {
    at += size;
    return { codec, count, scale, from: at - size, size };
  });
  const known = new Map();
  return {
    head,
    array(number) {
      if (!known.has(number)) known.set(number, decode(bytes, places[number]));
      return known.get(number);
    },
  };
}

function decode(bytes, { codec, count, scale, from, size }) {
  if (codec === "bytes") return bytes.subarray(from, from + size);
  if (codec === "texts") return JSON.parse(new TextDecoder().decode(bytes.subarray(from, from + size)));
  const values = new Float64Array(count);
  let at = from;
  let sum = 0;
  for (let i = 0; i < count; i++) {
    let folded = 0;
    let factor = 1;
    let byte;
    do {
      byte = bytes[at++];
      folded += (byte & 127) * factor;
      factor *= 128;
    } while (byte & 128);
    sum += folded % 2 ? -(folded + 1) / 2 : folded / 2;
    values[i] = sum * scale;
  }
  return values;
}

/** First position whose value is not below x, in ascending values. */
function bisect(values, x) {
  let low = 0;
  let high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] < x) low = middle + 1;
    else high = middle;
  }
  return low;
}

const FACTOR = 4;

/** Lowest and highest value of every 4, 16, 64 … samples. */
function minMaxPyramid(values) {
  const levels = [{ step: 1, low: values, high: values }];
  while (levels.at(-1).low.length > 256) {
    const { step, low, high } = levels.at(-1);
    const n = Math.ceil(low.length / FACTOR);
    const next = { step: step * FACTOR, low: new Float64Array(n), high: new Float64Array(n) };
    for (let i = 0; i < n; i++) {
      let least = Infinity;
      let most = -Infinity;
      for (let j = i * FACTOR; j < Math.min((i + 1) * FACTOR, low.length); j++) {
        if (low[j] < least) least = low[j];
        if (high[j] > most) most = high[j];
      }
      next.low[i] = least;
      next.high[i] = most;
    }
    levels.push(next);
  }
  return levels;
}

/** Highest code of every 4, 16, … moments of a table with a row a thread; codes ascend with rarity. */
function codePyramid(codes, rows, columns) {
  const levels = [{ step: 1, codes, columns }];
  while (levels.at(-1).columns > 256) {
    const from = levels.at(-1);
    const n = Math.ceil(from.columns / FACTOR);
    const reduced = new Uint8Array(rows * n);
    for (let row = 0; row < rows; row++) {
      const base = row * from.columns;
      for (let column = 0; column < from.columns; column++) {
        const place = row * n + (column >> 2);
        const code = from.codes[base + column];
        if (code > reduced[place]) reduced[place] = code;
      }
    }
    levels.push({ step: from.step * FACTOR, codes: reduced, columns: n });
  }
  return levels;
}

/** The coarsest level that still has about two buckets a pixel. */
function levelFor(levels, samples, pixels) {
  let chosen = levels[0];
  for (const level of levels) if (samples / level.step >= pixels * 2) chosen = level;
  return chosen;
}
