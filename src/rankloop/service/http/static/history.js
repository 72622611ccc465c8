// Each ranker over time: first what the service remembers, then what its events say.

const MOST = 1800; // half an hour, one event a second
const APART = 0.9; // seconds between what is remembered and the first event, so that no rate is taken over an instant
const KEPT = ["ctr_recent", "ctr", "ndcg", "explored_share", "swap_probability"];

export class History {
  constructor() {
    this.recalled = false;
    this.clear();
  }

  clear() {
    this.points = [];
    this.time = [];
    this.values = Object.fromEntries([...KEPT, "pace", "refusals"].map((name) => [name, []]));
  }

  // `point` is a report, or what `GET /rankers/{name}/history` keeps of one.
  add({ counts, health, weights }, at) {
    const last = this.points.at(-1);
    const seconds = last ? at - last.at : 0;
    const since = (value, before) => (seconds > 0 ? Math.max(0, value - before) / seconds : 0);
    this.time.push(at);
    for (const name of KEPT) this.values[name].push(health[name] ?? null);
    this.values.pace.push(since(counts.learned, last?.counts.learned));
    this.values.refusals.push(since(health.refused, last?.health.refused));
    this.points.push({ at, counts, health, weights });
    if (this.time.length > MOST) this.forget();
  }

  // What was before the first event of this page.
  recall(points) {
    const own = this.points;
    const first = own[0]?.at ?? Infinity;
    this.clear();
    for (const point of points) if (point.at < first - APART) this.add(point, point.at);
    for (const point of own) this.add(point, point.at);
  }

  forget() {
    this.time.shift();
    for (const values of Object.values(this.values)) values.shift();
    this.points.splice(1, 1); // the first one stays: it is what the weights are compared with
  }

  get weights() {
    return this.points.map(({ weights }) => weights);
  }

  get pace() {
    return this.values.pace.at(-1) ?? 0;
  }
}
