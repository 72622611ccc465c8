// The page: the box sends searches, the list shows results, and clicks are learned from.

import { call, keepKey } from "/page/api.js";
import { make } from "/page/format.js";
import { offerThemes } from "/page/theme.js";
import { SearchInput } from "./box.js";
import { Filters } from "./filters.js";
import { offerKeys } from "./keys.js";
import { offerForgettingMe } from "./privacy.js";
import { Reader } from "./reader.js";
import { ResultList } from "./results.js";
import { counted } from "./text.js";
import { Toast } from "./toast.js";
import { SHOWN, Visit } from "./visit.js";

const PRIVATE = "rankloop-private";
const $ = (id) => document.getElementById(id);
const visit = new Visit();
const toast = new Toast($("toast"));
const list = new ResultList($("results"), $("more"), { open, undo, clicksOf: (id) => visit.clicksOf(id) });
const reader = new Reader($("reader"), (id) => list.rowOf(id)?.querySelector(".title").focus());
const filters = new Filters($("filters"), searchFor);
const box = new SearchInput($("search"), $("query"), { preview, search, clear });
let secret = sessionStorage.getItem(PRIVATE) === "yes";
let shown = { query: "", preview: true, results: [] }; // what is in sight

async function preview(text, signal) {
  try {
    const found = await visit.preview(text, signal);
    if (!signal.aborted) show(found, text, true);
  } catch (error) {
    if (!signal.aborted) failed(error);
  }
}

async function search(text) {
  try {
    show(await visit.search(text, secret, $("sort").value), text, false);
    remember(secret ? "" : text);
  } catch (error) {
    failed(error);
  }
}

function show(found, text, isPreview) {
  shown = { ...found, text, preview: isPreview };
  fine();
  document.body.dataset.view = "results";
  const n = found.results.length;
  $("found").hidden = false;
  $("nothing").hidden = n > 0 || (isPreview && found.suggestions.length > 0);
  $("looked-for").textContent = text;
  $("compared").hidden = !found.compared;
  $("again").hidden = isPreview || n === 0;
  $("found-title").textContent = title(found, n, isPreview);
  $("news").textContent = n === 0 ? `Nothing found for ${text}` : `${$("found-title").textContent}, for ${text}`;
  offer($("suggestions"), isPreview ? found.suggestions : []);
  $("stale").hidden = !found.age_seconds;
  $("stale").textContent = `The engine does not answer. This is what it found ${ageOf(found.age_seconds)} ago.`;
  if (!isPreview) {
    filters.show(found.facets, text);
    $("sorting").hidden = $("sort").value === "relevance" && !found.results.some(({ at }) => at > 0);
  }
  list.show(found);
}

function ageOf(seconds) {
  return seconds < 90 ? counted(Math.round(seconds), "second") : counted(Math.round(seconds / 60), "minute");
}

function searchFor(text) {
  $("query").value = text;
  $("query").focus();
  box.search();
}

// Queries to press: examples, or ends of the word that is being typed.
function offer(place, texts) {
  const chip = (text) => {
    const made = make("button", { type: "button", className: "quiet" }, text);
    made.addEventListener("click", () => searchFor(text));
    return made;
  };
  place.hidden = texts.length === 0;
  place.replaceChildren(...texts.map(chip));
}

function title(found, n, isPreview) {
  if (n === 0) return "No results";
  if (isPreview) return "A preview while you type: Enter searches";
  const number = n === SHOWN ? `The first ${n} results` : counted(n, "result");
  if ($("sort").value === "date") return `${number}, newest first`;
  if (secret) return `${number}, in private`;
  return found.state > 0 ? `${number}, in an order learned from ${counted(found.state, "search", "searches")}` : number;
}

function clear() {
  visit.finish();
  shown = { query: "", preview: true, results: [] };
  document.body.dataset.view = "start";
  $("found").hidden = true;
  $("news").textContent = "";
  offer($("suggestions"), []);
  filters.show({}, "");
  list.show({ query: "", impression: "", results: [] });
  reader.close();
  remember("");
  fine();
}

async function open(id) {
  const result = shown.results.find((one) => one.id === id);
  const counts = shown.preview ? null : visit.click(id);
  const query = visit.current?.query;
  const noted = shown.compared
    ? "Noted for the comparison."
    : `Noted for “${shown.text}”: it counts from your next search.`;
  list.mark();
  try {
    await reader.open(id, `${shown.text} ${shown.did_you_mean ?? ""}`, result.snippet);
    if (shown.preview) toast.say("Opened from the preview: nothing is learned from this click. Press Enter to search.");
    if (counts === null) return;
    await counts;
    toast.say(noted, "Undo", () => undo(id, query));
  } catch (error) {
    list.mark();
    failed(error);
  }
}

async function undo(id, query = visit.current?.query) {
  if (visit.clicksOf(id, query).length === 0) return;
  try {
    const wasLearned = await visit.undo(id, query);
    list.mark();
    toast.say(wasLearned ? "Taken back, and what was learned from it." : "Taken back.");
    if (wasLearned && query === visit.current?.query) await box.search(shown.text);
  } catch (error) {
    list.mark();
    failed(error);
  }
}

function setPrivate(on) {
  secret = on;
  sessionStorage.setItem(PRIVATE, on ? "yes" : "no");
  $("private").setAttribute("aria-pressed", String(on));
  $("private-note").hidden = !on;
  document.body.classList.toggle("secret", on);
  if (on) remember("");
  if (document.body.dataset.view === "results" && !shown.preview) box.search(shown.text);
}

// The query is in the address after #, which browsers keep to themselves: back and reload find it again. An address
// with ?q= opens a search too, as browsers do that have added this page as a search engine.
function remember(text) {
  const hash = text ? `#q=${encodeURIComponent(text)}` : "";
  const address = location.pathname + hash;
  if (location.hash !== hash || location.search) history[text ? "pushState" : "replaceState"](null, "", address);
}

function recall() {
  const asked = location.hash ? location.hash.slice(1) : location.search;
  const text = new URLSearchParams(asked).get("q") ?? "";
  $("query").value = text;
  if (text) box.search();
  else if (document.body.dataset.view === "results") clear();
}

async function start() {
  try {
    const { documents, examples } = await call("GET", "/search/status");
    $("key-form").hidden = true;
    $("view").hidden = false;
    if (unreachable) fine();
    $("n-documents").textContent = documents.toLocaleString("en");
    offer($("examples"), examples);
  } catch (error) {
    failed(error);
  }
  if ((location.hash || location.search) && !$("view").hidden) recall();
}

function failed(error) {
  if (error.status === 401) {
    $("key-form").hidden = false;
    $("view").hidden = true;
    $("key-problem").textContent = error.message;
    $("key").focus();
    return;
  }
  unreachable = error instanceof TypeError;
  $("problem").textContent = unreachable ? "The service cannot be reached." : error.message;
}

let unreachable = false;
function fine() {
  unreachable = false;
  $("problem").textContent = "";
}

function forgotten() {
  visit.forget();
  $("query").value = "";
  clear();
}

$("key-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  keepKey($("key").value);
  $("key").value = "";
  await start();
});
$("again").addEventListener("click", () => box.search(shown.text));
$("private").addEventListener("click", () => setPrivate(!secret));
$("help").addEventListener("click", () => $("keys").showModal());
for (const event of ["pointermove", "pointerdown", "focusin"]) $("results").addEventListener(event, () => box.turn());
addEventListener("pagehide", () => visit.finish(true));
addEventListener("pageshow", (event) => event.persisted && shown.text && !shown.preview && box.search(shown.text));
addEventListener("popstate", recall);
$("sort").addEventListener("change", () => box.search(shown.text));
offerThemes($("theme"), () => {});
offerForgettingMe(forgotten);
offerKeys({
  box: $("query"),
  list,
  reader,
  help: $("keys"),
  undo,
  turn: () => box.turn(),
  why: (row) => shown.impression && list.toggleReasons(row),
  private: () => setPrivate(!secret),
  clear: () => {
    $("query").value = "";
    box.typed();
  },
});
setPrivate(secret);
await start();
