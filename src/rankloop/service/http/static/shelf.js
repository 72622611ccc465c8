// The playground: the shelf is ranked, a click is feedback, the next ranking glides into place.

import { call, Problem } from "./api.js";
import { make } from "./format.js";
import { describe, drawPrint } from "./prints.js";

export const PLAYGROUND = "playground";
const GLIDE = { duration: 700, easing: "cubic-bezier(.2, .8, .2, 1)" };

export class Shelf {
  constructor(list, news, shelf) {
    this.list = list;
    this.news = news;
    this.shelf = shelf;
    this.impression = null;
    this.busy = false;
    this.entries = new Map(shelf.prints.map((print) => [print.id, this.entry(print)]));
    list.append(...this.entries.values());
    list.addEventListener("keydown", (event) => this.move(event));
    this.number();
  }

  entry(print) {
    const button = make("button", { type: "button", className: "print", title: describe(print, this.shelf) });
    button.append(
      drawPrint(print),
      make("span", { className: "place" }),
      make("span", { className: "name" }, print.id),
    );
    button.addEventListener("click", () => this.like(print.id));
    const entry = make("li", {}, button);
    entry.dataset.id = print.id;
    return entry;
  }

  async rank() {
    const answer = await call("POST", `/rankers/${PLAYGROUND}/rank`, { items: this.shelf.prints });
    this.impression = this.list.dataset.impression = answer.impression;
    this.arrange(answer.ranking);
  }

  async like(id) {
    if (this.busy) return;
    this.busy = true;
    this.list.setAttribute("aria-busy", "true");
    const before = this.place(id);
    this.entries.get(id).classList.add("liked");
    try {
      if (this.impression === null) await this.rank();
      await call("POST", `/rankers/${PLAYGROUND}/feedback`, { impression: this.impression, clicks: [id], final: true });
      await this.rank();
      this.news.textContent = `${id} moved from position ${before} to ${this.place(id)}.`;
    } catch (error) {
      await this.explain(error);
    } finally {
      this.entries.get(id).classList.remove("liked");
      this.list.removeAttribute("aria-busy");
      this.busy = false;
    }
  }

  // The feedback window of the shelf may have closed: then rank again.
  async explain(error) {
    const closed = error instanceof Problem && (error.status === 410 || error.status === 404);
    this.impression = null;
    this.news.textContent = closed
      ? "This ranking was too old to learn from. Here is a new one: click again."
      : `That did not work: ${error.message}`;
    if (closed) await this.rank().catch(() => {});
  }

  // The order by the current weights, while simulated users run: it needs no request, so no impression is counted.
  predict(weights) {
    const score = ({ features }) =>
      features.reduce((sum, value, i) => sum + value * (weights[this.shelf.features[i]] ?? 0), 0);
    const scored = this.shelf.prints.map((print) => [score(print), print.id]);
    this.arrange(scored.sort((a, b) => b[0] - a[0]).map(([, id]) => id));
  }

  arrange(order) {
    const from = new Map([...this.entries].map(([id, entry]) => [id, entry.getBoundingClientRect()]));
    const focused = document.activeElement;
    this.list.append(...order.map((id) => this.entries.get(id)));
    if (this.list.contains(focused)) focused.focus({ preventScroll: true });
    this.number();
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) return;
    for (const [id, entry] of this.entries) this.glide(entry, from.get(id));
  }

  glide(entry, from) {
    const to = entry.getBoundingClientRect();
    const [x, y] = [from.left - to.left, from.top - to.top];
    if (x || y) entry.animate([{ transform: `translate(${x}px, ${y}px)` }, { transform: "none" }], GLIDE);
  }

  number() {
    [...this.list.children].forEach((entry, i) => {
      const print = this.shelf.prints.find(({ id }) => id === entry.dataset.id);
      entry.querySelector(".place").textContent = i + 1;
      entry.firstChild.setAttribute("aria-label", `Position ${i + 1}: ${print.id}, ${describe(print, this.shelf)}`);
    });
  }

  place(id) {
    return [...this.list.children].indexOf(this.entries.get(id)) + 1;
  }

  move(event) {
    const entries = [...this.list.children];
    const here = entries.indexOf(event.target.closest("li"));
    const columns = getComputedStyle(this.list).gridTemplateColumns.split(" ").length;
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns }[event.key];
    const there = entries[here + step];
    if (here < 0 || !there) return;
    event.preventDefault();
    there.firstChild.focus();
  }
}
