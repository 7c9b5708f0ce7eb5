/* Where boxes stand. Few are placed by dagre, with frames around what is unfolded; many by
 * their levels, which is quick, and leaves no room for frames. */
"use strict";

const LETTER = 7.25, MOST_LETTERS = 34, BOX_HEIGHT = 42, GAP = 18, LEVEL = 36;
/** Boxes and arrows that dagre gets: with more of them it takes too long to wait for. */
const DAGRE_MOST = 200;
/** Boxes of one level stand side by side up to this width, which a window shows in a size
 * that can be read; the others below them. */
const ROW_WIDTH = 900;

/** For the sign of what has changed, at the end of the title. */
const room = (box) => (!box.changes ? 0 : box.region ? 24 : 10);

function measure(box) {
  const letters = Math.max(box.title.length + 2, box.type.length * 0.92 + 2, 7);
  box.width = Math.ceil(Math.min(letters, MOST_LETTERS) * LETTER) + 18 + room(box);
  box.height = BOX_HEIGHT;
}

/** Places boxes and frames; returns the arrows with their points, and the frames. */
function place(boxes, frames) {
  boxes.forEach(measure);
  const arrows = boxes.flatMap((box) => [...box.sources].map((from) => ({ from, to: box, points: [] })));
  const few = boxes.length + arrows.length <= DAGRE_MOST;
  if (few) placeByDagre(boxes, arrows, frames);
  if (!few || (!frames.length && widthOf(boxes) > 1.5 * ROW_WIDTH)) {
    placeByLevels(boxes, arrows);
    return { arrows, frames: [] };
  }
  surround(boxes, frames);
  return { arrows, frames };
}

const widthOf = (boxes) =>
  Math.max(...boxes.map((b) => b.x + b.width / 2)) - Math.min(...boxes.map((b) => b.x - b.width / 2));

function placeByDagre(boxes, arrows, frames) {
  const graph = new dagre.graphlib.Graph({ compound: frames.length > 0 });
  graph.setGraph({ rankdir: "TB", nodesep: GAP, ranksep: LEVEL, edgesep: 10 });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const frame of frames) graph.setNode(frame.key, {});
  for (const box of boxes) graph.setNode(box.key, { width: box.width, height: box.height });
  for (const part of [...boxes, ...frames]) {
    if (part.frame) graph.setParent(part.key, part.frame);
  }
  for (const arrow of arrows) graph.setEdge(arrow.from.key, arrow.to.key);
  dagre.layout(graph);
  for (const box of boxes) {
    const { x, y } = graph.node(box.key);
    Object.assign(box, { x, y });
  }
  for (const arrow of arrows) arrow.points = graph.edge(arrow.from.key, arrow.to.key).points;
}

/** Below all that it uses; in a level near to the middle of that. */
function placeByLevels(boxes, arrows) {
  const levels = [];
  for (const box of inOrder(boxes)) {
    box.level = 0;
    for (const source of box.sources) box.level = Math.max(box.level, source.level + 1);
    (levels[box.level] ??= []).push(box);
  }
  let y = 0;
  for (const level of levels) {
    for (const box of level) {
      const above = [...box.sources].map((source) => source.x);
      box.wish = above.length ? above.reduce((a, b) => a + b, 0) / above.length : 0;
    }
    level.sort((a, b) => a.wish - b.wish);
    const rows = rowsOf(level);
    if (rows.length > 1) for (const box of level) box.wish = 0;  // below each other
    for (const row of rows) {
      placeRow(row, y + BOX_HEIGHT / 2);
      y += BOX_HEIGHT + GAP;
    }
    y += LEVEL - GAP;
  }
  for (const arrow of arrows) arrow.points = straight(arrow.from, arrow.to);
}

/** Boxes of a level in rows of about one width. */
function rowsOf(level) {
  const total = level.reduce((sum, box) => sum + box.width + GAP, 0);
  const most = total / Math.ceil(total / ROW_WIDTH), rows = [];
  let before = 0;
  for (const box of level) {
    (rows[Math.floor((before + box.width / 2) / most)] ??= []).push(box);
    before += box.width + GAP;
  }
  return rows.filter(Boolean);
}

/** Boxes whose sources come before them. */
function inOrder(boxes) {
  const waits = new Map(), users = new Map(), ready = [], order = [];
  for (const box of boxes) {
    waits.set(box, box.sources.size);
    if (!box.sources.size) ready.push(box);
    for (const source of box.sources) users.set(source, [...(users.get(source) ?? []), box]);
  }
  for (let i = 0; i < ready.length; i++) {
    order.push(ready[i]);
    for (const user of users.get(ready[i]) ?? []) {
      waits.set(user, waits.get(user) - 1);
      if (!waits.get(user)) ready.push(user);
    }
  }
  return order;
}

/** Each where it wishes to be, but beside the one before it; the row in the middle. */
function placeRow(row, y) {
  let right = -Infinity;
  for (const box of row) {
    box.x = Math.max(box.wish, right + GAP + box.width / 2);
    box.y = y;
    right = box.x + box.width / 2;
  }
  const shift = row.reduce((sum, box) => sum + box.x - box.wish, 0) / row.length;
  for (const box of row) box.x -= shift;
}

function straight(from, to) {
  const start = { x: from.x, y: from.y + from.height / 2 }, end = { x: to.x, y: to.y - to.height / 2 };
  const bend = Math.min(24, (end.y - start.y) / 2);
  return [start, { x: start.x, y: start.y + bend }, { x: end.x, y: end.y - bend }, end];
}

/** The frame around each unfolded region. */
function surround(boxes, frames) {
  const known = new Map(frames.map((frame) => [frame.key, frame]));
  for (const frame of frames) frame.sides = [Infinity, Infinity, -Infinity, -Infinity];
  const widen = (key, left, top, right, bottom) => {
    for (let frame = known.get(key), pad = 12; frame; frame = known.get(frame.frame), pad += 12) {
      const s = frame.sides;
      frame.sides = [Math.min(s[0], left - pad), Math.min(s[1], top - pad - 14), Math.max(s[2], right + pad), Math.max(s[3], bottom + pad)];
    }
  };
  for (const b of boxes) {
    widen(b.frame, b.x - b.width / 2, b.y - b.height / 2, b.x + b.width / 2, b.y + b.height / 2);
  }
}

/** The arrow as a path that bends softly at its points. */
function pathOf(points) {
  const [first, ...rest] = points.map(({ x, y }) => `${x.toFixed(1)} ${y.toFixed(1)}`);
  if (points.length < 3) return `M${first}L${rest.join("L")}`;
  let path = `M${first}`;
  for (let i = 1; i < points.length - 1; i++) {
    const a = points[i], b = points[i + 1], end = i === points.length - 2;
    const x = end ? b.x : (a.x + b.x) / 2, y = end ? b.y : (a.y + b.y) / 2;
    path += `Q${a.x.toFixed(1)} ${a.y.toFixed(1)} ${x.toFixed(1)} ${y.toFixed(1)}`;
  }
  return path;
}
