// Of a ranker with a schema: its weights by name, and why an item of a recent list stands where it does.

import { call } from "./api.js";
import { make, write } from "./format.js";

const LOOK_EVERY = 5000; // milliseconds
const MOST = 12; // contributions

export class Why {
  constructor(section) {
    this.section = section;
    this.picker = section.querySelector("select");
    this.body = section.querySelector("tbody");
    this.score = section.querySelector("[data-score]");
    this.news = section.querySelector(".news");
    this.named = new Map(); // by ranker: weights by name
    this.looked = new Map(); // by ranker: when
    this.shown = null; // { ranker, impression } whose items are offered
    this.picker.addEventListener("change", () => this.explain());
  }

  weightsOf(name) {
    return this.named.get(name) ?? {};
  }

  // Events come once a second; names are asked for less often, and only for the ranker that is looked at.
  async show(ranker) {
    const named = Boolean(ranker.schema);
    this.section.hidden = !named || this.shown?.ranker !== ranker.name;
    if (!named || Date.now() - (this.looked.get(ranker.name) ?? 0) < LOOK_EVERY) return;
    this.looked.set(ranker.name, Date.now());
    const path = `/rankers/${encodeURIComponent(ranker.name)}/weights`;
    const found = await call("GET", path).catch(() => null);
    if (found === null) return;
    this.named.set(ranker.name, Object.fromEntries(found.weights.map(({ name, weight }) => [name, weight])));
    const [newest] = found.impressions;
    if (newest && !this.section.contains(document.activeElement)) this.offer(ranker.name, newest);
  }

  offer(ranker, { impression, ranking }) {
    if (this.shown?.impression !== impression) {
      const words = (id, position) => make("option", { value: id }, `${position + 1}. ${id}`);
      this.picker.replaceChildren(...ranking.map(words));
    }
    this.shown = { ranker, impression };
    this.explain();
  }

  async explain() {
    const { ranker, impression } = this.shown;
    const asked = new URLSearchParams({ impression, id: this.picker.value });
    try {
      const found = await call("GET", `/rankers/${encodeURIComponent(ranker)}/explain?${asked}`);
      if (found.impression !== this.shown.impression || String(found.id) !== this.picker.value) return;
      write(this.score, found.score, "number");
      this.body.replaceChildren(...found.contributions.slice(0, MOST).map(row));
      this.news.textContent = "";
    } catch (error) {
      this.news.textContent = `That cannot be explained: ${error.message}`;
    }
  }
}

function row({ name, contribution, shares_column_with: others }) {
  const value = make("td", { className: "value" });
  value.dataset.contribution = name;
  write(value, contribution, "number");
  const shared = others.length ? [make("small", {}, ` shares its weight with ${others.join(", ")}`)] : [];
  return make("tr", {}, make("th", { scope: "row" }, name, ...shared), value);
}
