// Curves over time, drawn by uPlot in the colours of the style sheet.

import { formatted, make, write } from "./format.js";

const MEASURED_HERE = ["pace", "refusals"]; // from the difference of two events
const COUNTED = ["wins", "losses"];
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const CHARTS = {
  "chart-quality": {
    axis: "percent",
    range: [0, 1],
    lines: [
      ["ctr_recent", "pages with a click, recently", "share", "--one"],
      ["ctr", "all pages", "share", "--three", [4, 4]],
      ["ndcg", "nDCG@10", "number", "--two"],
    ],
  },
  "chart-exploration": {
    axis: "percent",
    range: [0, 1],
    lines: [
      ["explored_share", "explored positions", "share", "--one"],
      ["swap_probability", "swap probability", "share", "--two"],
    ],
  },
  "chart-learning": {
    axis: null,
    range: null,
    lines: [
      ["pace", "updates", "rate", "--one"],
      ["refusals", "refused", "rate", "--two"],
    ],
  },
};

// As fine as the stretch of time needs: days, minutes or seconds.
function clock(time, stretch) {
  const date = new Date(time * 1000);
  if (stretch > 86400) return date.toLocaleDateString("en-GB", { day: "numeric", month: "short" });
  const seconds = stretch < 600 ? { second: "2-digit" } : {};
  return date.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit", ...seconds });
}

// Of a single moment uPlot would draw an axis of years.
function stretchOf({ data: [times] }) {
  const first = times[0] ?? 0;
  return [first, Math.max(times.at(-1) ?? 0, first + 10)];
}

function options({ axis: form, range, lines }, box) {
  const axis = {
    stroke: () => css("--muted"),
    grid: { stroke: () => css("--line"), width: 1 },
    ticks: { show: false },
  };
  const written = (values) => values.map((value) => (form ? `${formatted(value, form)} %` : value));
  return {
    width: box.clientWidth,
    height: 190,
    padding: [10, 26, 0, 0] /* half a label to the right */,
    cursor: { drag: { x: false, y: false }, points: { size: 6 } },
    legend: { show: false },
    scales: { x: { range: stretchOf }, y: { range: range ?? ((_, low, high) => [0, Math.max(1, high * 1.1)]) } },
    axes: [
      {
        ...axis,
        size: 30,
        space: 80,
        values: (_, times) => times.map((time) => clock(time, times.at(-1) - times[0])),
      },
      { ...axis, size: 48, values: (_, values) => written(values) },
    ],
    series: [
      {},
      ...lines.map(([, , , colour, dash]) => ({
        stroke: () => css(colour),
        width: 2,
        dash,
        spanGaps: true,
        points: { show: false },
      })),
    ],
  };
}

function pathOf(name) {
  return `${COUNTED.includes(name) ? "counts" : "health"}.${name}`;
}

export class Charts {
  constructor(charts = CHARTS) {
    this.plots = Object.entries(charts).map(([id, chart]) => this.plot(document.getElementById(id), chart));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.redraw());
  }

  plot(box, chart) {
    const keys = chart.lines.map(([name, label, form, colour]) => {
      const value = make("b");
      if (!MEASURED_HERE.includes(name)) value.dataset.path = pathOf(name);
      const key = make("span", { className: "key" }, make("i"), `${label} `, value);
      key.firstChild.style.background = `var(${colour})`;
      return { name, label, form, value, key };
    });
    box.before(make("p", { className: "legend" }, ...keys.map(({ key }) => key)));
    const plot = new window.uPlot(options(chart, box), [[], ...chart.lines.map(() => [])], box);
    new ResizeObserver(() => plot.setSize({ width: box.clientWidth, height: 190 })).observe(box);
    return { box, plot, keys };
  }

  show(history) {
    for (const { box, plot, keys } of this.plots) {
      plot.setData([history.time, ...keys.map(({ name }) => history.values[name])]);
      for (const { name, form, value, key } of keys) {
        const now = history.values[name].at(-1) ?? null;
        write(value, now, form);
        key.hidden = now === null;
      }
      box.dataset.points = history.time.length;
      box.setAttribute("aria-label", keys.map(({ label, value }) => `${label}: ${value.textContent}`).join("; "));
    }
  }

  redraw() {
    for (const { plot } of this.plots) plot.redraw(false, true);
  }
}
