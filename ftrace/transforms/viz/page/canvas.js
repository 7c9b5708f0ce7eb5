/* The graph as drawn: boxes, arrows and frames that can be moved and looked at closely.
 *
 * Only what is in the window has elements. Where that is too much to read anyway, boxes
 * are dots of one path.
 */
"use strict";

const $ = (selector) => document.querySelector(selector);
const canvas = $("#canvas"), graphPane = $("#graph");
/** Boxes that have elements of their own at once. */
const MOST_LIVE = 700, LEAST_SCALE = 0.02, MOST_SCALE = 2.5;
/** Below the first texts cannot be read; the second is that of a large graph's first view. */
const READABLE = 0.45, FIRST_SCALE = 0.68;
/** Around the window, in pixels, where there are elements already. */
const MARGIN = 80;

const eye = { x: 0, y: 0, scale: 1 };
let drawn = { boxes: [], arrows: [], frames: [] };
const live = new Map();

function svgElement(name, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

const cut = (text, most) => (text.length <= most ? text : `${text.slice(0, most - 1)}…`);

/** Shows boxes that `place` has placed. */
function draw(boxes, placed) {
  drawn = { boxes, ...placed };
  drawn.byPlace = [...boxes].sort((a, b) => a.y - b.y);
  drawn.sides = boxes.reduce(
    (s, b) => [Math.min(s[0], b.x - b.width / 2), Math.min(s[1], b.y - b.height / 2), Math.max(s[2], b.x + b.width / 2), Math.max(s[3], b.y + b.height / 2)],
    boxes.length ? [Infinity, Infinity, -Infinity, -Infinity] : [0, 0, 1, 1]);
  for (const part of ["frames", "edges", "boxes"]) $(`#${part}`).replaceChildren();
  live.clear();
  drawMap();
  paint();
}

function windowInGraph(around = MARGIN) {
  const { width, height } = graphPane.getBoundingClientRect();
  const margin = around / eye.scale;
  return {
    left: -eye.x / eye.scale - margin, right: (width - eye.x) / eye.scale + margin,
    top: -eye.y / eye.scale - margin, bottom: (height - eye.y) / eye.scale + margin,
  };
}

/** Gives elements to what is in the window, and takes them from what is not. */
function paint() {
  $("#world").setAttribute("transform", `translate(${eye.x} ${eye.y}) scale(${eye.scale})`);
  const seen = windowInGraph();
  showWindow();
  const inside = drawn.boxes.filter((b) =>
    b.y + b.height / 2 > seen.top && b.y - b.height / 2 < seen.bottom &&
    b.x + b.width / 2 > seen.left && b.x - b.width / 2 < seen.right);
  const far = inside.length > MOST_LIVE;
  const wanted = new Set();
  if (far) paintFar();
  else {
    for (const part of document.querySelectorAll(".far, .far-edges")) part.remove();
    for (const frame of drawn.frames) if (around(frame, seen)) wanted.add(frame);
    for (const arrow of drawn.arrows) if (touches(arrow, seen)) wanted.add(arrow);
    for (const box of inside) wanted.add(box);
  }
  for (const [part, element] of live) {
    if (!wanted.has(part)) {
      element.remove();
      live.delete(part);
    }
  }
  for (const part of wanted) {
    if (!live.has(part)) live.set(part, elementOf(part));
    if (part.sides) keepTitle(part, seen);
  }
}

/** The title of a frame stays in the window as long as the frame does. */
function keepTitle(frame, seen) {
  const [left, top, right, bottom] = frame.sides, inner = MARGIN / eye.scale;
  const text = live.get(frame).querySelector("text");
  text.setAttribute("x", Math.max(left + 10, Math.min(seen.left + inner + 14, right - 120)));
  text.setAttribute("y", Math.max(top + 16, Math.min(seen.top + inner + 50 / eye.scale, bottom - 12)));
}

function around({ sides: [left, top, right, bottom] }, seen) {
  return bottom > seen.top && top < seen.bottom && right > seen.left && left < seen.right;
}

function touches({ points }, seen) {
  const first = points[0], last = points.at(-1);
  return last.y > seen.top && first.y < seen.bottom &&
    Math.max(...points.map((p) => p.x)) > seen.left && Math.min(...points.map((p) => p.x)) < seen.right;
}

const dot = (b) => `M${b.x - b.width / 2} ${b.y - b.height / 2}h${b.width}v${b.height}h${-b.width}z`;

function paintFar() {
  const others = drawn.boxes.filter((b) => !b.lit), lit = drawn.boxes.filter((b) => b.lit);
  const line = ({ points }) => `M${points[0].x} ${points[0].y}L${points.at(-1).x} ${points.at(-1).y}`;
  $("#edges").replaceChildren(svgElement("path", { class: "far-edges", d: drawn.arrows.map(line).join("") }));
  $("#boxes").replaceChildren(
    svgElement("path", { class: "far", d: others.map(dot).join("") }),
    svgElement("path", { class: "far lit", d: lit.map(dot).join("") }));
  $("#frames").replaceChildren();
  live.clear();
}

function elementOf(part) {
  if (part.points) return arrowElement(part);
  return part.sides ? frameElement(part) : boxElement(part);
}

function arrowElement(arrow) {
  const path = svgElement("path", { class: "edge", d: pathOf(arrow.points) });
  path.classList.toggle("lit", Boolean(arrow.lit));
  $("#edges").append(path);
  return path;
}

function frameElement(frame) {
  const [left, top, right, bottom] = frame.sides;
  const text = svgElement("text", {}, `▾ ${cut(frame.title, Math.max(12, Math.floor((right - left) / 7.5)))}`);
  text.append(svgElement("title", {}, `${frame.title}\nfold it`));
  const group = svgElement("g", { class: "frame" },
    svgElement("rect", { x: left, y: top, width: right - left, height: bottom - top, rx: 10 }), text);
  group.frame = frame;
  $("#frames").append(group);
  return group;
}

function boxElement(box) {
  const left = -box.width / 2, top = -box.height / 2;
  const group = svgElement("g", { transform: `translate(${box.x} ${box.y})`, role: "button", "data-key": box.key, "aria-label": `${box.title}, ${box.type}` });
  if (box.region) {
    group.append(svgElement("rect", { class: "back", x: left + 4, y: top + 4, width: box.width, height: box.height, rx: 8 }));
  }
  const most = Math.floor((box.width - 18 - room(box)) / LETTER);
  group.append(
    svgElement("rect", { class: "body", x: left, y: top, width: box.width, height: box.height, rx: 8 }),
    svgElement("rect", { class: "stripe", x: left + 5, y: top + 9, width: 3, height: box.height - 18, rx: 1.5 }),
    svgElement("text", { class: "title", x: left + 14, y: -3 }, cut(box.title, most)),
    svgElement("text", { class: "type", x: left + 14, y: 13 }, cut(box.type, Math.floor(most / 0.92))),
    svgElement("title", {}, box.region ? `${box.title}\n${box.type}\nEnter or a double click unfolds it` : `%${box.items[0].node} = ${describe(box.items[0].node)}\n${box.type}`));
  if (box.changes) {
    const text = box.region ? `${box.sign}${box.changes}` : box.sign;
    group.append(svgElement("text", { class: box.sign === "+" ? "mark" : "mark went", x: -left - 8, y: top + 14 }, text));
  }
  group.box = box;
  dress(group, box);
  $("#boxes").append(group);
  return group;
}

function dress(element, box) {
  const classes = ["box", box.kind, box.change, box.region && "region", box.output && "output", box.lit && "lit", box.chosen && "chosen"];
  element.setAttribute("class", classes.filter(Boolean).join(" "));
}

/** Shows which boxes and arrows are lit or chosen now. */
function refresh() {
  const far = document.querySelector(".far");
  if (far) paintFar();
  for (const [part, element] of live) {
    if (part.points) element.classList.toggle("lit", Boolean(part.lit));
    else if (part.items) dress(element, part);
  }
}

// The map: the whole graph, and where the window is in it.

const map = $("#map");

function drawMap() {
  const [left, top, right, bottom] = drawn.sides;
  map.setAttribute("viewBox", `${left} ${top} ${right - left} ${bottom - top}`);
  map.replaceChildren(
    svgElement("path", { class: "dots", d: drawn.boxes.map(dot).join("") }),
    svgElement("rect", { class: "window", "vector-effect": "non-scaling-stroke" }));
}

/** Nothing where all of the graph is in the window. */
function showWindow() {
  const [left, top, right, bottom] = drawn.sides, seen = windowInGraph(0);
  map.toggleAttribute("hidden", seen.left <= left && seen.right >= right && seen.top <= top && seen.bottom >= bottom);
  const [x, y] = [Math.max(seen.left, left), Math.max(seen.top, top)];
  const place = {
    x, y, width: Math.max(Math.min(seen.right, right) - x, 0), height: Math.max(Math.min(seen.bottom, bottom) - y, 0),
  };
  for (const [key, value] of Object.entries(place)) map.lastChild.setAttribute(key, value);
}

/** The window goes to where the pointer is on the map. */
function lookAtMap({ clientX, clientY, buttons }) {
  if (!buttons) return;
  const { width, height } = graphPane.getBoundingClientRect();
  const { x, y } = new DOMPoint(clientX, clientY).matrixTransform(map.getScreenCTM().inverse());
  look(width / 2 - x * eye.scale, height / 2 - y * eye.scale, eye.scale);
}

map.addEventListener("pointerdown", (event) => {
  map.setPointerCapture(event.pointerId);
  lookAtMap(event);
});
map.addEventListener("pointermove", lookAtMap);
map.addEventListener("click", (event) => event.stopPropagation());

// The eye moves.

function look(x, y, scale) {
  eye.scale = Math.min(Math.max(scale, LEAST_SCALE), MOST_SCALE);
  eye.x = x;
  eye.y = y;
  requestPaint();
}

let waiting = false;
function requestPaint() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => {
    waiting = false;
    paint();
  });
}

/** The box that is nearest to the middle of the window. */
function boxInMiddle() {
  const { width, height } = graphPane.getBoundingClientRect();
  const far = (box) => Math.hypot(eye.x + box.x * eye.scale - width / 2, eye.y + box.y * eye.scale - height / 2);
  return drawn.boxes.reduce((best, box) => (best && far(best) <= far(box) ? best : box), null);
}

/** The whole graph, where it can be read so; else what is chosen, or the beginning. The
 * first view is no smaller than is good to read. */
function fit(whole = true) {
  const { width, height } = graphPane.getBoundingClientRect();
  const [left, top, right, bottom] = drawn.sides;
  const space = 110, all = Math.min((width - 60) / (right - left), (height - space) / (bottom - top));
  const scale = whole ? Math.max(Math.min(all, 1.15), READABLE) : all < 0.5 ? FIRST_SCALE : Math.min(all, 1);
  const chosen = whole && all < READABLE && drawn.boxes.find((box) => box.chosen);
  if (chosen) return look(width / 2 - chosen.x * scale, height / 2 - chosen.y * scale, scale);
  const high = (bottom - top) * scale <= height - space, wide = (right - left) * scale > width;
  const first = drawn.boxes.filter((box) => box.y - top < height / scale).map((box) => box.x);
  const middle = wide && first.length ? (Math.min(...first) + Math.max(...first)) / 2 : (left + right) / 2;
  look(width / 2 - middle * scale, high ? (height - (bottom + top) * scale) / 2 : 56 - top * scale, scale);
}

function zoom(factor, x, y) {
  const { width, height } = graphPane.getBoundingClientRect();
  const [px, py] = [x ?? width / 2, y ?? height / 2];
  const scale = Math.min(Math.max(eye.scale * factor, LEAST_SCALE), MOST_SCALE);
  look(px - ((px - eye.x) / eye.scale) * scale, py - ((py - eye.y) / eye.scale) * scale, scale);
}

/** Brings a box into the window if it is not there. */
function reveal(box) {
  const { width, height } = graphPane.getBoundingClientRect();
  const x = eye.x + box.x * eye.scale, y = eye.y + box.y * eye.scale;
  const readable = eye.scale >= READABLE;
  if (readable && x > 40 && x < width - 40 && y > 50 && y < height - 50) return;
  const scale = readable ? eye.scale : 0.85;
  look(width / 2 - box.x * scale, height / 2 - box.y * scale, scale);
}

graphPane.addEventListener("wheel", (event) => {
  event.preventDefault();
  const { left, top } = graphPane.getBoundingClientRect();
  if (event.ctrlKey || event.metaKey) zoom(Math.exp(-event.deltaY / 300), event.clientX - left, event.clientY - top);
  else look(eye.x - event.deltaX, eye.y - event.deltaY, eye.scale);
}, { passive: false });

canvas.addEventListener("pointerdown", (event) => {
  if (event.button) return;
  const from = { x: event.clientX - eye.x, y: event.clientY - eye.y };
  const begin = [event.clientX, event.clientY];
  canvas.moved = false;
  const move = (now) => {
    if (Math.hypot(now.clientX - begin[0], now.clientY - begin[1]) < 4) return;
    canvas.moved = true;
    canvas.classList.add("moving");
    look(now.clientX - from.x, now.clientY - from.y, eye.scale);
  };
  const end = () => {
    canvas.classList.remove("moving");
    removeEventListener("pointermove", move);
  };
  addEventListener("pointermove", move);
  addEventListener("pointerup", end, { once: true });
});

new ResizeObserver(requestPaint).observe(graphPane);
