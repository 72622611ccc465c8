// What this visitor searched and clicked. A list with clicks is finished, and learned from, before the next one is
// asked for. One without expires, and nothing is learned from it: a search may be made by a pointer that passes, and
// who reads the answer in the list has no reason to click.

import { call } from "/page/api.js";
import { sameQuery } from "./text.js";

export const SHOWN = 50; // results of one search; a page shows them ten at a time
const PREVIEWED = 10;
const ORDERS = "rankloop-orders"; // ids by query, as they stood the last time; gone with the tab
const MAX_ORDERS = 50;

export class Visit {
  constructor() {
    this.current = null; // the list that clicks count for: { query, impression, compared }
    this.clicked = new Map(); // by query: by id: impressions in which it was clicked
    this.sending = Promise.resolve(); // clicks and ends go out one after the other
  }

  preview(text, signal) {
    return call("POST", "/search", { text, n: PREVIEWED, prefix: true }, { signal });
  }

  // The results, each with `moved`: how many positions it went up since the last search of this query.
  async search(text, secretly, sort = "relevance") {
    await this.finish();
    const body = { text, n: SHOWN, sort, facets: true };
    if (secretly) return call("POST", "/search", { ...body, private: true });
    const found = await call("POST", "/search", body);
    const query = sameQuery(text);
    if (found.impression) this.current = { query, impression: found.impression, compared: found.compared };
    compare(query, found.results);
    return found;
  }

  // Nothing more can come for the list that is open. `leaving`: the page may be gone before the answer comes.
  finish(leaving = false) {
    if (this.current === null) return this.sending;
    const { impression, compared } = this.current;
    const clicked = [...(this.clicked.get(this.current.query)?.values() ?? [])].flat().includes(impression);
    this.current = null;
    if (!clicked && !compared) return this.sending;
    const send = () => report({ impression, clicks: [], final: true }).catch(() => {}); // a late end harms nobody
    this.sending = leaving ? send() : this.sending.then(send);
    return this.sending;
  }

  // Whether it counts: not in private, not of a preview, not twice.
  click(id) {
    if (this.current === null || this.clicksOf(id).includes(this.current.impression)) return null;
    const { query, impression } = this.current;
    const sent = this.sending.then(() => report({ impression, clicks: [id] }));
    this.note(query, id, [...this.clicksOf(id), impression]);
    this.sending = sent.catch(() =>
      this.note(
        query,
        id,
        this.clicksOf(id, query).filter((one) => one !== impression),
      ),
    );
    return sent;
  }

  note(query, id, impressions) {
    if (!this.clicked.has(query)) this.clicked.set(query, new Map());
    this.clicked.get(query).set(id, impressions);
  }

  clicksOf(id, query = this.current?.query) {
    return this.clicked.get(query)?.get(id) ?? [];
  }

  // Takes the last click on a document back; whether it had been learned from.
  async undo(id, query) {
    await this.sending;
    const impression = this.clicksOf(id, query).at(-1);
    await call("POST", "/search/undo", { impression, id });
    this.note(query, id, this.clicksOf(id, query).slice(0, -1));
    return impression !== this.current?.impression;
  }

  // The service has forgotten this visitor.
  forget() {
    this.clicked.clear();
    sessionStorage.removeItem(ORDERS);
    this.current = null;
  }
}

function report(body) {
  return call("POST", "/search/clicks", body, { keepalive: true });
}

function compare(query, results) {
  const known = orders();
  const before = known[query] ?? [];
  results.forEach((result, position) => {
    const last = before.indexOf(result.id);
    result.moved = last < 0 ? 0 : last - position;
  });
  delete known[query];
  known[query] = results.map(({ id }) => id);
  keep(Object.fromEntries(Object.entries(known).slice(-MAX_ORDERS)));
}

function orders() {
  try {
    return JSON.parse(sessionStorage.getItem(ORDERS)) ?? {};
  } catch {
    return {};
  }
}

function keep(known) {
  sessionStorage.setItem(ORDERS, JSON.stringify(known));
}
