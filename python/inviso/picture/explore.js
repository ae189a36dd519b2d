// What one can do with boxes: zoom, move, search, go from box to box, and see what a box is.
"use strict";

class Explorer extends Boxes {
  describe(at) {
    const { data } = this, unit = data.unit, share = (part) => ` (${short(100 * part / this.span)} %)`;
    let text = `${data.names[data.name[at]]} · ${amount(this.width[at], unit)}${share(this.width[at])}`;
    if (data.own && data.mark[at] !== MERGED && data.own[at] !== null) text += ` · own ${amount(data.own[at], unit)}`;
    if (data.before) text += ` · before ${amount(data.before[at] || 0, unit)}`;
    if (data.tracks.length) text += ` · begins after ${amount(this.x[at], unit)}`;
    return text + (["", " · raised an exception", " · has not ended", "", " · its end was lost"][data.mark[at]] || "");
  }

  describeArrow(at) {
    const name = (track) => (track < 0 ? "?" : this.data.tracks[track][0]);
    const wait = this.waits[at] === null ? "not received, or not known when" : `waited ${amount(this.waits[at], "ns")}`;
    return `${this.arrowNames[at] || "message"} · ${name(this.senders[at])} → ${name(this.receivers[at])} · ${wait}`;
  }

  show(from, to) {
    const least = this.span / 1e9, size = Math.min(Math.max(to - from, least), this.span);
    this.from = Math.min(Math.max(from, 0), this.span - size);
    this.to = this.from + size;
    this.later();
  }

  zoom(factor, x) {
    const box = this.focus;
    if (x === undefined) x = box < 0 ? (this.from + this.to) / 2 : this.x[box] + this.width[box] / 2;
    x = Math.min(Math.max(x, this.from), this.to);
    this.show(x - (x - this.from) * factor, x + (this.to - x) * factor);
  }

  pan(part) { this.show(this.from + part * (this.to - this.from), this.to + part * (this.to - this.from)); }

  reset() {
    this.show(0, this.span);
    this.view.scrollTop = 0;
    this.select(-1);
  }

  select(at) {
    this.focus = at;
    fact("focus", at < 0 ? "" : this.data.names[this.data.name[at]]);
    say(at < 0 ? "" : this.describe(at));
    if (at >= 0) {
      const y = this.row[at] * ROW, top = this.view.scrollTop, room = this.tall - this.axis - ROW;
      if (y < top || y > top + room) this.view.scrollTop = y - room / 2;
    }
    this.later();
  }

  zoomTo(at) {
    this.select(at);
    const edge = this.gutter ? this.width[at] * 0.1 : 0;
    if (this.width[at] > 0) this.show(this.x[at] - edge, this.x[at] + this.width[at] + edge);
  }

  // Selects a box, and moves the view if that one is outside of it, or too narrow to be seen.
  reach(at) {
    this.select(at);
    const width = this.width[at] || this.span / 1e6, middle = this.x[at] + width / 2;
    if (this.x[at] < this.from || middle > this.to || width / (this.to - this.from) * this.wide < 3) {
      this.show(middle - width * 3, middle + width * 3);
    }
  }

  search(text) {
    const wanted = text.trim().toLowerCase();
    this.hits = [];
    this.hit = null;
    this.turn = -1;
    if (wanted) {
      this.hit = Uint8Array.from(this.data.names, (name) => (name.toLowerCase().includes(wanted) ? 1 : 0));
      for (let at = 0; at < this.count; at++) if (this.isHit(at)) this.hits.push(at);
    }
    this.later();
    fact("hits", this.hits.length);
    if (!wanted) return "";
    const found = `${this.hits.length.toLocaleString("en")} found`;
    return this.kind === "flame" ? `${found}, ${short(100 * this.covered() / this.span)} %` : found;
  }

  // How much of the whole the boxes that were found have, those within others not counted again.
  covered() {
    const boxes = this.hits.map((at) => [this.x[at], this.x[at] + this.width[at]]).sort((a, b) => a[0] - b[0]);
    let sum = 0, end = 0;
    for (const [from, to] of boxes) {
      sum += Math.max(to - Math.max(from, end), 0);
      end = Math.max(end, to);
    }
    return sum;
  }

  next(backwards) {
    const many = this.hits.length;
    if (!many) return;
    this.turn = (this.turn + (backwards ? -1 : 1) + many) % many;
    this.reach(this.hits[this.turn]);
  }

  key(event) {
    const side = { ArrowLeft: -1, ArrowRight: 1 }[event.key], way = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (side && event.shiftKey) { this.pan(side * 0.25); return true; }
    if (event.target !== this.canvas) return false;
    if (event.key === "Enter") { if (this.focus >= 0) this.zoomTo(this.focus); return true; }
    if (!side && !way) return false;
    if (this.focus < 0) { if (this.count) this.reach(this.firstSeen()); return true; }
    const row = this.row[this.focus];
    if (side) {
      const at = this.focus + side;
      if (at >= this.first[row] && at < this.first[row + 1]) this.reach(at);
      return true;
    }
    for (let to = row + way; to >= 0 && to < this.data.counts.length; to += way) {
      const middle = this.x[this.focus] + this.width[this.focus] / 2, at = this.below(to, middle);
      if (at >= 0) { this.reach(at); break; }
    }
    return true;
  }

  // The box of a row at x; downwards that of what a box called first, if nothing is beneath its middle.
  below(row, x) {
    const at = this.boxAt(row, x);
    if (at >= 0) return at;
    const from = this.x[this.focus], to = from + this.width[this.focus];
    for (let near = this.at(row, from); near < this.first[row + 1] && this.x[near] < to; near++) {
      if (this.x[near] >= from) return near;
    }
    return -1;
  }

  firstSeen() {
    for (let row = 0; row < this.data.counts.length; row++) {
      if (this.first[row + 1] > this.first[row]) return Math.min(this.at(row, this.from), this.first[row + 1] - 1);
    }
    return 0;
  }

  listen() {
    let grip = null;
    const { canvas } = this;
    canvas.addEventListener("pointerdown", (event) => {
      grip = { x: event.clientX, from: this.from, to: this.to, moved: false };
    });
    window.addEventListener("pointerup", () => { if (grip && !grip.moved) grip = null; });
    canvas.addEventListener("pointermove", (event) => {
      if (grip && event.buttons) {
        const by = (event.clientX - grip.x) / (this.wide - this.gutter) * (grip.to - grip.from);
        grip.moved ||= Math.abs(event.clientX - grip.x) > 3;
        if (grip.moved) this.show(grip.from - by, grip.to - by);
        return;
      }
      const { px, py, box } = this.under(event), arrow = this.arrowAt(px, py);
      const shown = box >= 0 ? box : this.focus;
      say(arrow >= 0 ? this.describeArrow(arrow) : shown >= 0 ? this.describe(shown) : "");
      canvas.style.cursor = box >= 0 ? "pointer" : "grab";
    });
    canvas.addEventListener("click", (event) => {
      const moved = grip && grip.moved, { box } = this.under(event);
      grip = null;
      if (moved) return;
      if (box >= 0 && this.kind === "flame") this.zoomTo(box); else this.select(box);
    });
    canvas.addEventListener("dblclick", (event) => {
      const { box } = this.under(event);
      if (box >= 0) this.zoomTo(box);
    });
    canvas.addEventListener("wheel", (event) => {
      if (event.ctrlKey) this.zoom(Math.exp(event.deltaY / 300), this.under(event).x);
      else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
        this.pan((event.deltaX || event.deltaY) / 800);
      } else return;
      event.preventDefault();
    }, { passive: false });
    this.view.addEventListener("scroll", () => this.later());
    window.addEventListener("resize", () => this.later());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.later());
  }
}

unpacked().then((data) => {
  const picture = new Explorer(data);
  window.picture = picture;
  picture.draw();
  picture.listen();
  tools(picture);
  fact("ready", "yes");
}, (error) => say(`This picture can't be drawn: ${error}`));
