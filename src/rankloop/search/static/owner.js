// The owner's page: searches, curves, the study, documents, and what is kept.

import { keepKey } from "/page/api.js";
import { offerThemes } from "/page/theme.js";
import { offerForgetting } from "./privacy.js";
import { Progress } from "./progress.js";

const $ = (id) => document.getElementById(id);
const progress = new Progress(fine, failed);

function fine() {
  $("key-form").hidden = true;
  $("view").hidden = false;
  $("problem").textContent = "";
}

function failed(error) {
  if (error.status === 401) {
    $("key-form").hidden = false;
    $("view").hidden = true;
    $("key-problem").textContent = error.message;
    $("key").focus();
    return;
  }
  $("problem").textContent = error instanceof TypeError ? "The service cannot be reached." : error.message;
}

$("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  keepKey($("key").value);
  $("key").value = "";
  progress.start();
});
offerThemes($("theme"), () => progress.redraw());
offerForgetting();
await progress.start();
