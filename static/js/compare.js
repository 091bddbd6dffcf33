// Up to six runs in one chart. Each line has its own colour and its own dashes.

import { live } from "./frame.js";
import { LineChart } from "./line_chart.js";

const words = JSON.parse(document.getElementById("chart-words").textContent);
const tools = document.getElementById("chart-tools");
const chart = new LineChart(document.getElementById("plot"), { label: words.chart, words });

function draw(page) {
  const { lines } = JSON.parse(page.querySelector("#chart-data script").textContent);
  chart.setLines(lines.map((line, index) => ({ ...line, color: index + 1, dash: index, smooth: true })));
  document.getElementById("legend").replaceChildren(
    ...lines.map(({ key, label }) => {
      const item = document.createElement("li");
      item.append(chart.sample(key), label);
      return item;
    }),
  );
}

tools.addEventListener("input", () => {
  chart.smoothing = Number(tools.smoothing.value);
  chart.isLog = tools.log.checked;
  tools.smoothed.value = tools.smoothing.value;
});
tools.reset.addEventListener("click", () => chart.resetZoom());
chart.onzoom = (isZoomed) => (tools.reset.hidden = !isZoomed);
live.onPage = draw;
chart.smoothing = Number(tools.smoothing.value);
draw(document);
