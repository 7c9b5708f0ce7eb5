/* What is shown now, and what keys and the pointer do. */
"use strict";

const state = {
  step: 0, before: false, bodies: [], unfolded: null, toggled: new Set(),
  chosen: null, pinned: null, firing: -1, rule: null, listed: LISTED,
  kernel: -1, code: "statements", tab: "pass", found: [], told: false,
};
let view = null;

// The graph of the step.

/** Regions of the level that is folded are, and those in them. */
function isFolded(key) {
  const level = LEVELS.indexOf(key.split(" ")[0]), from = LEVELS.indexOf(view.folded);
  const folded = state.unfolded === null ? view.folded !== "" && level >= from : !state.unfolded;
  return folded !== state.toggled.has(key);
}

/** Draws the graph of the state. `keep`: the eye stays where it is. */
function showGraph(keep = false) {
  const step = steps[state.step], body = state.bodies.at(-1);
  bodyNames = body?.names ?? new Map();
  view = viewOf(state.step, state.before, body?.graph);
  const { boxes, frames } = boxesOf(view, isFolded);
  draw(boxes, place(boxes, frames));
  if (!keep) fit(false);
  countLines(view.items);
  choose(boxes.find((box) => box.key === state.chosen?.key) ?? boxWith(state.chosen?.items[0]), false);
  if (state.tab === "node") showPanel(state);
  light(state.pinned);
  const folded = boxes.filter((box) => box.region).length;
  const way = [step.name, ...state.bodies.map((body) => body.name)].join(" › ");
  const about = state.bodies.length ? "" : step.about;
  $("#about").replaceChildren(element("span", { title: about }, element("b", {}, way), ` ${about}`),
    state.bodies.length ? element("button", { data: { leave: "" } }, " back (Esc)") : "");
  $("#compare").hidden = step.before < 0 || step.name === "kernels" || state.bodies.length > 0;
  for (const button of document.querySelectorAll("#compare button")) {
    button.ariaPressed = `${button.dataset.before === `${state.before}`}`;
  }
  $("#unfold").textContent = folded ? "Unfold" : "Fold";
  if (folded && !state.told) tell(`${boxCount()}: a double click unfolds one, u all`);
  state.told = true;
  showLegend(boxes);
}

const boxCount = () => many(drawn.boxes.length, "box").replace("boxs", "boxes");

/** The box that an item is in now; null where none has it. */
function boxWith(item) {
  const same = (each) => each.node === item.node && each.kernel === item.kernel;
  return (item && drawn.boxes.find((box) => box.items.some(same))) ?? null;
}

function showLegend(boxes) {
  const kinds = new Set(boxes.map((box) => box.kind));
  $("#legend").replaceChildren(...[...RANKS, "input"].filter((kind) => kinds.has(kind)).map((kind) => {
    const row = element("li", {}, kind);
    row.style.setProperty("--kind", `var(--${kind})`);
    return row;
  }));
}

let silence = 0;
function tell(text) {
  clearTimeout(silence);
  $("#note").textContent = text;
  silence = setTimeout(() => { $("#note").textContent = ""; }, 3500);
}

function showSteps() {
  $("#steps").replaceChildren(...steps.map((step, i) => {
    const size = nodesIn(i).size, button = element("button", { data: { step: i }, title: step.about }, element("b", {}, step.name));
    const label = element("small", {});
    if (step.name === "kernels") label.append(`${kernels.filter((k) => !k.depth).length}`);
    else if (step.before < 0) label.append(`${size}`);
    else {
      const { went, came } = changesIn(i);
      label.append(element("i", {}, went.size ? `−${went.size}` : ""), " ", element("u", {}, came.size ? `+${came.size}` : ""));
    }
    button.append(label);
    return button;
  }));
}

function goTo(number, before = false) {
  if (number < 0 || number >= steps.length) return;
  Object.assign(state, { step: number, before: before && steps[number].before >= 0, bodies: [], firing: -1, rule: null, listed: LISTED });
  if (state.tab === "pass" || state.tab === "kernels" || state.tab === "collectives") {
    const { name } = steps[number];
    state.tab = name === "kernels" ? "kernels" : name === "per device" && collectives.length ? "collectives" : "pass";
  }
  showGraph();
  showPanel(state);
  document.querySelectorAll("#steps button").forEach((button, i) => {
    if (i === number) button.setAttribute("aria-current", "step");
    else button.removeAttribute("aria-current");
  });
  $("#steps [aria-current]").scrollIntoView({ block: "nearest", inline: "nearest" });
}

// What belongs together is lit together.

const all = (set, test) => { for (const value of set) if (test(value)) return true; return false; };

let lit = null;

/** Lights lines, boxes, statements and kernels; null puts all out.
 *
 * What: { lines, nodes, kernel, box }; nodes is null for all that are of the lines.
 */
function light(what) {
  lit = what;
  document.querySelectorAll(".row.lit, .statement.lit, .kernel.lit, .firing.lit").forEach((e) => e.classList.remove("lit"));
  const has = (item) => what.nodes
    ? what.nodes.has(item.node) && (what.kernel < 0 || item.kernel < 0 || item.kernel === what.kernel) || holds(item, what)
    : what.lines.has(nodes.line[item.node]) && kindOf(item.node) !== "input" || all(insideOf(item), (n) => what.lines.has(nodes.line[n]));
  for (const box of drawn.boxes) box.lit = Boolean(what) && box.items.some(has);
  for (const arrow of drawn.arrows) {
    arrow.lit = Boolean(what) && ((arrow.from.lit && arrow.to.lit) || arrow.from === what.box || arrow.to === what.box);
  }
  graphPane.classList.toggle("lighting", drawn.boxes.some((box) => box.lit));
  refresh();
  if (!what) return;
  for (const line of what.lines) rowOf[line]?.classList.add("lit");
  for (const card of document.querySelectorAll(".kernel")) {
    const kernel = kernels[card.dataset.kernel];
    const own = what.nodes && kernel.nodes.length ? kernel.nodes.some((n) => what.nodes.has(n)) : kernel.lines.some((line) => what.lines.has(line));
    card.classList.toggle("lit", own && (what.kernel < 0 || +card.dataset.kernel === what.kernel));
  }
  for (const row of document.querySelectorAll(".statement")) {
    const { node, line } = row.dataset;
    row.classList.toggle("lit", what.nodes && +node >= 0 ? what.nodes.has(+node) : what.lines.has(+line));
  }
}

/** Is some of what is to be lit in the bodies of an item? */
function holds(item, { nodes: wanted, kernel }) {
  if (kernel < 0 || item.kernel < 0 || item.kernel === kernel) return all(wanted, (n) => insideOf(item).has(n));
  for (let k = kernels[kernel].parent; k >= 0; k = kernels[k].parent) if (k === item.kernel) return true;
  return false;
}

const linesOf = (list) => new Set([...list].map((n) => nodes.line[n]).filter((line) => line >= 0));
const ofNodes = (list, more = {}) => ({ lines: linesOf(list), nodes: new Set(list), kernel: -1, ...more });
const ofLine = (line) => ({ lines: new Set([line]), nodes: null, kernel: -1 });
const ofBox = (box) => ofNodes(box.items.map((item) => item.node), { box });

function ofStatement({ node, line, kernel }) {
  if (+node >= 0) return { ...ofNodes([+node]), kernel: +kernel, lines: new Set([+line].filter((l) => l >= 0)) };
  if (+line < 0) return null;
  const own = kernels[kernel].nodes.filter((n) => nodes.line[n] === +line);
  return { lines: new Set([+line]), nodes: new Set(own), kernel: +kernel };
}

function ofCollective(i) {
  const [kind, axis, type, , , , line] = collectives[i];
  const same = (n) => opOf(n) === kind && argOf(n).includes(axis) && typeOf(nodes.src[n][0]) === type;
  const found = [...nodesIn(state.step)].filter((n) => opOf(n) === kind && same(n));
  return { ...ofNodes(found), lines: new Set([line].filter((l) => l >= 0)) };
}

/** What the pointer is on, as something to light; undefined for nothing. */
function under(target) {
  const part = target.closest?.(".row.known, .box, .statement, .kernel, .firing, .chip, .link[data-node]");
  if (!part) return undefined;
  if (part.box) return ofBox(part.box);
  const { line, node, kernel, firing, rule, collective } = part.dataset;
  if (part.classList.contains("row")) return ofLine(+line);
  if (part.classList.contains("statement")) return ofStatement(part.dataset);
  if (collective !== undefined) return ofCollective(+collective);
  if (firing !== undefined) return ofNodes(steps[state.step].fired[firing].slice(1));
  if (rule !== undefined) return ofNodes(steps[state.step].fired.filter(([r]) => r === +rule).flatMap(([, ...both]) => both));
  if (kernel !== undefined) {
    const own = kernels[kernel];
    return own.nodes.length ? { ...ofNodes(own.nodes), kernel: +kernel } : { lines: new Set(own.lines), nodes: null, kernel: +kernel };
  }
  return ofNodes([+node]);
}

document.addEventListener("pointerover", (event) => {
  const what = under(event.target);
  if (what !== undefined) light(what);
  else if (lit !== state.pinned) light(state.pinned);
});

/** Keeps something lit, and brings it into sight on the other sides. */
function pin(what, { graph = true, source = true, code = true } = {}) {
  state.pinned = what;
  light(what);
  if (!what) return;
  const box = drawn.boxes.find((each) => each.lit);
  if (graph && box) reveal(box);
  const [line] = what.lines;
  if (source) rowOf[line]?.scrollIntoView({ block: "nearest" });
  if (code) document.querySelector(".statement.lit")?.scrollIntoView({ block: "nearest" });
}

// Choosing and folding.

function choose(box, toTab = true) {
  if (state.chosen) state.chosen.chosen = false;
  state.chosen = box;
  if (box) box.chosen = true;
  if (toTab) {
    if (state.tab === "pass" || state.tab === "collectives") state.tab = "node";
    showPanel(state);
  }
  refresh();
}

function chooseBox(box) {
  choose(box);
  pin(ofBox(box), { graph: false });
}

/** Shows a node, unfolding what it is in, and opening the body. */
function chooseNode(node) {
  let item = view.items.find((each) => each.node === node);
  for (let holder; !item; item = view.items.find((each) => each.node === node)) {
    holder = view.items.find((each) => insideOf(each).has(node));
    if (!holder) return tell(`%${node} is not in this graph`);
    const bodies = bodiesOf(holder).map((body) => viewOf(state.step, false, body).items);
    const found = bodies.findIndex((items) => items.some((each) => each.node === node || insideOf(each).has(node)));
    if (found < 0) return tell(`%${node} is not in this graph`);
    enter(holder, found);
  }
  const closed = item.regions.filter(isFolded);
  if (closed.length) {
    closed.forEach(toggle);
    showGraph(true);
  }
  const box = boxWith(item);  // items are made anew when the graph is
  chooseBox(box);
  reveal(box);
}

function toggle(key) {
  if (!state.toggled.delete(key)) state.toggled.add(key);
}

/** Unfolds a box or folds a frame; what was under the eye stays there. */
function fold(key, at) {
  toggle(key);
  redraw(at);
}

/** Draws the graph anew; what a box has stays where it stands. */
function redraw(at) {
  const before = at && { x: eye.x + at.x * eye.scale, y: eye.y + at.y * eye.scale };
  showGraph(true);
  const now = at && boxWith(at.items[0]);
  if (now) look(before.x - now.x * eye.scale, before.y - now.y * eye.scale, eye.scale);
}

function open(box) {
  if (!box) return;
  const [item] = box.items;
  if (box.region) fold(box.key, box);
  else if (bodiesOf(item).length) enter(item, 0);
  else if (box.frame) fold(box.frame, box);
}

function enter(item, i) {
  const graph = bodiesOf(item)[i];
  state.bodies.push({ name: `${opOf(item.node)} body ${i + 1}`, graph, names: namesInBody(item.node, graph) });
  showGraph();
}

function unfoldAll() {
  const folded = drawn.boxes.some((box) => box.region);
  state.unfolded = folded;
  state.toggled.clear();
  redraw(state.chosen ?? boxInMiddle());
  tell(`${boxCount()}: u ${folded ? "folds" : "unfolds"} them again`);
}

/** The next or the previous box in reading order. */
function walkBoxes(by) {
  const at = drawn.byPlace.indexOf(state.chosen);
  const next = drawn.byPlace[Math.min(Math.max(at + by, 0), drawn.byPlace.length - 1)];
  if (!next) return;
  chooseBox(next);
  reveal(next);
}

/** The next or the previous rule that fired in the pass. */
function walkFirings(by) {
  const rows = steps[state.step].fired.map((_, i) => i).filter((i) => state.rule === null || steps[state.step].fired[i][0] === state.rule);
  if (!rows.length) return tell("no rule has fired in this pass");
  const at = state.firing < 0 ? (by > 0 ? -1 : 0) : rows.indexOf(state.firing);
  chooseFiring(rows[Math.min(Math.max(at + by, 0), rows.length - 1)]);
}

function chooseFiring(i) {
  Object.assign(state, { firing: i, tab: "pass" });
  showPanel(state);
  $(".firing.chosen")?.scrollIntoView({ block: "nearest" });
  const [rule, ...parts] = steps[state.step].fired[i];
  pin(ofNodes(parts));
  if (!drawn.boxes.some((box) => box.lit)) tell(`${texts[rule]}: a later rule has taken away what it made`);
}

/** The nodes of the graph that is shown in which a text stands: what does what is wanted
 * before what has it as an operand or in its type; of lines only where nothing else has it.
 */
function nodesWith(wanted) {
  const ranks = new Map();
  for (const item of view.items) {
    const { node } = item;
    const parts = [`%${node} ${opOf(node)} ${kindOf(node) === "input" ? inputName(node) : argOf(node)}`, ownerOf(item), describe(node), typeOf(node), lineText[nodes.line[node]] ?? ""];
    const rank = parts.findIndex((part) => part.toLowerCase().includes(wanted));
    if (rank >= 0) ranks.set(node, Math.min(rank, ranks.get(node) ?? rank));
  }
  const found = [...ranks.keys()].sort((a, b) => ranks.get(a) - ranks.get(b));
  return found.filter((node) => ranks.get(node) < LINE_RANK || ranks.get(found[0]) === LINE_RANK);
}
/** Of a text of the line, in the order of `nodesWith`. */
const LINE_RANK = 4;

/** What an item is of: the kernel, or the call. */
function ownerOf({ node, kernel }) {
  if (kernel >= 0) return kernels[kernel].name;
  return nodes.call[node] < 0 ? "" : texts[calls[nodes.call[node]]];
}

function search(text) {
  const wanted = text.trim().toLowerCase();
  state.found = [];
  if (!wanted) return pin(null);
  state.found = nodesWith(wanted);
  tell(`${many(state.found.length, "node")} found`);
  if (state.found.length) pin(ofNodes(state.found));
}

// The pointer.

document.addEventListener("click", (event) => {
  const part = event.target.closest("button, .row.known, .box, .statement, .frame text, [data-leave]");
  if (event.target.closest("#graph svg") && canvas.moved) return;
  if (!part) {
    if (event.target.closest("#graph svg")) clear();
    return;
  }
  if (part.box) return chooseBox(part.box);
  if (part.closest(".frame")) return fold(part.closest(".frame").frame.key, null);
  const { step, tab, kernel, code, firing, rule, more, node, body, before, unfold, leave, collective } = part.dataset;
  if (part.classList.contains("row")) pin(ofLine(+part.dataset.line), { source: false });
  else if (part.classList.contains("statement")) pin(ofStatement(part.dataset), { code: false });
  else if (step !== undefined) goTo(+step);
  else if (before !== undefined) { state.before = before === "true"; showGraph(); }
  else if (tab !== undefined) { state.tab = tab; showPanel(state); light(state.pinned); }
  else if (code !== undefined) { state.code = code; showPanel(state); light(state.pinned); }
  else if (kernel !== undefined) openKernel(+kernel);
  else if (collective !== undefined) pin(ofCollective(+collective));
  else if (firing !== undefined) chooseFiring(+firing);
  else if (rule !== undefined) { state.rule = state.rule === +rule ? null : +rule; state.firing = -1; showPanel(state); }
  else if (more !== undefined) { state.listed += 10 * LISTED; showPanel(state); }
  else if (body !== undefined) enter(state.chosen.items[0], +body);
  else if (unfold !== undefined) fold(unfold, state.chosen);
  else if (leave !== undefined) clear();
  else if (node !== undefined) chooseNode(+node);
});

function openKernel(k) {
  state.kernel = state.kernel === k ? -1 : k;
  showPanel(state);
  pin(state.kernel < 0 ? null : under($(`.kernel[data-kernel="${k}"]`)), { code: false });
}

canvas.addEventListener("dblclick", (event) => open(event.target.closest(".box")?.box));

/** Leaves a body; else puts out what is lit. */
function clear() {
  if (state.bodies.length) {
    state.bodies.pop();
    showGraph();
    return;
  }
  $("#search").value = "";
  choose(null, false);
  pin(null);
  showPanel(state);
}

for (const divider of document.querySelectorAll(".divider")) {
  divider.addEventListener("pointerdown", () => {
    const side = divider.dataset.side, style = $("main").style;
    const move = ({ clientX }) => {
      const share = side === "left" ? clientX / innerWidth : 1 - clientX / innerWidth;
      style.setProperty(`--${side}`, `${Math.min(Math.max(share * 100, 8), 60)}%`);
    };
    addEventListener("pointermove", move);
    addEventListener("pointerup", () => removeEventListener("pointermove", move), { once: true });
  });
}

// Keys.

const KEYS = [
  ["← →", "the pass before, the next pass"],
  ["↑ ↓", "the rule that fired before, the next one"],
  ["b", "the graph before or after the pass"],
  ["1 … 9", "a pass by its number"],
  ["j k", "the next box, the box before"],
  ["Enter", "unfold a box, open the body of a loop, fold a region again"],
  ["u", "unfold or fold all regions"],
  ["f + −", "the whole graph, if it can be read so; larger, smaller"],
  ["/", "search"],
  ["p n c", "the panels: pass, node, kernels (code)"],
  ["d", "light or dark"],
  ["Esc", "out of a body; put out what is lit"],
  ["?", "these keys"],
];

const ACTIONS = {
  ArrowRight: () => goTo(state.step + 1), ArrowLeft: () => goTo(state.step - 1),
  Home: () => goTo(0), End: () => goTo(steps.length - 1),
  ArrowDown: () => walkFirings(1), ArrowUp: () => walkFirings(-1),
  b: () => { if (!$("#compare").hidden) { state.before = !state.before; showGraph(); } },
  j: () => walkBoxes(1), k: () => walkBoxes(-1),
  Enter: () => open(state.chosen), u: unfoldAll, f: () => fit(),
  "+": () => zoom(1.25), "=": () => zoom(1.25), "-": () => zoom(0.8),
  "/": () => $("#search").focus(), d: changeTheme, Escape: clear,
  p: () => showTab("pass"), n: () => showTab("node"), c: () => showTab("kernels"),
  "?": () => $("#keys").showModal(),
};

function showTab(name) {
  state.tab = name;
  showPanel(state);
  light(state.pinned);
}

document.addEventListener("keydown", (event) => {
  const { target, key } = event;
  if (event.ctrlKey || event.metaKey || event.altKey || $("#keys").open) return;
  if (target.id === "search") {
    if (key === "Escape") target.blur(), clear();
    const shown = new Set(view.items.map((item) => item.node));
    if (key === "Enter" && !state.found.every((node) => shown.has(node))) search(target.value);  // it was another graph
    if (key === "Enter" && state.found.length) {
      chooseNode(state.found[0]);
      state.found.push(state.found.shift());
    }
    return;
  }
  if (key === "Enter" && target.closest("button")) return;
  const action = /^[1-9]$/.test(key) ? () => goTo(+key - 1) : ACTIONS[key];
  if (!action) return;
  event.preventDefault();
  action();
});

// The head.

function changeTheme() {
  const root = document.documentElement;
  root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark";
  try { localStorage.setItem("ftrace-theme", root.dataset.theme); } catch { /* not allowed in a frame */ }
}

function firstTheme() {
  let known = null;
  try { known = localStorage.getItem("ftrace-theme"); } catch { /* not allowed in a frame */ }
  return known ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
}

function showHead() {
  $("#name").textContent = data.name;
  const rows = [
    [`${data.device}, ${many(data.threads, "thread")}`, ""], [nodesIn(0).size.toLocaleString("en"), " nodes traced"],
    [many(kernels.filter((k) => !k.depth).length, "kernel"), ""], [amount(data.operations), " operations"], [bytes(data.bytes), ""],
    [data.seconds === null ? "" : time(data.seconds), " a run"],
  ];
  $("#facts").replaceChildren(...rows.filter(([value]) => value).map(([value, unit]) => element("li", {}, element("b", {}, value), unit)));
  $("#keys").append(element("h2", {}, "Keys"), element("dl", {}, ...KEYS.flatMap(([keys, what]) =>
    [element("dt", {}, ...keys.split(" ").flatMap((key) => [element("kbd", {}, key), " "])), element("dd", {}, what)])));
  $("#keys").addEventListener("click", () => $("#keys").close());
}

document.documentElement.dataset.theme = firstTheme();
$("#fit").addEventListener("click", () => fit());
$("#unfold").addEventListener("click", unfoldAll);
$("#theme").addEventListener("click", changeTheme);
$("#help").addEventListener("click", () => $("#keys").showModal());
$("#search").addEventListener("input", (event) => search(event.target.value));
showHead();
showSource();
showSteps();
goTo(0);
