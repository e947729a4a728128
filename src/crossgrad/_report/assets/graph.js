// The graph: a ring of colours for each agent, as long as its samples of each class.

const CLASS_COLOURS = ["#332288", "#88CCEE", "#117733", "#DDCC77", "#CC6677", "#44AA99", "#882255", "#999933", "#AA4499", "#BBBBBB"];
const classColour = (number, classes) => (classes <= CLASS_COLOURS.length ? CLASS_COLOURS[number] : `hsl(${Math.round((300 * number) / classes)} 60% ${number % 2 ? 40 : 65}%)`);

function showGraph(detail) {
  const graph = known(detail.graph) ? page.data.graphs[detail.graph] : null;
  const drawable = graph !== null && graph.places.length > 0;
  fill($("graph"), ...(drawable ? [drawing(graph, detail.holds), swatches(detail.holds)] : []));
  const notes = [];
  if (graph === null) notes.push("This run has no agents.json, which has the graph: who sends to whom.");
  else if (!drawable) notes.push(`A graph of ${graph.agents} agents is not drawn.`);
  if (drawable) notes.push(`${graph.name}, ${graph.agents} agents. A ring's colours show the agent's samples of each class; a thick line is a large weight.`);
  if (graph?.changes) notes.push("The graph changes from step to step; all links that ever occur are drawn.");
  if (graph?.directed) notes.push("Arrows point from the sender to the receiver.");
  $("graph-note").textContent = notes.join(" ");
  showHoldings(graph, detail.holds);
}

function drawing(graph, holds) {
  const radius = Math.min(7.5, Math.max(1.6, 34 / graph.agents ** 0.75)), edge = radius + 5;
  const at = ([x, y]) => [edge + x * (100 - 2 * edge), edge + y * (100 - 2 * edge)];
  const places = graph.places.map(at);
  const low = Math.min(...places.map(([, y]) => y)) - edge, high = Math.max(...places.map(([, y]) => y)) + edge;
  const heaviest = Math.max(...graph.edges.map(([, , weight]) => weight), 1e-9);
  const svg = el("svg", { viewBox: `0 ${low.toFixed(1)} 100 ${(high - low).toFixed(1)}`, role: "img", "aria-label": `${graph.name} of ${graph.agents} agents; the table below says the same` });
  const tip = el("marker", { id: "tip", viewBox: "0 0 6 6", refX: 6, refY: 3, markerWidth: 5, markerHeight: 5, orient: "auto", markerUnits: "userSpaceOnUse" }, el("path", { d: "M0 0L6 3L0 6z", fill: "#57606a" }));
  svg.append(el("defs", {}, tip));
  const links = new Set(graph.edges.map(([receiver, sender]) => `${sender} ${receiver}`));
  for (const [receiver, sender, weight] of graph.edges) {
    const both = links.has(`${receiver} ${sender}`);
    if (receiver === sender || (both && receiver > sender)) continue;
    const [x1, y1] = places[sender], [x2, y2] = places[receiver];
    const short = both ? 0 : radius / Math.hypot(x2 - x1, y2 - y1);
    const width = (graph.agents > 30 ? 0.15 : 0.3) + 0.9 * (graph.changes ? 0.3 : weight / heaviest) / (graph.edges.length > 200 ? 4 : 1);
    svg.append(el("line", { x1, y1, x2: x2 - short * (x2 - x1), y2: y2 - short * (y2 - y1), stroke: "#8c959f", "stroke-width": width.toFixed(2), "marker-end": both ? null : "url(#tip)" }));
  }
  places.forEach((place, agent) => svg.append(node(agent, place, radius, holds[agent] ?? [])));
  return svg;
}

function node(agent, [x, y], radius, counts) {
  const total = counts.reduce((sum, n) => sum + n, 0);
  const held = counts.map((n, number) => [number, n]).filter(([, n]) => n > 0);
  const group = el("g", {}, el("title", {}, `agent ${agent}${total ? `: ${total} samples, ${held.map(([number, n]) => `class ${number}: ${n}`).join(", ")}` : ""}`));
  group.append(el("circle", { cx: x, cy: y, r: radius, fill: total ? "#fff" : "#8c959f" }));
  let from = 0;
  for (const [number, n] of held) {
    const to = from + n / total;
    group.append(el("path", { d: slice(x, y, radius, from, to), fill: classColour(number, counts.length), stroke: "#fff", "stroke-width": 0.25 }));
    from = to;
  }
  group.append(el("circle", { cx: x, cy: y, r: radius * 0.56, fill: "#fff" }));
  group.append(el("text", { x, y: y + radius * 0.26, "text-anchor": "middle", "font-size": radius * 0.74, "font-weight": 600, fill: "#1b1f24" }, String(agent)));
  if (held.length && radius > 3) {
    const words = held.length <= 3 ? held.map(([number]) => number).join(", ") : `${held.length} classes`;
    group.append(el("text", { x, y: y + radius + 3.4, "text-anchor": "middle", "font-size": 2.9, fill: "#57606a", stroke: "#fff", "stroke-width": 0.8, "paint-order": "stroke" }, words));
  }
  return group;
}

function slice(x, y, radius, from, to) {
  if (to - from > 0.9999) return `M${x - radius} ${y}a${radius} ${radius} 0 1 0 ${2 * radius} 0a${radius} ${radius} 0 1 0 ${-2 * radius} 0z`;
  const point = (share) => `${(x + radius * Math.sin(2 * Math.PI * share)).toFixed(3)} ${(y - radius * Math.cos(2 * Math.PI * share)).toFixed(3)}`;
  return `M${x} ${y}L${point(from)}A${radius} ${radius} 0 ${to - from > 0.5 ? 1 : 0} 1 ${point(to)}z`;
}

function swatches(holds) {
  const classes = holds[0]?.length ?? 0;
  const items = Array.from({ length: Math.min(classes, 40) }, (_, number) => {
    const colour = el("i", { "aria-hidden": "true" });
    colour.style.background = classColour(number, classes);
    return el("li", {}, colour, String(number));
  });
  return classes ? el("ul", { class: "swatches", "aria-label": "Colours of the classes" }, el("li", {}, "class"), ...items) : el("span");
}

function showHoldings(graph, holds) {
  const senders = (agent) => (graph?.edges ?? []).filter(([j, l]) => j === agent && l !== agent).map(([, l]) => l).join(", ");
  const classes = holds[0]?.length ?? 0, agents = Math.max(holds.length, graph?.places.length ?? 0);
  $("holdings").closest("details").hidden = agents === 0;
  const heads = ["agent", "receives from", ...Array.from({ length: classes }, (_, number) => `class ${number}`)];
  const rows = Array.from({ length: agents }, (_, agent) => el("tr", {}, el("th", { scope: "row" }, String(agent)), el("td", {}, senders(agent)), ...(holds[agent] ?? []).map((n) => el("td", { class: "number" }, String(n)))));
  fill($("holdings"), el("thead", {}, el("tr", {}, ...heads.map((head) => el("th", { scope: "col" }, head)))), el("tbody", {}, ...rows));
}
