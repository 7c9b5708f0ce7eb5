/* What stands beside the graph: the source, what a pass did, a node, the kernels. */
"use strict";

/** Firings that are listed at once. */
const LISTED = 120;

function element(tag, properties, ...children) {
  const { data: own, ...rest } = properties;
  const made = Object.assign(document.createElement(tag), rest);
  Object.assign(made.dataset, own);
  made.append(...children.filter((child) => child !== ""));
  return made;
}

const escaped = (text) => text.replace(/[&<>]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;" })[c]);

const TOKENS = {
  python: /(#.*)|("""[\s\S]*?"""|'''[\s\S]*?'''|[rbfu]*"(?:\\.|[^"\\])*"|[rbfu]*'(?:\\.|[^'\\])*')|\b(and|as|assert|async|await|break|class|continue|def|del|elif|else|except|finally|for|from|global|if|import|in|is|lambda|None|nonlocal|not|or|pass|raise|return|True|False|try|while|with|yield)\b|\b(\d[\d_.]*(?:e[-+]?\d+)?j?)\b/g,
  code: /(;.*|\/\/.*|#.*)|("(?:\\.|[^"\\])*")|\b(define|declare|void|ret|br|label|phi|load|store|call|getelementptr|inbounds|icmp|fcmp|fadd|fmul|fsub|fdiv|add|sub|mul|float|double|i1|i8|i32|i64|ptr|for|if|else|int|long|kernel|global|reduce|const|where)\b|(?<![\w%.])(0x[\da-fA-F]+|\d[\d.]*(?:e[-+]?\d+)?)\b/g,
};
const CLASSES = ["comment", "string", "keyword", "literal"];

function highlight(text, language) {
  let found = "", end = 0;
  for (const match of text.matchAll(TOKENS[language])) {
    const group = match.slice(1, 5).findIndex((part) => part !== undefined);
    found += escaped(text.slice(end, match.index));
    found += `<span class="${CLASSES[group]}">${escaped(match[0])}</span>`;
    end = match.index + match[0].length;
  }
  return found + escaped(text.slice(end));
}

/** A number in few digits; a text where it depends on a dynamic size. */
const amount = (n) => {
  if (typeof n === "string") return n;
  for (const [unit, name] of [[1e12, " T"], [1e9, " G"], [1e6, " M"], [1e3, " k"]]) {
    if (n >= unit) return `${+(n / unit).toPrecision(3)}${name}`;
  }
  return `${+n.toPrecision(3)}`;
};
const bytes = (n) => `${amount(n)}${n >= 1e3 ? "" : " "}B`;
const time = (s) => (s >= 1 ? `${+s.toPrecision(3)} s` : s >= 1e-3 ? `${+(s * 1e3).toPrecision(3)} ms` : `${+(s * 1e6).toPrecision(3)} µs`);
const many = (n, word) => `${n.toLocaleString("en")} ${word}${n === 1 ? "" : "s"}`;

// The source.

const rowOf = [];

function showSource() {
  const pane = $("#source");
  const numbers = new Map(lines.map(([file, line], i) => [`${file}:${line}`, i]));
  files.forEach((file, f) => {
    pane.append(element("h2", { title: file.path }, file.name, element("span", {}, file.path.replace(/[^/\\]*$/, ""))));
    for (const [first, rows] of file.blocks) {
      const block = element("div", { className: "block" });
      rows.forEach((text, i) => {
        const known = numbers.get(`${f}:${first + i}`);
        const row = element("div", { className: "row" }, element("span", { className: "number" }, `${first + i}`),
          element("span", { className: "count" }), element("code", { innerHTML: highlight(text, "python") }));
        if (known !== undefined) {
          row.classList.add("known");
          row.dataset.line = known;
          rowOf[known] = row;
        }
        block.append(row);
      });
      pane.append(block);
    }
  });
  if (!files.length) pane.append(element("p", { className: "muted" }, "No line of yours is known: the function was made by code that has no source."));
}

/** How many nodes each line has in the graph that is shown. */
function countLines(items) {
  const counts = new Map();
  for (const { node } of items) {
    if (kindOf(node) !== "input") counts.set(nodes.line[node], (counts.get(nodes.line[node]) ?? 0) + 1);
  }
  rowOf.forEach((row, line) => {
    const label = row.querySelector(".count");
    label.textContent = counts.get(line) ?? "";
    label.title = `${many(counts.get(line) ?? 0, "node")} in this graph`;
  });
}

// What the pass did.

function passPanel(state) {
  const step = steps[state.step], parts = [];
  const { went, came, renewed } = changesIn(state.step), size = nodesIn(state.step).size;
  const about = step.before < 0 ? `${many(size, "node")}.` :
    `${many(nodesIn(step.before).size, "node")} became ${size.toLocaleString("en")}: ${went.size} went, ${came.size} came` +
    `${renewed ? `, ${renewed} have other operands` : ""}.`;
  parts.push(element("p", {}, element("b", {}, step.name), ` — ${step.about}.`));
  parts.push(element("p", { className: "muted" }, about));
  if (!step.fired.length) {
    if (step.before >= 0 && step.name !== "kernels") parts.push(element("p", { className: "muted" }, "This pass is one piece: it has no rules that would be told one by one."));
    return parts;
  }
  const counts = new Map();
  for (const [rule] of step.fired) counts.set(rule, (counts.get(rule) ?? 0) + 1);
  const chips = [...counts].sort((a, b) => b[1] - a[1]).map(([rule, n]) =>
    element("button", { className: "chip", data: { rule }, ariaPressed: `${state.rule === rule}` }, texts[rule], element("b", {}, `${n}`)));
  parts.push(element("h3", {}, `Rules that fired (${many(step.fired.length + step.unlisted, "time")})`), element("div", { className: "chips" }, ...chips));
  const rows = step.fired.map((firing, i) => [firing, i]).filter(([[rule]]) => state.rule === null || rule === state.rule);
  const until = Math.max(state.listed, state.firing >= 0 ? rows.findIndex(([, i]) => i === state.firing) + 1 : 0);
  parts.push(...rows.slice(0, until).map(([firing, i]) => firingRow(firing, i, i === state.firing)));
  const rest = rows.length - until;
  if (rest > 0) parts.push(element("button", { className: "link muted", data: { more: "" } }, `… ${rest.toLocaleString("en")} more`));
  if (step.unlisted) parts.push(element("p", { className: "muted" }, `${step.unlisted.toLocaleString("en")} later ones are not on this page.`));
  return parts;
}

function firingRow([rule, old, made], i, chosen) {
  return element("button", { className: `firing${chosen ? " chosen" : ""}`, data: { firing: i } },
    element("span", { className: "where" }, lineName(nodes.line[old])),
    element("span", { className: "rule" }, texts[rule]),
    element("pre", { className: "old" }, `− ${describe(old)}`),
    element("pre", { className: "new" }, `+ ${describe(made)}`));
}

// A node, or a region.

function nodePanel(state) {
  const box = state.chosen;
  if (!box) return [element("p", { className: "muted" }, "Click a box of the graph.")];
  if (box.region || box.items.length > 1) return regionParts(box);
  const { node } = box.items[0], parts = [];
  const rows = [
    ["operation", opOf(node)], ["of", kindOf(node) === "input" ? inputName(node) : argOf(node)], ["type", typeOf(node, steps[state.step])],
    ["line", nodes.line[node] < 0 ? "" : `${lineName(nodes.line[node])} in ${lines[nodes.line[node]][2]}`],
    ["number", `%${node}`],
    ["in", steps.filter((_, i) => nodesIn(i).has(node)).map((s) => s.name).join(", ")],
    ["kernels", (kernelsOf.get(node) ?? []).map((k) => kernels[k].name).join(", ")],
  ];
  parts.push(facts(rows));
  bodiesOf(box.items[0]).forEach((_, i, { length }) => {
    parts.push(element("button", { className: "link", data: { body: i } }, element("code", {}, `▸ open body ${i + 1} of ${length}`)));
  });
  const firings = steps.flatMap((step) => step.fired.filter(([, old, made]) => old === node || made === node).map((firing) => [step, firing]));
  if (firings.length) parts.push(element("h3", {}, "Rules"));
  for (const [step, [rule, old, made]] of firings) {
    const text = made === node ? `made by ${texts[rule]} in ${step.name}, of ${describe(old)}` : `replaced by ${texts[rule]} in ${step.name}: ${describe(made)}`;
    parts.push(element("p", {}, text));
  }
  parts.push(...linked("Operands", nodes.src[node]));
  const users = [...nodesIn(state.step)].filter((n) => nodes.src[n].includes(node));
  parts.push(...linked("Used by", users));
  return parts;
}

function regionParts(box) {
  const unique = [...new Set(box.items.map((item) => item.node))];
  const fold = box.region ? [element("button", { className: "link", data: { unfold: box.key } }, element("code", {}, "▸ unfold"))] : [];
  return [
    facts([["region", box.title], ["nodes", `${unique.length}`], ["lines", [...box.lines].map(lineName).join(", ")]]),
    ...fold, ...linked("Nodes", unique),
  ];
}

function linked(title, numbers) {
  if (!numbers.length) return [];
  const rows = numbers.slice(0, LISTED).map((n) =>
    element("button", { className: "link", data: { node: n } }, element("code", {}, `%${n} = ${describe(n)}`), element("br", {}), element("code", { className: "muted" }, typeOf(n))));
  const rest = numbers.length - rows.length;
  return [element("h3", {}, title), ...rows, rest > 0 ? element("p", { className: "muted" }, `… ${rest} more`) : ""];
}

function facts(rows) {
  const kept = rows.filter(([, value]) => value !== "" && value !== undefined);
  return element("dl", {}, ...kept.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, element("code", {}, value))]));
}

// The kernels.

function kernelsPanel(state) {
  const all = kernels.reduce((sum, k) => sum + (k.depth ? 0 : k.seconds ?? 0), 0);
  const parts = [element("p", { className: "muted" },
    `${many(kernels.filter((k) => !k.depth).length, "step")}; ${bytes(data.arena)} between them.${data.limits ? ` This machine: ${data.limits}.` : ""}`)];
  if (data.mesh) parts.unshift(element("p", {}, `Of one device of ${data.mesh}.`));
  kernels.forEach((kernel, k) => {
    parts.push(kernelCard(kernel, k, all, state.kernel === k));
    if (state.kernel === k) parts.push(kernelCode(kernel, k, state.code));
  });
  return parts;
}

function kernelCard(kernel, k, all, open) {
  const work = [kernel.operations ? `${amount(kernel.operations)} operations` : "", kernel.bytes ? bytes(kernel.bytes) : "", kernel.limit].filter(Boolean);
  const card = element("button", { className: "kernel", ariaExpanded: `${open}`, data: { kernel: k } },
    element("span", { className: "head" }, element("code", {}, kernel.name), element("span", {}, kernel.seconds === null ? "" : time(kernel.seconds))));
  card.style.setProperty("--depth", kernel.depth);
  if (kernel.seconds !== null && all) {
    const bar = element("i", {});
    bar.style.width = `${(100 * kernel.seconds) / all}%`;
    card.append(element("div", { className: "bar" }, bar));
  }
  card.append(element("span", { className: "muted" }, [...work, ...kernel.lines.slice(0, 3).map(lineName)].join(" · ")));
  return card;
}

function kernelCode(kernel, k, chosen) {
  const views = [["statements", kernel.statements.length], ["loops", texts[kernel.loops]], ["source", texts[kernel.source]], ["assembly", texts[kernel.assembly]]].filter(([, has]) => has);
  const shown = views.some(([name]) => name === chosen) ? chosen : views[0]?.[0];
  const names = { statements: "statements", loops: "loops", source: data.device.startsWith("cpu") ? "LLVM IR" : "source", assembly: "assembly" };
  const part = element("div", { className: "code", data: { of: k } }, element("div", { className: "segments" },
    ...views.map(([name]) => element("button", { data: { code: name }, ariaPressed: `${name === shown}` }, names[name]))));
  if (shown === "statements") {
    if (kernel.schedule) part.append(element("pre", { className: "words" }, kernel.schedule));
    const rows = kernel.statements.map(([text, line, node]) =>
      element("span", { className: "statement", innerHTML: highlight(text, "code"), title: lineName(line), data: { line, node, kernel: k } }));
    part.append(element("pre", {}, ...rows));
  } else if (shown) {
    part.append(element("pre", { innerHTML: highlight(texts[kernel[shown]], "code") }));
  }
  return part;
}

// What devices tell each other.

function collectivesPanel() {
  const total = collectives.reduce((sum, [, , , nbytes, times]) => sum + nbytes * times, 0);
  const rows = collectives.map(([kind, axis, type, nbytes, times, operation, line], i) =>
    element("button", { className: "firing", data: { collective: i } },
      element("span", { className: "where" }, lineName(line)), element("span", { className: "rule" }, `${kind} over ${axis}`),
      element("pre", {}, `${type}, for ${operation}\n${bytes(nbytes)}${times > 1 ? ` × ${times}` : ""}`)));
  return [element("p", { className: "muted" }, `${many(collectives.length, "collective")}; each device receives ${bytes(total)}.`), ...rows];
}

const PANELS = { pass: passPanel, node: nodePanel, kernels: kernelsPanel, collectives: collectivesPanel };
const TITLES = { pass: "Pass", node: "Node", kernels: "Kernels", collectives: "Collectives" };

function showPanel(state) {
  const tabs = Object.keys(PANELS).filter((name) => name !== "collectives" || collectives.length);
  $("#tabs").replaceChildren(...tabs.map((name) =>
    element("button", { role: "tab", ariaSelected: `${name === state.tab}`, data: { tab: name } }, TITLES[name])));
  const panel = $("#panel"), same = panel.dataset.tab === state.tab, top = panel.scrollTop;
  panel.dataset.tab = state.tab;
  panel.replaceChildren(...PANELS[state.tab](state).filter((part) => part !== ""));
  panel.scrollTop = same ? top : 0;
}
