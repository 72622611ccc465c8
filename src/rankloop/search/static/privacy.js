// What is kept can be forgotten, and taken along.

import { call, file, hasKey } from "/page/api.js";
import { make } from "/page/format.js";
import { counted } from "./text.js";

const PATIENCE = 5000; // milliseconds in which the second press has to come

const $ = (id) => document.getElementById(id);

async function forget(path, body, forgotten = () => {}) {
  const news = $("forget-news");
  try {
    const { forgotten: n } = await call("POST", path, body);
    news.textContent = `Forgotten: ${counted(n, "search", "searches")}.`;
    forgotten();
  } catch (error) {
    news.textContent = `Not deleted: ${error.message}`;
  }
}

// A visitor may take back everything of their own.
export function offerForgettingMe(forgotten) {
  twice($("forget-me"), () => forget("/search/forget-me", {}, forgotten));
}

// The owner may forget a query, or all that is old, and take the log along.
export function offerForgetting() {
  const confirm = (form, body) => {
    const confirmed = twice(form.querySelector("button"), () => forget("/search/forget", body()));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      confirmed();
    });
  };
  confirm($("forget-query"), () => ({ query: $("forgotten").value }));
  confirm($("forget-days"), () => ({ days: Number($("days").value) }));
  for (const link of document.querySelectorAll(".exports a"))
    link.addEventListener("click", (event) => save(event, $("forget-news")));
}

// What cannot be taken back asks once more.
function twice(button, act) {
  let words = null;
  let timer;
  const calm = () => {
    clearTimeout(timer);
    if (words !== null) button.textContent = words;
    words = null;
    delete button.dataset.asked;
  };
  const press = () => {
    if (button.dataset.asked) {
      calm();
      act();
      return;
    }
    words = button.textContent;
    button.textContent = "Really? Press again";
    button.dataset.asked = "yes";
    timer = setTimeout(calm, PATIENCE);
  };
  if (button.type !== "submit") button.addEventListener("click", press);
  button.addEventListener("blur", calm);
  return press;
}

// A link sends no key, so with one the file is fetched and handed over.
async function save(event, news) {
  if (!hasKey()) return;
  event.preventDefault();
  const link = event.currentTarget;
  try {
    const address = URL.createObjectURL(await file(link.getAttribute("href")));
    make("a", { href: address, download: link.download }).click();
    setTimeout(() => URL.revokeObjectURL(address), 60_000);
  } catch (error) {
    news.textContent = `That could not be exported: ${error.message}`;
  }
}
