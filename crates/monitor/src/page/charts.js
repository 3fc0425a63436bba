// Small charts of the last rounds: bars, two ticks, and a tooltip for each bar. No library, no colours: style.css has them.
"use strict";

const Charts = (() => {
  const WIDTH = 300;
  const HEIGHT = 130;
  const LEFT = 44;
  const BOTTOM = 18;
  const TOP = 8;

  function svg(tag, attributes, text) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) {
      made.setAttribute(name, String(value));
    }
    if (text !== undefined) {
      made.textContent = text;
    }
    return made;
  }

  /** The next number of the form 1, 2 or 5 times a power of ten. */
  function roundUp(value) {
    if (value <= 0) {
      return 1;
    }
    const power = 10 ** Math.floor(Math.log10(value));
    return [1, 2, 5, 10].find((factor) => factor * power >= value) * power;
  }

  /**
   * Bars over the numbers of rounds.
   *
   * @param label what the chart shows, for those who cannot see it
   * @param bars each { name, parts: [{ value, kind }], title }, drawn one above the other
   * @param format how a number on the axis is written
   */
  function bars(label, bars, format) {
    const chart = svg("svg", { class: "chart", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label });
    const sum = (bar) => bar.parts.reduce((total, part) => total + part.value, 0);
    const most = roundUp(Math.max(0, ...bars.map(sum)));
    const height = HEIGHT - BOTTOM - TOP;
    const y = (value) => TOP + height * (1 - value / most);
    for (const tick of [0, most / 2, most]) {
      chart.append(svg("line", { class: "axis", x1: LEFT, x2: WIDTH, y1: y(tick), y2: y(tick) }));
      chart.append(svg("text", { x: LEFT - 6, y: y(tick) + 4, "text-anchor": "end" }, format(tick)));
    }
    const step = (WIDTH - LEFT) / Math.max(bars.length, 12);
    bars.forEach((bar, i) => {
      const group = svg("g", {});
      group.append(svg("title", {}, bar.title));
      let below = 0;
      for (const part of bar.parts) {
        const top = y(below + part.value);
        const tall = Math.max(y(below) - top, part.value > 0 ? 1 : 0);
        const at = LEFT + i * step + step * 0.12;
        group.append(svg("rect", { class: part.kind, x: at, y: top, width: step * 0.76, height: tall, rx: 1 }));
        below += part.value;
      }
      chart.append(group);
      if (i === 0 || i === bars.length - 1) {
        const middle = Math.min(LEFT + (i + 0.5) * step, WIDTH - 8);
        chart.append(svg("text", { x: middle, y: HEIGHT - 4, "text-anchor": "middle" }, bar.name));
      }
    });
    return chart;
  }

  return { bars };
})();
