// The states that a rollback can restore, the newest first.

import { call } from "./api.js";
import { make } from "./format.js";

const LOOK_EVERY = 5000; // milliseconds
const MOST = 12;

export class States {
  constructor(section) {
    this.section = section;
    this.list = section.querySelector("ol");
    this.looked = new Map(); // by ranker: when
  }

  async show(ranker) {
    if (Date.now() - (this.looked.get(ranker.name) ?? 0) < LOOK_EVERY) return;
    this.looked.clear();
    this.looked.set(ranker.name, Date.now());
    const path = `/rankers/${encodeURIComponent(ranker.name)}/snapshots`;
    const listed = await call("GET", path).catch(() => null);
    this.section.hidden = listed === null;
    if (listed === null) return;
    const newest = listed.snapshots.slice(-MOST).reverse();
    if (newest.at(-1).state !== 0) newest.push(listed.snapshots[0]);
    this.list.replaceChildren(...newest.map((row) => item(row, listed.state)));
  }
}

function item({ state, at, same_as: origin }, served) {
  const parts = [`State ${state}, ${new Date(at * 1000).toLocaleString("en-GB")}`];
  if (origin !== null) parts.push(`the same as state ${origin}`);
  if (state === served) parts.push("served");
  const body = make("li", {}, parts.join(", "));
  body.dataset.state = state;
  return body;
}
