// Words, units, colours. Text of a log is data: marks that would change how other text is shown are made visible.

const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

function shown(mark) {
  const code = mark.charCodeAt(0);
  return code < 32 ? String.fromCharCode(0x2400 + code) : `‹${code.toString(16).toUpperCase().padStart(4, "0")}›`;
}

const plain = (text) => String(text ?? "").replace(HIDDEN, shown);
const oneLine = (text) => plain(text).replace(/\r?\n/g, " ⏎ ").replace(/\t/g, "  ");

function seconds(value) {
  const size = Math.abs(value);
  if (size < 1e-3) return `${+(value * 1e6).toPrecision(3)} µs`;
  if (size < 1) return `${+(value * 1e3).toPrecision(3)} ms`;
  if (size < 10) return `${value.toFixed(1)} s`;
  if (size < 120) return `${Math.round(value)} s`;
  const whole = Math.round(value);
  if (size < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  if (size < 86400) return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
  return `${Math.floor(whole / 86400)} d ${Math.floor((whole % 86400) / 3600)} h`;
}

/** A place on the axis: 12.5 s, 4:05, 1:02:45, 3 d, with as many decimals as the step between two ticks needs. */
function place(value, step = 1) {
  const decimals = step >= 1 ? 0 : Math.min(6, Math.ceil(-Math.log10(step)));
  const sign = value < -1e-9 ? "−" : "";
  const rounded = Number(Math.abs(value).toFixed(decimals));
  if (step >= 86400) return `${sign}${Math.round(rounded / 86400)} d`;
  const hours = Math.floor(rounded / 3600);
  const minutes = Math.floor((rounded % 3600) / 60);
  const rest = (rounded % 60).toFixed(decimals);
  const padded = rest.padStart(decimals ? decimals + 3 : 2, "0");
  return sign + (hours ? `${hours}:${String(minutes).padStart(2, "0")}:${padded}` : `${minutes}:${padded}`);
}

function clock(head, value, step = 1) {
  if (head.zero_ms === null) return "";
  const text = new Date(head.zero_ms + head.offset_s * 1000 + value * 1000).toISOString();
  return step >= 86400 ? text.slice(0, 10) : step >= 60 ? text.slice(11, 16) : step >= 1 ? text.slice(11, 19) : text.slice(11, 23);
}

function bytes(value) {
  const names = ["B", "KiB", "MiB", "GiB", "TiB"];
  let power = 0;
  while (Math.abs(value) >= 1024 && power < 4) {
    value /= 1024;
    power++;
  }
  if (!power) return `${value < 10 ? +value.toFixed(1) : Math.round(value)} B`;
  return `${value.toFixed(value < 10 ? 2 : value < 100 ? 1 : 0)} ${names[power]}`;
}

const count = (value) => Math.round(value).toLocaleString("en-US");
const plural = (n, word) => `${count(n)} ${word}${n === 1 ? "" : "s"}`;

const UNITS = {
  bytes,
  "bytes/s": (value) => `${bytes(value)}/s`,
  cores: (value) => `${value.toFixed(value < 10 ? 2 : 1)} cores`,
  "%": (value) => `${value.toFixed(0)} %`,
};

const DARK = {
  "#0072B2": "#58A9EA",
  "#009E73": "#35C399",
  "#00755A": "#2BA383",
  "#D55E00": "#FF8A45",
  "#8C6D1F": "#CBAA55",
  "#5F5F5F": "#AEB6BD",
  "#000000": "#E8EBEE",
  "#D9DEE3": "#323C46",
  "#EEF0F2": "#28313A",
  "#BBBBBB": "#77818B",
  "#F3CF80": "#B99B56",
  "#999999": "#8B959E",
};

/** What the figures of Python are drawn in, lighter where the page is dark. */
const tint = (colour, dark) => (dark && DARK[colour]) || colour;

/** Whether JupyterLab, the page around, or the system is dark. */
function isDark() {
  const body = document.body;
  const theme = document.documentElement.dataset.theme || body.dataset.theme;
  if (theme) return theme === "dark";
  if (body.dataset.jpThemeLight) return body.dataset.jpThemeLight === "false";
  if (body.classList.contains("vscode-dark")) return true;
  if (body.classList.contains("vscode-light")) return false;
  return matchMedia("(prefers-color-scheme: dark)").matches;
}

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.className = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** A sentence of Python's: what stands between backticks is code. */
function sentence(text) {
  const parts = plain(text).split("`");
  return parts.map((part, number) => (number % 2 ? make("code", {}, part) : part));
}
