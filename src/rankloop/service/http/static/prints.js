// A print drawn from its features: warm or cool, round or angular, busy or quiet, bold or faint.

const SVG = "http://www.w3.org/2000/svg";

function element(tag, attributes, parent) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  parent?.append(made);
  return made;
}

// A small generator seeded by the name, so that a print always looks the same.
function draws(name) {
  let state = [...name].reduce((sum, letter) => (sum * 31 + letter.charCodeAt(0)) >>> 0, 7);
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

function places(busy) {
  if (!busy)
    return [
      [46, 38, 25],
      [80, 60, 16],
    ];
  const grid = [];
  for (const y of [18, 45, 72]) for (const x of [24, 60, 96]) grid.push([x, y, 12]);
  return grid;
}

export function drawPrint({ id, features: [warm, round, busy, bold] }) {
  const next = draws(id);
  const hue = warm > 0 ? 8 + 34 * next() : 168 + 60 * next();
  const ink = bold > 0 ? [68, 52] : [34, 74];
  const svg = element("svg", { viewBox: "0 0 120 90", "aria-hidden": "true" });
  element("rect", { width: 120, height: 90, fill: `hsl(${hue} ${bold > 0 ? 48 : 34}% ${bold > 0 ? 86 : 93}%)` }, svg);
  for (const [x, y, radius] of places(busy > 0)) {
    const shade = hue + (next() - 0.5) * 46;
    const size = radius * (0.75 + 0.4 * next()) * (bold > 0 ? 1.12 : 0.92);
    const fill = `hsl(${shade} ${ink[0]}% ${ink[1] + 12 * (next() - 0.5)}%)`;
    if (round > 0) element("circle", { cx: x, cy: y, r: size, fill }, svg);
    else {
      const turn = `rotate(${Math.round(next() * 90)} ${x} ${y})`;
      element(
        "rect",
        { x: x - size * 0.9, y: y - size * 0.9, width: size * 1.8, height: size * 1.8, fill, transform: turn },
        svg,
      );
    }
  }
  return svg;
}

export function describe(print, shelf) {
  return print.features
    .map((value, i) => (value > 0 ? shelf.features[i] : shelf.opposites[shelf.features[i]]))
    .join(", ");
}
