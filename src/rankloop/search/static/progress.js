// How it goes: counts, curves, the study, the documents.

import { call } from "/page/api.js";
import { Charts } from "/page/charts.js";
import { at, make, write } from "/page/format.js";
import { counted } from "./text.js";

const LOOK_EVERY = 4000; // milliseconds
const MOST = 1800; // points of a curve
const FIRST = {
  "chart-first": { axis: "percent", range: [0, 1], lines: [["ctr_first", "of finished searches", "share", "--one"]] },
  "chart-position": {
    axis: null,
    range: (_, low, high) => [1, Math.max(3, high * 1.1)],
    lines: [["click_position", "1 is the top", "rate", "--two"]],
  },
};
const STUDY = {
  "chart-study": {
    axis: null,
    range: null,
    lines: [
      ["wins", "learned won", "count", "--one"],
      ["losses", "engine won", "count", "--two"],
    ],
  },
};
const $ = (id) => document.getElementById(id);

export class Progress {
  // `failed` is called with an error, `known` after every status.
  constructor(known, failed) {
    this.known = known;
    this.failed = failed;
    this.seen = "";
    this.charts = [];
    $("refresh").addEventListener("click", () => this.refresh());
  }

  start() {
    clearInterval(this.timer);
    this.timer = setInterval(() => document.hidden || this.look(), LOOK_EVERY);
    return this.look();
  }

  async look() {
    try {
      const status = await call("GET", "/search/status");
      this.show(status);
      const seen = JSON.stringify([status.counts, status.study]);
      if (seen !== this.seen) await this.draw(status);
      this.seen = seen;
    } catch (error) {
      if (error.status === 401) clearInterval(this.timer);
      this.failed(error);
    }
  }

  show(status) {
    for (const element of document.querySelectorAll("#progress [data-path][data-form]")) {
      write(element, at(status, element.dataset.path), element.dataset.form);
    }
    $("frozen").hidden = !status.frozen;
    $("study-off").hidden = status.study !== null;
    $("study-on").hidden = $("study-file").hidden = status.study === null;
    if (status.study) this.showStudy(status.study);
    this.showDocuments(status);
    this.known();
  }

  showStudy({ wins, losses, ties, p_value: chance, verdict }) {
    const decided = verdict !== "open";
    const words = wins + losses === 0 ? "Nothing decided yet." : `The ${verdict}.`;
    $("study-verdict").textContent =
      wins + losses > 0 && !decided ? `Still open: it could be chance (p = ${chance.toFixed(3)}).` : words;
    [...document.querySelectorAll("#study .balance i")].forEach((part, i) => {
      part.style.flexGrow = [wins, ties, losses][i];
    });
  }

  showDocuments({ documents, n_skipped: n, skipped }) {
    if (!$("documents-news").dataset.told)
      $("documents-news").textContent = `${counted(documents, "document")} can be found.`;
    const box = $("skipped");
    box.hidden = n === 0;
    box.querySelector("summary").textContent = `${counted(n, "file")} could not be read`;
    const list = box.querySelector("ul");
    if (list.dataset.of === JSON.stringify(skipped)) return;
    list.dataset.of = JSON.stringify(skipped);
    const line = ({ what, reason }) => make("li", {}, make("bdi", {}, what), `: ${reason}`);
    const rest = n > skipped.length ? [make("li", {}, `and ${(n - skipped.length).toLocaleString("en")} more`)] : [];
    list.replaceChildren(...skipped.map(line), ...rest);
  }

  async draw(status) {
    this.points ??= (await call("GET", "/search/history")).points;
    const points = this.points;
    const now = Math.max(Date.now() / 1000, points.at(-1).at); // clocks differ
    points.push({ at: now, health: status.health, counts: status.comparison });
    if (points.length > MOST) points.splice(1, 1);
    const of = (part, name) => points.map((point) => point[part][name] ?? null);
    const health = ["ctr_first", "click_position"].map((name) => [name, of("health", name)]);
    const counts = ["wins", "losses"].map((name) => [name, of("counts", name)]);
    const curves = { time: points.map((point) => point.at), values: Object.fromEntries([...health, ...counts]) };
    this.first ??= this.added(FIRST);
    if (status.study) this.study ??= this.added(STUDY);
    for (const charts of this.charts) charts.show(curves);
    const none = curves.values.ctr_first.every((value) => value === null);
    for (const chart of document.querySelectorAll("#progress .chart")) chart.classList.toggle("waiting", none);
  }

  added(described) {
    const charts = new Charts(described);
    this.charts.push(charts);
    return charts;
  }

  redraw() {
    for (const charts of this.charts) charts.redraw();
  }

  async refresh() {
    const news = $("documents-news");
    $("refresh").disabled = true;
    news.dataset.told = "yes";
    news.textContent = "Reading …";
    try {
      const { documents, added, changed, removed } = await call("POST", "/search/refresh");
      news.textContent = `${counted(documents, "document")}: ${added} new, ${changed} changed, ${removed} gone.`;
      await this.look();
    } catch (error) {
      news.textContent = `They could not be read: ${error.message}`;
    }
    $("refresh").disabled = false;
  }
}
