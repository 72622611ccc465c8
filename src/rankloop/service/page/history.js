// What the events said of each ranker since the page was opened.

const MOST = 1800; // half an hour, one event a second
const KEPT = ["ctr_recent", "ctr", "ndcg", "exploration_cost", "swap_probability"];

export class History {
  constructor() {
    this.time = [];
    this.values = Object.fromEntries([...KEPT, "pace", "refusals"].map((name) => [name, []]));
    this.weights = [];
    this.last = null;
  }

  add(report, now) {
    const { last } = this;
    const seconds = last ? now - last.now : 0;
    const since = (value, before) => (seconds > 0 ? Math.max(0, value - before) / seconds : 0);
    this.time.push(now);
    for (const name of KEPT) this.values[name].push(report.health[name] ?? null);
    this.values.pace.push(since(report.counts.learned, last?.report.counts.learned));
    this.values.refusals.push(since(report.health.refused, last?.report.health.refused));
    this.weights.push(report.weights);
    this.last = { now, report };
    if (this.time.length > MOST) this.forget();
  }

  forget() {
    this.time.shift();
    for (const values of Object.values(this.values)) values.shift();
    this.weights.splice(1, 1); // the first one stays: it is what the others are compared with
  }

  get pace() {
    return this.values.pace.at(-1) ?? 0;
  }
}
