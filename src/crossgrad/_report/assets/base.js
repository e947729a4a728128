// What all parts of the page use: elements, numbers as words, and how plots look.

// Okabe and Ito's colours, which most people with colour-blindness can tell apart; dashes and markers tell them apart too.
const COLOURS = ["#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#000000"];
const DASHES = ["solid", "dash", "dot", "dashdot", "longdash", "longdashdot"];
const STROKES = ["", "7 4", "2 4", "7 4 2 4", "11 5", "11 5 2 5"]; // the same in the legend
const MARKERS = ["circle", "square", "triangle-up", "diamond", "x", "triangle-down", "cross", "star", "pentagon", "hexagram"];
const MARKS = ["\u25cf", "\u25a0", "\u25b2", "\u25c6", "\u2716", "\u25bc", "\u271a", "\u2605", "\u2b1f", "\u2736"];

const page = { data: JSON.parse(document.getElementById("data").textContent) };
// What numbers are called and how they are drawn comes with the data.
/** A value that an object has itself: labels may be called `constructor` or `__proto__`. */
const own = (object, name) => (Object.hasOwn(object, name) ? object[name] : undefined);

const quantity = (name) => own(page.data.quantities, name) ?? { label: name, short: name };
const quantities = (wanted) => Object.keys(page.data.quantities).filter((name) => wanted(quantity(name)));
const choice = { metric: "accuracy", axis: "step", log: null, shown: new Map(), hidden: new Set(), run: null, when: null, sort: null };

const $ = (id) => document.getElementById(id);

/** An element; texts become text nodes, never HTML. */
function el(tag, attributes = {}, ...children) {
  const svg = ["svg", "g", "path", "line", "circle", "text", "title", "defs", "marker"].includes(tag);
  const node = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

/** Change the children of an element without losing the focus inside it. */
function fill(node, ...children) {
  const focus = node.contains(document.activeElement) ? document.activeElement.dataset.key : null;
  node.replaceChildren(...children.filter((child) => child !== null));
  if (focus) node.querySelector(`[data-key="${CSS.escape(focus)}"]`)?.focus();
}

/** Plotly reads a few HTML tags in texts; this one has none. */
const plain = (text) => String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

const known = (value) => value !== null && value !== undefined;
const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
const deviation = (values) => Math.sqrt(values.reduce((sum, v) => sum + (v - mean(values)) ** 2, 0) / (values.length - 1));
const last = (values) => (values && values.length ? values[values.length - 1] : null);
const fixed = (value, digits = 1) => (known(value) ? value.toFixed(digits).replace("-", "\u2212") : "\u2013");
const count = (number, one, many) => `${number} ${number === 1 ? one : many}`;

function inBytes(bytes) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  while (bytes >= 1000 && unit < units.length - 1) { bytes /= 1000; unit += 1; }
  return `${bytes >= 100 || unit === 0 ? bytes.toFixed(0) : bytes.toPrecision(3)} ${units[unit]}`;
}

const ticks = { gridcolor: "#e6e9ec", linecolor: "#8c959f", ticks: "outside", tickcolor: "#8c959f", zeroline: false, automargin: true };

function layout(changes) {
  return {
    font: { family: "system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', sans-serif", size: 12, color: "#1b1f24" },
    margin: { l: 52, r: 12, t: 12, b: 44 },
    paper_bgcolor: "#fff", plot_bgcolor: "#fff",
    hovermode: "closest", hoverlabel: { bgcolor: "#fff", bordercolor: "#8c959f", font: { color: "#1b1f24" }, namelength: -1 },
    showlegend: false, dragmode: window.matchMedia("(pointer: coarse)").matches ? false : "zoom",
    ...changes,
  };
}

function xAxis(extra = {}) {
  const axis = quantity(choice.axis);
  const suffix = axis.unit ? { ticksuffix: axis.unit, tickformat: "~s" } : {};
  return { ...ticks, title: { text: axis.label }, rangemode: "tozero", ...suffix, ...extra };
}

/** Draw, or change what is drawn. */
function draw(id, traces, changes) {
  return Plotly.react(id, traces, layout(changes), { displayModeBar: false, responsive: true, displaylogo: false });
}
