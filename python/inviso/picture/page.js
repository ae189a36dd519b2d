// What the pages of all pictures share: the theme, the data, texts of amounts, and the tools above the picture.
"use strict";

const $ = (selector) => document.querySelector(selector);
const say = (text) => { $(".status").textContent = text || "\u00a0"; };
const fact = (name, value) => { document.body.dataset[name] = value; };

// In a notebook the theme is the notebook's, which the system's may differ from.
function theme() {
  try {
    const body = window.frameElement && window.parent.document.body;
    if (!body) return;
    const lab = body.dataset.jpThemeLight;
    const dark = lab === "false" || body.classList.contains("vscode-dark");
    const light = lab === "true" || body.classList.contains("vscode-light");
    document.documentElement.classList.toggle("dark", dark);
    document.documentElement.classList.toggle("light", light && !dark);
  } catch { /* a frame of another origin: the system's theme */ }
}
theme();

// The data: JSON, compressed, as base64.
async function unpacked() {
  const bytes = Uint8Array.from(atob($("#data").textContent), (letter) => letter.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).json();
}

function short(value) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  return value.toLocaleString("en", size >= 1 ? { maximumFractionDigits: size < 10 ? 2 : size < 100 ? 1 : 0 }
    : { maximumSignificantDigits: 2 });
}

function amount(value, unit) {
  const scales = unit === "ns" ? [[1e9, "s"], [1e6, "ms"], [1e3, "µs"]]
    : unit === "bytes" ? [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]] : [];
  const found = scales.find(([scale]) => Math.abs(value) >= scale);
  return found ? `${short(value / found[0])} ${found[1]}` : `${short(value)} ${unit}`.trim();
}

// What the tools and keys do is the picture's: zoom(factor), reset(), search(text) -> a text, next(backwards).
function tools(picture) {
  const field = $("input[type=search]");
  const look = () => { $(".found").textContent = picture.search(field.value); };
  field.addEventListener("input", look);
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter") picture.next(event.shiftKey);
    else if (event.key === "Escape") { field.value = ""; look(); picture.canvas.focus(); }
    else return;
    event.preventDefault();
  });
  $("#in").onclick = () => picture.zoom(0.5);
  $("#out").onclick = () => picture.zoom(2);
  $("#reset").onclick = () => picture.reset();
  document.addEventListener("keydown", (event) => {
    if (event.target === field || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "/") { field.focus(); field.select(); }
    else if (event.key === "+" || event.key === "=") picture.zoom(0.5);
    else if (event.key === "-") picture.zoom(2);
    else if (event.key === "0" || event.key === "Escape") picture.reset();
    else if (!picture.key(event)) return;
    event.preventDefault();
  });
}
