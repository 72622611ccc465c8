// The keyboard is enough.

const typing = (target) => target.matches?.("input, textarea, select") ?? false;

// `acts`: box (the input), list, reader, help (a dialog), turn(), clear(), why(row), undo(id), private().
export function offerKeys(acts) {
  const { box, list, reader, help } = acts;
  const toBox = () => {
    box.focus();
    box.select();
  };
  const plain = {
    "/": toBox,
    "?": () => help.showModal(),
    p: () => acts.private(),
    w: () => list.focused() && acts.why(list.focused()),
    u: () => list.focused() && acts.undo(list.focused().dataset.id),
  };

  function escape() {
    if (reader.isOpen) reader.close();
    else if (list.focused()) toBox();
    else if (document.activeElement === box) acts.clear();
    else toBox();
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || help.open) return;
    const inBox = event.target === box;
    const elsewhere = typing(event.target) && !inBox;
    let done = true;
    if (event.key === "Escape") escape();
    else if (event.key === "ArrowDown" && (inBox || list.focused())) (list.step(1), acts.turn());
    else if (event.key === "ArrowUp" && list.focused()) list.step(-1) || box.focus();
    else if (!inBox && !elsewhere && event.key in plain) plain[event.key]();
    else done = false;
    if (done) event.preventDefault();
  });
}
