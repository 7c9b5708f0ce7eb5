/* What the page shows: nodes, lines and steps, and the boxes that a graph is drawn as.
 *
 * A step's graph becomes items: nodes that are drawn, each with its operands. Items that
 * one call made, as `matmul`, are a region; so are those of one source line, and of one
 * function; what is folded is one box. A region is never left and entered again on a way
 * through the graph, so that boxes over arrows have no cycle, whatever is folded.
 */
"use strict";

const data = JSON.parse(document.getElementById("data").textContent);
const { texts, nodes, calls, lines, files, steps, kernels, collectives } = data;
const count = nodes.op.length;

/** Boxes that are shown at once: nodes; calls; lines. Where there are more, the next. */
const MOST = { node: 24, call: 60, line: 160 };
/** Boxes that have an input beside them, each; one that more use stands alone. */
const MOST_COPIES = 8;

const opOf = (n) => texts[nodes.op[n]];
const kindOf = (n) => texts[nodes.kind[n]];
const argOf = (n) => texts[nodes.arg[n]];
const typeOf = (n, step) => texts[step?.types[n] ?? nodes.type[n]];
const functionOf = (line) => (line < 0 ? "" : `${lines[line][0]}:${lines[line][2]}`);

/** The text of a source line, without its indentation. */
const lineText = lines.map(([file, line]) => {
  for (const [first, rows] of files[file].blocks) {
    if (line >= first && line < first + rows.length) return rows[line - first].trim();
  }
  return "";
});
const lineName = (i) => (i < 0 ? "" : `${files[lines[i][0]].name}:${lines[i][1]}`);

/** Constants, and views of constants: they are told where they are used. */
const plain = new Uint8Array(count);
for (let n = 0; n < count; n++) {
  const [source, ...more] = nodes.src[n];
  const view = source !== undefined && !more.length && plain[source] &&
    (kindOf(n) === "movement" || opOf(n) === "cast");
  plain[n] = kindOf(n) === "constant" || view ? 1 : 0;
}

function constantText(n) {
  while (nodes.src[n].length) n = nodes.src[n][0];
  return argOf(n);
}

/** What the inputs of the body that is shown are called: bodies share their variables. */
let bodyNames = new Map();
const inputName = (n) => bodyNames.get(n) ?? (argOf(n) || opOf(n));
const operandName = (n) => (plain[n] ? constantText(n) : kindOf(n) === "input" ? inputName(n) : `%${n}`);

/** The inputs of a body by the operands that they get, in the graph that is shown:
 * `x`, `x[i]` of what is gone through, `from %3` of what is computed. */
function namesInBody(holder, { inputs }) {
  const operands = nodes.src[holder].slice(-inputs.length);
  const element = (type) => type.replace(/\[[^,\]]+,?/, "[");
  const ways = inputs.map((n, i) => [typeOf, (s) => element(typeOf(s))].findIndex(
    (type) => operands[i] !== undefined && type(operands[i]).replace("~", "") === typeOf(n).replace("~", "")));
  // A kernel has its operands in an order of its own.
  const known = opOf(holder) !== "register_loop" && !ways.includes(-1);
  return new Map(inputs.map((n, i) => {
    if (!known) return [n, `input ${i}`];
    const name = operandName(operands[i]), given = kindOf(operands[i]) === "input";
    return [n, `${given ? "" : "from "}${name}${ways[i] ? "[i]" : ""}`];
  }));
}

/** A node in a line: what it does, and to what. */
function describe(n) {
  if (plain[n]) return constantText(n);
  if (kindOf(n) === "input") return inputName(n);
  const operands = nodes.src[n].map(operandName);
  const arg = argOf(n) ? `[${argOf(n)}]` : "";
  return `${opOf(n)}${arg}(${operands.join(", ")})`;
}

/** The nodes that some outputs need, sources first. */
function toposort(outputs) {
  const seen = new Uint8Array(count), order = [], pending = [];
  for (const output of outputs) {
    pending.push(output);
    while (pending.length) {
      const n = pending[pending.length - 1];
      if (seen[n] === 2) { pending.pop(); continue; }
      if (seen[n] === 1) { seen[n] = 2; order.push(n); pending.pop(); continue; }
      seen[n] = 1;
      const src = nodes.src[n];
      for (let i = src.length - 1; i >= 0; i--) if (!seen[src[i]]) pending.push(src[i]);
    }
  }
  return order;
}

const nodesOfStep = steps.map(() => null);
/** The nodes of a step's graph, as a set in their order. */
function nodesIn(number) {
  if (number < 0) return new Set();
  const { inputs, outputs } = steps[number];
  return (nodesOfStep[number] ??= new Set(toposort([...inputs, ...outputs])));
}

/** What a step took away and made, but for nodes that only have other operands now. */
const changesOf = steps.map(() => null);
function changesIn(number) {
  const step = steps[number], before = nodesIn(step.before), after = nodesIn(number);
  const kept = step.before < 0 ? after : new Set(step.renewed.flat());
  return (changesOf[number] ??= {
    went: new Set([...before].filter((n) => !after.has(n) && !kept.has(n))),
    came: new Set([...after].filter((n) => !before.has(n) && !kept.has(n))),
    renewed: step.renewed.length,
  });
}

/** For each node those of some steps of the program that compute it. */
function kernelsByNode(own) {
  const found = new Map();
  for (const k of own) for (const n of kernels[k].nodes) found.set(n, [...(found.get(n) ?? []), k]);
  return found;
}
const kernelsOf = kernelsByNode(kernels.keys());

/** The steps of the program itself, or of a body of one of them. */
const stepsIn = (parent, body = 0) => [...kernels.keys()].filter((k) => kernels[k].parent === parent && kernels[k].body === body);

// Bodies of loops and branches.

/** The bodies of an item: each its inputs and outputs, and the kernels in it, if any are shown. */
function bodiesOf({ node, kernel }) {
  const lowered = kernel >= 0 ? kernels[kernel].bodies : [];
  if (lowered.length) return lowered.map(([inputs, outputs], i) => ({ inputs, outputs, own: stepsIn(kernel, i) }));
  return (nodes.bodies[node] ?? []).map(([inputs, outputs]) => ({ inputs, outputs, own: null }));
}

/** All nodes in the bodies of an item, and in those of what is in them. */
const insides = new Map(), nothing = new Set();
function insideOf(item) {
  const key = `${item.node}/${item.kernel}`, bodies = bodiesOf(item);
  if (!bodies.length) return nothing;
  if (!insides.has(key)) {
    const found = new Set();
    for (const { inputs, outputs, own } of bodies) {
      const runs = own && kernelsByNode(own);
      for (const n of toposort([...inputs, ...outputs])) {
        if (plain[n] || kindOf(n) === "input") continue;
        found.add(n);
        for (const inner of insideOf({ node: n, kernel: runs?.get(n)?.[0] ?? -1 })) found.add(inner);
      }
    }
    insides.set(key, found);
  }
  return insides.get(key);
}

// Items: the nodes that are drawn.

/** A graph's nodes, each once. */
function itemsOfGraph(inputs, outputs) {
  const items = [], at = new Map();
  for (const node of toposort([...inputs, ...outputs])) {
    if (plain[node]) continue;
    at.set(node, items.length);
    const sources = nodes.src[node].filter((s) => !plain[s]).map((s) => at.get(s));
    items.push({ node, kernel: -1, sources });
  }
  return items;
}

/** The nodes of a graph, once for each of these kernels that computes them. */
function itemsOfKernels(inputs, outputs, own) {
  const items = [], at = new Map(), owner = new Map(), members = new Map();
  const kernelsOf = kernelsByNode(own);
  for (const k of own) {
    members.set(k, new Set(kernels[k].nodes));
    for (const n of kernels[k].stores) owner.set(n, k);
  }
  /** Where a kernel has an operand from: views are looked through. */
  const resolve = (n, k) => {
    if (plain[n]) return [];
    if (owner.has(n) && owner.get(n) !== k) return [`${n}/${owner.get(n)}`];
    if (k >= 0 && members.get(k).has(n)) return [`${n}/${k}`];
    if (!nodes.src[n].length) return [`${n}/-1`];
    const [any] = kernelsOf.get(n) ?? [];
    if (any !== undefined) return [`${n}/${any}`];
    return nodes.src[n].flatMap((s) => resolve(s, k));
  };
  const add = (node, kernel) => {
    at.set(`${node}/${kernel}`, items.length);
    items.push({ node, kernel, sources: [] });
  };
  const order = toposort([...inputs, ...outputs]);
  for (const n of order) {
    if (plain[n]) continue;
    const used = kernelsOf.get(n) ?? [];
    if (!nodes.src[n].length && !used.length) add(n, -1);
    for (const k of used) if (nodes.src[n].length || kindOf(n) !== "input") add(n, k);
    if (!nodes.src[n].length && kindOf(n) === "input" && used.length) add(n, -1);
  }
  for (const item of items) {
    const found = nodes.src[item.node].flatMap((s) => resolve(s, item.kernel));
    item.sources = [...new Set(found.map((key) => at.get(key)).filter((i) => i !== undefined))];
  }
  return items;
}

// Regions: items that may be folded into one box.

/** Gives each item the regions that it is in, outermost first; returns what is folded. */
function groupItems(items, byKernel) {
  if (byKernel) {
    for (const item of items) item.regions = item.kernel < 0 ? [] : [`kernel ${item.kernel}`];
    return items.length > MOST.node ? "kernel" : "";
  }
  const ids = regionIds(items);
  const boxes = (level) => new Set(ids.map((id, i) => id[level] || `item ${i}`)).size;
  const outermost = boxes(2) <= MOST.call ? 2 : boxes(1) <= MOST.line ? 1 : 0;
  const sizes = new Map();
  for (const id of ids) for (const key of id) sizes.set(key, (sizes.get(key) ?? 0) + 1);
  for (const [i, id] of ids.entries()) {
    const around = id.slice(outermost).filter((key) => key && sizes.get(key) > 1);
    // Of those of the same items the innermost stays: a line that is one call is `matmul`.
    items[i].regions = around.filter((key, d) => sizes.get(key) !== sizes.get(around[d + 1]));
  }
  return items.length <= MOST.node ? "" : LEVELS[outermost];
}

const LEVELS = ["function", "line", "call"];

/** For each item the names of the regions of its function, its line, and its call.
 *
 * How often the call, the line or the function changed on the way to an item tells which
 * items of one belong together: it never falls along an arrow, and rises where an arrow
 * leaves a region.
 */
function regionIds(items) {
  const owners = items.map(({ node }) => {
    const line = kindOf(node) === "input" ? -1 : nodes.line[node];
    const call = line < 0 || nodes.call[node] < 0 ? "" : `${nodes.call[node]}`;
    return [functionOf(line), line < 0 ? "" : `${line}`, call];
  });
  const ids = items.map(() => ["", "", ""]);
  const users = items.map(() => []);
  items.forEach((item, i) => item.sources.forEach((s) => users[s].push(i)));
  let outer = items.map(() => "");
  LEVELS.forEach((level, depth) => {
    const changes = items.map(() => 0);
    items.forEach((item, i) => {
      const own = owners[i][depth];
      for (const s of item.sources) {
        changes[i] = Math.max(changes[i], changes[s] + (own && owners[s][depth] === own ? 0 : 1));
      }
    });
    const keys = owners.map((owner, i) => owner[depth] && `${outer[i]}/${owner[depth]}/${changes[i]}`);
    joinUsers(keys, users, (i, user) => owners[i][depth] === owners[user][depth] && outer[i] === outer[user]);
    const parts = depth ? components(items, keys) : keys;
    outer = keys;
    namesOf(parts, (i) => `${level} ${owners[i][depth]}`).forEach((name, i) => { ids[i][depth] = name; });
  });
  return ids;
}

/** What only one later region of the same owner uses is in that region, too. */
function joinUsers(keys, users, isSame) {
  for (let i = keys.length - 1; i >= 0; i--) {
    const [first, ...more] = users[i];
    if (first === undefined || !keys[i] || !isSame(i, first)) continue;
    if (more.every((user) => keys[user] === keys[first])) keys[i] = keys[first];
  }
}

/** Items of one key that arrows connect get one number; "" stays. */
function components(items, keys) {
  const root = items.map((_, i) => i);
  const find = (i) => {
    while (root[i] !== i) i = root[i] = root[root[i]];
    return i;
  };
  items.forEach((item, i) => {
    for (const s of item.sources) if (keys[s] && keys[s] === keys[i]) root[find(i)] = find(s);
  });
  return items.map((_, i) => (keys[i] ? `${find(i)}` : ""));
}

/** Names that stay from step to step: the line or call, and which region of it. */
function namesOf(ids, title) {
  const found = new Map(), counts = new Map();
  return ids.map((id, i) => {
    if (id === "") return "";
    if (!found.has(id)) {
      const name = title(i), number = counts.get(name) ?? 0;
      counts.set(name, number + 1);
      found.set(id, `${name} ${number}`);
    }
    return found.get(id);
  });
}

// Boxes: what is drawn, with what is folded as one.

/** The graph that is shown: of a step, before or after it, or of a body in it. */
function viewOf(number, before, body) {
  const step = steps[number];
  const shown = body ? null : before ? steps[step.before] : step;
  const byKernel = body ? body.own !== null : !before && step.name === "kernels";
  const { inputs, outputs } = body ?? shown;
  const items = byKernel ? itemsOfKernels(inputs, outputs, body?.own ?? stepsIn(-1)) : itemsOfGraph(inputs, outputs);
  const folded = groupItems(items, byKernel);
  const changed = body ? new Set() : before ? changesIn(number).went : changesIn(number).came;
  const ends = new Set(outputs);
  for (const item of items) {
    item.change = changed.has(item.node) ? (before ? "removed" : "added") : "";
    item.output = ends.has(item.node);
  }
  return { items, folded, step: before ? shown : step, byKernel };
}

/** The boxes of a view, and the arrows and frames between and around them. */
function boxesOf(view, isFolded) {
  const boxes = new Map(), boxOf = [], frames = new Map();
  view.items.forEach((item, i) => {
    const depth = item.regions.findIndex((key) => isFolded(key));
    const key = depth < 0 ? `item ${item.node}/${item.kernel}` : item.regions[depth];
    const around = depth < 0 ? item.regions : item.regions.slice(0, depth);
    let box = boxes.get(key);
    if (!box) {
      box = { key, items: [], sources: new Set(), frame: around.at(-1) ?? "", region: depth >= 0 };
      boxes.set(key, box);
      around.forEach((name, d) => {
        if (!frames.has(name)) frames.set(name, { key: name, frame: around[d - 1] ?? "", line: nodes.line[item.node], item });
      });
    }
    box.items.push(item);
    boxOf[i] = box;
  });
  view.items.forEach((item, i) => {
    for (const s of item.sources) if (boxOf[s] !== boxOf[i]) boxOf[i].sources.add(boxOf[s]);
  });
  for (const box of [...boxes.values()]) {
    finishBox(box, view.step);
    if (box.kind === "input") splitInput(box, boxes);
  }
  for (const frame of frames.values()) frame.title = regionTitle(frame.key, frame.item);
  return { boxes: [...boxes.values()], frames: [...frames.values()] };
}

/** An input that several boxes use stands beside each of them: no long way leads to it. */
function splitInput(input, boxes) {
  const users = [...boxes.values()].filter((box) => box.sources.has(input));
  if (users.length < 2 || users.length > MOST_COPIES) return;
  users.slice(1).forEach((user, i) => {
    const copy = { ...input, key: `${input.key} ${i}`, sources: new Set() };
    boxes.set(copy.key, copy);
    user.sources.delete(input);
    user.sources.add(copy);
  });
}

function regionTitle(key, item) {
  const [what] = key.split(" ");
  if (what === "kernel") return kernels[item.kernel].name;
  if (what === "call") return texts[calls[nodes.call[item.node]]];
  const line = nodes.line[item.node], name = lines[line][2];
  if (what === "function" && !name.startsWith("<")) return `${name}()`;
  return lineText[line] || lineName(line);
}

const RANKS = ["collective", "product", "library", "control", "reduction", "indexing", "elementwise", "movement"];

/** Gives a box its texts and its look. */
function finishBox(box, step) {
  const { items } = box, last = items.at(-1);
  box.lines = new Set(items.map((item) => nodes.line[item.node]).filter((line) => line >= 0));
  box.changes = items.filter((item) => item.change).length;
  box.change = box.changes === items.length ? last.change : "";
  box.sign = items.some((item) => item.change === "removed") ? "−" : "+";
  box.output = items.some((item) => item.output);
  const kinds = new Set(items.map((item) => kindOf(item.node)));
  box.kind = RANKS.find((kind) => kinds.has(kind)) ?? "input";
  box.type = typeOf(last.node, step);
  if (box.region) {
    box.title = regionTitle(box.key, last);
    box.type = `${items.length} nodes · ${box.type}`;
    return;
  }
  const { node } = last;
  const held = bodiesOf(last).length ? " ▸" : "";
  if (box.kind === "input") {
    box.title = inputName(node);
    return;
  }
  const values = nodes.src[node].filter((s) => plain[s]).map(constantText);
  const short = argOf(node).length <= 24 ? argOf(node) : `${argOf(node).slice(0, 23)}…`;
  const more = [short, ...values].filter(Boolean).join(" ");
  box.title = opOf(node) + (more ? ` ${more}` : "") + held;
}
