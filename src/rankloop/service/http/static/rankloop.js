// Feedback from a shop's page:
// <script src="https://HOST/rankloop.js" data-ranker="shop" data-key="PUBLIC KEY"></script>
// rankloop.show(impression); rankloop.click("p7"); rankloop.outcome("purchase", "p7", 1);
// Nothing is stored in the browser unless data-remember="DAYS" asks for it.
(() => {
  const script = document.currentScript;
  const { ranker, experiment, key, remember } = script.dataset;
  const path = experiment ? `experiments/${encodeURIComponent(experiment)}` : `rankers/${encodeURIComponent(ranker)}`;
  const query = key ? `?key=${encodeURIComponent(key)}` : "";
  const address = `${new URL(script.src).origin}/${path}/feedback${query}`;
  const storage = "rankloop-items";
  const waiting = new Set(); // bodies that the service has not acknowledged
  let shown = "";

  const stored = () => {
    try {
      const now = Date.now();
      const items = JSON.parse(localStorage[storage] || "{}");
      return Object.fromEntries(Object.entries(items).filter(([, entry]) => entry.until > now));
    } catch {
      return {}; // storage is off
    }
  };
  const keep = (id, impression) => {
    try {
      const entry = { impression, until: Date.now() + 864e5 * remember };
      localStorage[storage] = JSON.stringify({ ...stored(), [id]: entry });
    } catch { /* storage is off */ }
  };

  const post = async (text, tries) => {
    try {
      // Plain text without credentials needs no preflight, and is what a beacon sends.
      const options = { method: "POST", body: text, headers: { "Content-Type": "text/plain" } };
      const answer = await fetch(address, { ...options, keepalive: true, credentials: "omit" });
      if (answer.status < 500 && answer.status !== 429) {
        waiting.delete(text);
        return answer.ok;
      }
    } catch { /* no network: try again */ }
    if (tries >= 5 || !waiting.has(text)) return false;
    await new Promise((resolve) => setTimeout(resolve, 500 * 2 ** tries));
    return waiting.has(text) && post(text, tries + 1);
  };
  const send = (impression, feedback) => {
    if (!impression) return Promise.resolve(false);
    const text = JSON.stringify({ impression, ...feedback });
    waiting.add(text);
    return post(text, 0);
  };
  addEventListener("pagehide", () => {
    for (const text of waiting) {
      if (navigator.sendBeacon(address, new Blob([text], { type: "text/plain" }))) waiting.delete(text);
    }
  });

  window.rankloop = {
    // The impression that the shop's server got with the ranking. With a selector, elements that have
    // data-item="ID" report their own clicks.
    show(impression, selector) {
      shown = impression;
      for (const element of selector ? document.querySelectorAll(selector) : []) {
        element.addEventListener("click", () => this.click(element.dataset.item));
      }
    },
    click(id, impression = shown) {
      if (remember) keep(id, impression);
      return send(impression, { clicks: [id] });
    },
    // The impression is that of this page, or the one in which a remembered item was clicked.
    outcome(name, id, value = 1, impression = stored()[id]?.impression || shown) {
      return send(impression, { outcomes: { [name]: { [id]: value } } });
    },
    forget() {
      try {
        delete localStorage[storage];
      } catch { /* storage is off */ }
    },
  };
})();
