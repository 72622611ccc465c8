// The largest weights, where they stand now, where they stood at first, and the way between.

import { formatted, make, write } from "./format.js";

const MOST = 12;
const SPARK = { width: 88, height: 22 };

function line(values) {
  const low = Math.min(...values, 0);
  const high = Math.max(...values, 0);
  const span = high - low || 1;
  const step = SPARK.width / Math.max(values.length - 1, 1);
  return values
    .map(
      (value, i) =>
        `${(i * step).toFixed(1)},${(SPARK.height - 2 - ((value - low) / span) * (SPARK.height - 4)).toFixed(1)}`,
    )
    .join(" ");
}

function row(name) {
  const body = document.createElement("tr");
  body.innerHTML = `<th scope="row"></th>
    <td class="bar"><svg viewBox="-100 0 200 18" preserveAspectRatio="none" aria-hidden="true">
      <line x1="0" x2="0" y1="0" y2="18" class="zero"/>
      <rect y="4" height="10"/>
      <line y1="1" y2="17" class="first"/></svg></td>
    <td class="value"></td>
    <td class="moved"><svg viewBox="0 0 ${SPARK.width} ${SPARK.height}" aria-hidden="true">
      <polyline/></svg><span></span></td>`;
  body.querySelector("th").textContent = name;
  body.querySelector(".value").dataset.weight = name;
  return body;
}

function fill(body, name, values, scale) {
  const [first, now] = [values[0], values.at(-1)];
  const bar = body.querySelector("rect");
  bar.setAttribute("x", Math.min(0, now * scale));
  bar.setAttribute("width", Math.abs(now * scale));
  bar.classList.toggle("negative", now < 0);
  const mark = body.querySelector(".first");
  mark.setAttribute("x1", first * scale);
  mark.setAttribute("x2", first * scale);
  write(body.querySelector(".value"), now, "number");
  body.querySelector("polyline").setAttribute("points", line(values));
  const moved = now - first;
  body.querySelector(".moved span").textContent = `${moved > 0 ? "+" : ""}${formatted(moved, "number")}`;
}

export class Weights {
  constructor(table, none) {
    this.body = table.tBodies[0];
    this.table = table;
    this.none = none;
    this.rows = new Map();
  }

  show(history) {
    const names = Object.keys(history.weights.at(-1)).slice(0, MOST);
    this.table.hidden = names.length === 0;
    this.none.hidden = names.length > 0;
    const series = names.map((name) => history.weights.map((weights) => weights[name] ?? 0));
    const largest = Math.max(...series.map((values) => Math.max(Math.abs(values[0]), Math.abs(values.at(-1)))), 1e-9);
    const rows = names.map((name) => this.rows.get(name) ?? row(name));
    rows.forEach((body, i) => fill(body, names[i], series[i], 96 / largest));
    this.rows = new Map(names.map((name, i) => [name, rows[i]]));
    if (rows.some((body, i) => this.body.children[i] !== body) || this.body.children.length !== rows.length)
      this.body.replaceChildren(...rows);
  }
}
