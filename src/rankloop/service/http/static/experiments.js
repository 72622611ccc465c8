// Experiments: wins and losses of interleaved lists, and A/B tests with an interval for each metric.

import { formatted, make, write } from "./format.js";

const SIGNIFICANCE_LEVEL = 0.05;
const PLANNED_EFFECT = "5 %";
const COUNTS = [
  ["wins", "a won", "count"],
  ["ties", "ties", "count"],
  ["losses", "b won", "count"],
  ["win_ratio", "wins per loss", "number"],
  ["p_value", "p-value", "chance"],
];
const COLUMNS = ["Per user", "a", "b", "a relative to b", "95 % interval", "p-value", `Days to find ${PLANNED_EFFECT}`];

function variant({ ranker, weights }) {
  return ranker ?? (weights ? `fixed weights (${weights.join(", ")})` : "the order of the request");
}

function field(name, tag = "dd") {
  const element = make(tag);
  element.dataset.field = name;
  return element;
}

function verdict({ wins, losses, p_value: chance }, [a, b]) {
  if (wins + losses === 0) return "Nothing decided yet.";
  if (chance >= SIGNIFICANCE_LEVEL) return "Could be chance.";
  return wins > losses ? `${a} (a) is better.` : `${b} (b) is better.`;
}

function outcomeWords(outcomes = {}) {
  const seen = Object.entries(outcomes).filter(([, { wins, losses }]) => wins + losses > 0);
  return seen.map(([name, { wins, losses, p_value: chance }]) => {
    const doubt = chance < SIGNIFICANCE_LEVEL ? "decided" : "could be chance";
    return ` ${name}: ${wins} for a, ${losses} for b (${doubt}).`;
  });
}

function interleavedBlock() {
  const numbers = COUNTS.map(([name, label]) => make("div", {}, make("dt", {}, label), field(name)));
  const balance = make("div", { className: "balance" }, make("i"), make("i"), make("i"));
  return [balance, make("dl", {}, ...numbers), make("p", { className: "verdict" })];
}

function fillInterleaved(article, result, variants) {
  [...article.querySelectorAll(".balance i")].forEach((part, i) => {
    part.style.flexGrow = result[["wins", "ties", "losses"][i]];
  });
  for (const [name, , form] of COUNTS) write(article.querySelector(`[data-field=${name}]`), result[name], form);
  article.querySelector(".verdict").textContent = verdict(result, variants) + outcomeWords(result.outcomes).join("");
}

function splitBlock() {
  const heads = COLUMNS.map((words) => make("th", { scope: "col" }, words));
  const table = make("table", { className: "metrics" }, make("thead", {}, make("tr", {}, ...heads)), make("tbody"));
  const scroll = make("div", { className: "scroll", tabIndex: 0, role: "region", ariaLabel: "Metrics per user" }, table);
  return [scroll, make("p", { className: "notice" }), make("p", { className: "verdict" })];
}

function interval() {
  return make("div", { className: "interval" }, make("i", { className: "range" }), make("i", { className: "point" }));
}

function metricRow(name) {
  const cells = ["a", "b", "relative"].map((part) => field(`${name}.${part}`, "td"));
  const row = make("tr", {}, make("th", { scope: "row" }, name), ...cells);
  row.append(make("td", {}, interval(), make("small")), field(`${name}.p_value`, "td"), field(`${name}.days_needed`, "td"));
  return row;
}

// The interval of all metrics on one scale, 0 in the middle.
function drawInterval(row, { relative, relative_low: low, relative_high: high, is_decided: decided }, widest) {
  const box = row.querySelector(".interval");
  box.hidden = relative === null;
  box.dataset.direction = decided ? (relative > 0 ? "up" : "down") : "none";
  const place = (value) => `${50 + (46 * value) / widest}%`;
  const [range, point] = box.children;
  range.style.left = place(low);
  range.style.width = `${(46 * (high - low)) / widest}%`;
  point.style.left = place(relative);
  box.nextSibling.textContent = box.hidden ? "" : `${formatted(low, "change")} to ${formatted(high, "change")}`;
}

function splitVerdict(metrics, [a, b]) {
  const decided = Object.entries(metrics).filter(([, { is_decided: is }]) => is);
  if (decided.length === 0) return "Nothing is decided yet. You may look whenever you like: the p-values allow for it.";
  const better = (sign) => decided.filter(([, { relative }]) => Math.sign(relative) === sign).map(([name]) => name);
  const words = [[a, "a", better(1)], [b, "b", better(-1)]].filter(([, , names]) => names.length > 0);
  return words.map(([name, letter, names]) => `${name} (${letter}) brings more: ${names.join(", ")}.`).join(" ");
}

function fillSplit(article, result, variants) {
  const body = article.querySelector("tbody");
  const names = Object.keys(result.metrics);
  if (body.children.length !== names.length) body.replaceChildren(...names.map(metricRow));
  const ends = Object.values(result.metrics).flatMap(({ relative_low: low, relative_high: high }) => [low, high]);
  const widest = Math.max(0.02, ...ends.map((end) => Math.abs(end ?? 0)));
  names.forEach((name, place) => {
    const row = body.children[place];
    const metric = result.metrics[name];
    const forms = { a: "mean", b: "mean", relative: "change", p_value: "chance", days_needed: "days" };
    for (const [part, form] of Object.entries(forms)) {
      write(row.querySelector(`[data-field="${name}.${part}"]`), metric[part], form);
    }
    drawInterval(row, metric, widest);
  });
  const notice = article.querySelector(".notice");
  notice.textContent = [...result.alarms.map((words) => `Guardrail: ${words}.`), ...result.warnings].join(" ");
  notice.hidden = notice.textContent === "";
  const users = `${formatted(result.users.a, "count")} users saw a, ${formatted(result.users.b, "count")} saw b.`;
  article.querySelector(".verdict").textContent = `${users} ${splitVerdict(result.metrics, variants)}`;
}

function block(name, title, isSplit) {
  const parts = isSplit ? splitBlock() : interleavedBlock();
  const article = make("article", {}, make("h3", {}, title), make("p", { className: "variants" }), ...parts);
  article.dataset.experiment = name;
  return article;
}

export function showExperiments(experiments, report) {
  const box = document.getElementById("experiments");
  const shown = experiments.map((result) => [result.name, result, [variant(result.spec.a), variant(result.spec.b)]]);
  const { evaluation_share: share, base } = report.spec;
  if (base && (share > 0 || report.comparison.wins + report.comparison.losses > 0)) shown.unshift(["/base", report.comparison, [report.name, "the order of its base"]]);
  document.getElementById("experiments-none").hidden = shown.length > 0;
  const before = new Map([...box.children].map((article) => [article.dataset.experiment, article]));
  const blocks = shown.map(([name, result, variants]) => {
    const isSplit = "metrics" in result;
    const article = before.get(name) ?? block(name, name === "/base" ? "With its base" : name, isSplit);
    article.querySelector(".variants").textContent = `${isSplit ? "A/B test by user. " : ""}a: ${variants[0]}. b: ${variants[1]}.`;
    (isSplit ? fillSplit : fillInterleaved)(article, result, variants);
    return article;
  });
  if (blocks.length !== box.children.length || blocks.some((article, i) => box.children[i] !== article))
    box.replaceChildren(...blocks);
}
