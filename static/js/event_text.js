// An event as one line of text; the same rules as training/event_text.py.

const MAX_TEXT = 1000;
const NONFINITE = { nan: "NaN", inf: "Infinity" };
const LOSSES = ["loss", "eval_loss", "final_loss", "best_eval_loss"];

export function numberText(value) {
  if (Number.isInteger(value)) return String(BigInt(value));
  if (Math.abs(value) >= 1000) return value.toFixed(0);
  if (Math.abs(value) < 1e-4) {
    const [digits, exponent] = value.toExponential(3).split("e");
    const power = Math.abs(Number(exponent));
    return `${Number(digits)}e${exponent[0]}${String(power).padStart(2, "0")}`;
  }
  return String(Number(value.toPrecision(4)));
}

function valueText(name, data) {
  const value = data[name];
  if (LOSSES.includes(name) && value === null) return NONFINITE[data.nonfinite] ?? "";
  if (value === undefined || value === null || value === "") return "";
  if (typeof value === "string") return value.slice(0, MAX_TEXT);
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value === "number") return numberText(value);
  return JSON.stringify(value).slice(0, MAX_TEXT);
}

export function eventText(event, { shownFields, bareFields }) {
  const parts = [];
  for (const name of shownFields[event.type] ?? []) {
    const text = valueText(name, event.data);
    if (text) parts.push(bareFields.includes(name) ? text : `${name} ${text}`);
  }
  if (event.type === "status" && event.attempt > 1) parts.push(`attempt ${event.attempt}`);
  return parts.join(" · ");
}
