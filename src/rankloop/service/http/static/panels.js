// Numbers, clicks by position and experiments: what a report says, written down.

import { at, make, write } from "./format.js";

const SIGNIFICANCE_LEVEL = 0.05;

export function showNumbers(report, pace) {
  for (const element of document.querySelectorAll("#tiles [data-path]")) {
    write(element, at(report, element.dataset.path), element.dataset.form);
  }
  document.getElementById("pace").textContent = pace.toFixed(1);
  document.getElementById("drift-alarm").hidden = !report.health.drift_alarm;
  const frozen = document.getElementById("frozen");
  frozen.hidden = !report.frozen;
  frozen.textContent = `Learning is frozen${report.reason ? `: ${report.reason}` : "."}`;
}

export function showPositions({ ctr_by_position: rates, ndcg }) {
  const graded = ndcg !== null;
  const list = document.getElementById("positions");
  document.getElementById("positions-none").hidden = rates.length > 0;
  list.parentElement.hidden = rates.length === 0 && graded; // rankers with grades have no clicks
  while (list.children.length > rates.length) list.lastChild.remove();
  while (list.children.length < rates.length) {
    list.append(make("li", {}, make("i"), make("span"), make("b", {}, String(list.children.length + 1))));
  }
  const highest = Math.max(...rates, 0.01);
  rates.forEach((rate, place) => {
    const [bar, value] = list.children[place].children;
    bar.style.height = `${(100 * rate) / highest}%`;
    value.dataset.position = place;
    write(value, rate, "percent");
  });
}

function side({ ranker, weights }) {
  return ranker ?? `fixed weights (${weights.join(", ")})`;
}

function verdict({ wins, losses, p_value: chance }, [a, b]) {
  if (wins + losses === 0) return "Nothing decided yet.";
  if (chance >= SIGNIFICANCE_LEVEL) return "Could be chance.";
  return wins > losses ? `${a} (a) is better.` : `${b} (b) is better.`;
}

const FIELDS = [
  ["wins", "a won", "count"],
  ["ties", "ties", "count"],
  ["losses", "b won", "count"],
  ["win_ratio", "wins per loss", "number"],
  ["p_value", "p-value", "chance"],
];

function block(name, title) {
  const numbers = FIELDS.map(([field, label]) => {
    const value = make("dd");
    value.dataset.field = field;
    return make("div", {}, make("dt", {}, label), value);
  });
  const balance = make("div", { className: "balance" }, make("i"), make("i"), make("i"));
  const made = make("article", {}, make("h3", {}, title), make("p"), balance, make("dl", {}, ...numbers), make("p"));
  made.dataset.experiment = name;
  return made;
}

function fill(made, result, sides) {
  made.children[1].textContent = `a: ${sides[0]}. b: ${sides[1]}.`;
  [...made.querySelectorAll(".balance i")].forEach((part, i) => {
    part.style.flexGrow = result[["wins", "ties", "losses"][i]];
  });
  for (const [field, , form] of FIELDS) write(made.querySelector(`[data-field=${field}]`), result[field], form);
  made.lastChild.textContent = verdict(result, sides);
}

export function showExperiments(experiments, report) {
  const box = document.getElementById("experiments");
  const shown = experiments.map((result) => [result.name, result, [side(result.spec.a), side(result.spec.b)]]);
  if (report.spec.base) shown.unshift(["/base", report.comparison, [report.name, "the order of its base"]]);
  document.getElementById("experiments-none").hidden = shown.length > 0;
  const before = new Map([...box.children].map((made) => [made.dataset.experiment, made]));
  const blocks = shown.map(([name, result, sides]) => {
    const made = before.get(name) ?? block(name, name === "/base" ? "With its base" : name);
    fill(made, result, sides);
    return made;
  });
  if (blocks.length !== box.children.length || blocks.some((made, i) => box.children[i] !== made))
    box.replaceChildren(...blocks);
}
