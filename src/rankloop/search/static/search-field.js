// A search field for any page: <script src="http://HOST/search-field.js" data-into="#search"></script>
(() => {
  const script = document.currentScript;
  const base = new URL(script.src).origin;
  const into = document.querySelector(script.dataset.into || "body");
  const link = script.dataset.link || "";
  const key = script.dataset.key;
  let visitor = "";
  try {
    const random = () => crypto.getRandomValues(new Uint8Array(16));
    visitor = localStorage.rankloop ||= Array.from(random(), (b) => b.toString(16).padStart(2, "0")).join("");
  } catch { /* storage is off */ }
  const make = (tag, text, parent) => {
    const element = document.createElement(tag);
    if (text) element.textContent = text;
    parent?.append(element);
    return element;
  };
  const headers = { "Content-Type": "application/json", ...(key && { Authorization: `Bearer ${key}` }) };
  const form = make("form", "", into);
  form.setAttribute("role", "search");
  const field = make("input", "", form);
  Object.assign(field, { type: "search", placeholder: script.dataset.placeholder || "Search" });
  field.setAttribute("aria-label", field.placeholder);
  const status = make("p", "", into);
  status.setAttribute("role", "status");
  const list = make("ol", "", into);
  const report = (impression, id) => {
    const body = JSON.stringify({ impression, clicks: [id], final: true });
    if (key) fetch(`${base}/search/clicks`, { method: "POST", headers, body, keepalive: true });
    else navigator.sendBeacon(`${base}/search/clicks`, new Blob([body], { type: "text/plain" }));
  };
  const marked = (result, parent) => {
    let end = 0;
    for (const [from, to] of result.highlights) {
      parent.append(result.snippet.slice(end, from));
      make("mark", result.snippet.slice(from, to), parent);
      end = to;
    }
    parent.append(result.snippet.slice(end));
  };
  const search = async (text) => {
    const body = JSON.stringify({ text, visitor });
    const answer = await fetch(`${base}/search`, { method: "POST", headers, body }).catch(() => 0);
    if (!answer.ok) return (status.textContent = "The search does not answer.");
    const shown = await answer.json();
    status.textContent = shown.results.length ? "" : "Nothing found.";
    if (shown.did_you_mean) {
      status.append(" Did you mean ");
      const other = make("button", shown.did_you_mean, status);
      other.onclick = () => search((field.value = shown.did_you_mean));
    }
    list.replaceChildren(...shown.results.map((result) => {
      const row = make("li");
      const title = make("a", result.title || result.id, row);
      title.href = link ? link.replace("{id}", result.id.split("/").map(encodeURIComponent).join("/")) : "#";
      title.onclick = () => report(shown.impression, result.id);
      marked(result, make("p", "", row));
      return row;
    }));
  };
  form.onsubmit = (event) => {
    event.preventDefault();
    search(field.value);
  };
})();
