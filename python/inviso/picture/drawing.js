// A drawing that is in the page already, a graph or a histogram: zoom, search, and what an item is.
"use strict";

class Drawing {
  constructor() {
    this.canvas = $(".drawing");
    this.svg = $(".drawing > svg");
    this.whole = this.svg.getAttribute("viewBox").split(" ").map(Number);
    this.box = [...this.whole];
    this.items = [...document.querySelectorAll(".item")];
    this.hits = [];
    fact("items", this.items.length);
    for (const kind of ["node", "edge", "bar"]) fact(`${kind}s`, document.querySelectorAll(`.item.${kind}`).length);
  }

  show(box) {
    this.box = box;
    this.svg.setAttribute("viewBox", box.join(" "));
    fact("width", box[2]);
  }

  // Zooms about a point of the drawing; without one, its middle.
  zoom(factor, x = this.box[0] + this.box[2] / 2, y = this.box[1] + this.box[3] / 2) {
    const [left, top, width, height] = this.box;
    const size = Math.min(Math.max(width * factor, this.whole[2] / 50), this.whole[2]), by = size / width;
    if (size === this.whole[2]) this.show([...this.whole]);
    else this.show([x - (x - left) * by, y - (y - top) * by, size, height * by]);
  }

  reset() {
    this.show([...this.whole]);
    this.light(null);
    say("");
  }

  move(x, y) { this.show([this.box[0] + x * this.box[2], this.box[1] + y * this.box[3], this.box[2], this.box[3]]); }

  search(text) {
    const wanted = text.trim().toLowerCase();
    this.hits = wanted ? this.items.filter((item) => item.dataset.name.toLowerCase().includes(wanted)) : [];
    this.turn = -1;
    for (const item of this.items) {
      item.classList.toggle("hit", this.hits.includes(item));
      item.classList.toggle("faded", Boolean(wanted) && !this.hits.includes(item));
    }
    fact("hits", this.hits.length);
    return wanted ? `${this.hits.length} found` : "";
  }

  next(backwards) {
    const many = this.hits.length;
    if (!many) return;
    this.turn = (this.turn + (backwards ? -1 : 1) + many) % many;
    say(this.hits[this.turn].dataset.name);
  }

  // Fades all but one item, and what belongs to it: edges of a process, processes of an edge.
  light(item) {
    const { id, a, b } = item ? item.dataset : {};
    for (const other of this.items) {
      const { id: node, a: from, b: to } = other.dataset;
      const belongs = id === undefined ? other === item || [a, b].includes(node) : [node, from, to].includes(id);
      other.classList.toggle("faded", (id !== undefined || a !== undefined) && !belongs);
    }
    fact("lit", item ? item.dataset.name : "");
  }

  key(event) {
    const ways = { ArrowLeft: [-0.1, 0], ArrowRight: [0.1, 0], ArrowUp: [0, -0.1], ArrowDown: [0, 0.1] };
    if (!ways[event.key]) return false;
    this.move(...ways[event.key]);
    return true;
  }

  listen() {
    for (const item of this.items) {
      const enter = () => { say(item.dataset.name); if (!this.hits.length) this.light(item); };
      const leave = () => { if (!this.hits.length) this.light(null); };
      item.addEventListener("pointerenter", enter);
      item.addEventListener("focus", enter);
      item.addEventListener("pointerleave", leave);
      item.addEventListener("blur", leave);
    }
    this.svg.addEventListener("wheel", (event) => {
      if (!event.ctrlKey) return;
      const { x, y } = new DOMPoint(event.clientX, event.clientY).matrixTransform(this.svg.getScreenCTM().inverse());
      this.zoom(Math.exp(event.deltaY / 300), x, y);
      event.preventDefault();
    }, { passive: false });
    this.svg.addEventListener("pointermove", (event) => {
      const area = this.svg.getBoundingClientRect();
      if (event.buttons) this.move(-event.movementX / area.width, -event.movementY / area.height);
    });
  }
}

const picture = new Drawing();
window.picture = picture;
picture.listen();
tools(picture);
fact("ready", "yes");
