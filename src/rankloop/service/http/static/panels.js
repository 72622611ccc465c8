// Numbers, outcomes and clicks by position: what a report says, written down.

import { at, make, write } from "./format.js";

function number(tag, path, form) {
  const element = make(tag);
  Object.assign(element.dataset, { path, form });
  return element;
}

// A tile for each outcome that the ranker declares, such as purchases.
function offerOutcomes(names) {
  const tiles = document.getElementById("outcomes");
  tiles.hidden = names.length === 0;
  if ([...tiles.children].map(({ dataset }) => dataset.outcome).join() === names.join()) return;
  const made = names.map((name) => {
    const total = number("b", `outcomes.${name}.total`, "amount");
    const mean = make("small", {}, number("span", `outcomes.${name}.per_impression`, "number"), " per list");
    const tile = make("div", {}, make("dt", {}, `Total ${name}`), make("dd", {}, total, " ", mean));
    tile.dataset.outcome = name;
    return tile;
  });
  tiles.replaceChildren(...made);
}

export function showNumbers(report, pace) {
  offerOutcomes(Object.keys(report.outcomes ?? {}));
  for (const element of document.querySelectorAll(".tiles [data-path]")) {
    const value = at(report, element.dataset.path);
    write(element, value, element.dataset.form);
    // Of grades, and of swaps, only some rankers have any.
    const tile = element.closest("[data-optional]");
    if (tile && element.tagName === "B") tile.hidden = value === null || value === undefined;
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
