// What is kept can be forgotten, and taken along.

import { call, file, hasKey } from "/page/api.js";
import { make } from "/page/format.js";
import { counted } from "./text.js";

const PATIENCE = 5000; // milliseconds in which the second press has to come

// `forgotten` is told what the service forgot: a query, or nothing for all that may be gone.
export function offerForgetting(queryNow, forgotten) {
  const $ = (id) => document.getElementById(id);
  const news = $("forget-news");
  const forget = async (path, body, query) => {
    try {
      const { forgotten: n } = await call("POST", path, body);
      news.textContent = `Forgotten: ${counted(n, "search", "searches")}.`;
      forgotten(query);
    } catch (error) {
      news.textContent = `That was not forgotten: ${error.message}`;
    }
  };
  twice($("forget-query"), () => forget("/search/forget", { query: queryNow() }, queryNow()));
  twice($("forget-me"), () => forget("/search/forget-me", {}));
  const days = $("forget-days");
  const confirmed = twice(days.querySelector("button"), () =>
    forget("/search/forget", { days: Number($("days").value) }),
  );
  days.addEventListener("submit", (event) => {
    event.preventDefault();
    confirmed();
  });
  for (const link of document.querySelectorAll(".exports a"))
    link.addEventListener("click", (event) => save(event, news));
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
