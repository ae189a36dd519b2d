// Boxes on a canvas: a flame graph or a timeline. Only what can be seen is drawn, and boxes that are narrower than a
// pixel are drawn together, so a hundred thousand of them stay quick. Body's data attributes have how many were drawn.
"use strict";

const ROW = 18, CHARACTER = 6.65, NARROW = 1.5, MOST_ARROWS = 1500;
const EXCEPTION = 1, OPEN = 2, MERGED = 3;

class Boxes {
  constructor(data) {
    this.data = data;
    this.kind = document.body.dataset.kind;
    this.canvas = $("canvas");
    this.view = $(".view");
    this.pen = this.canvas.getContext("2d");
    this.gutter = data.tracks.length ? 150 : 0;
    this.axis = data.tracks.length ? 20 : 0;
    this.count = data.name.length;
    this.x = new Float64Array(this.count);
    this.width = Float64Array.from(data.width);
    this.row = new Uint32Array(this.count);
    this.first = [0]; // the first box of each row, and the end
    for (const [row, many] of data.counts.entries()) {
      const begin = this.first[row];
      for (let at = begin, x = 0; at < begin + many; at++) {
        x += data.x[at];
        this.x[at] = x;
        this.row[at] = row;
      }
      this.first.push(begin + many);
    }
    const arrows = data.arrows.length ? data.arrows : [[], [], [], [], []];
    [this.senders, this.receivers, this.sent, this.waits, this.arrowNames] = arrows;
    this.hit = null; // for each name, whether it is searched for
    this.hits = []; // boxes that are
    this.focus = -1;
    this.span = data.span || 1;
    this.from = 0;
    this.to = this.span;
    const height = Math.max(data.counts.length, 1) * ROW + this.axis;
    this.filler = document.createElement("div");
    this.view.append(this.filler);
    this.height = height;
    fact("boxes", this.count);
    fact("focus", "");
    fact("arrows", this.sent.length);
    fact("rows", data.counts.length);
  }

  // --- drawing

  later() {
    if (!this.waiting) this.waiting = requestAnimationFrame(() => { this.waiting = 0; this.draw(); });
  }

  place(x) { return this.gutter + (x - this.from) / (this.to - this.from) * (this.wide - this.gutter); }

  draw() {
    const ratio = window.devicePixelRatio || 1, style = getComputedStyle(document.documentElement);
    this.ink = style.getPropertyValue("--text");
    this.dim = style.getPropertyValue("--dim");
    this.line = style.getPropertyValue("--line");
    this.ground = style.getPropertyValue("--ground");
    this.wide = Math.max(this.view.clientWidth, 200);
    this.tall = Math.min(this.height, Math.max(window.innerHeight * 0.7, 120));
    this.view.style.height = `${this.tall}px`;
    this.canvas.width = Math.round(this.wide * ratio);
    this.canvas.height = Math.round(this.tall * ratio);
    this.canvas.style.width = `${this.wide}px`;
    this.canvas.style.height = `${this.tall}px`;
    this.filler.style.height = `${this.height - this.tall}px`;
    const pen = this.pen;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.fillStyle = this.ground;
    pen.fillRect(0, 0, this.wide, this.tall);
    pen.font = "11px ui-monospace, Menlo, Consolas, monospace";
    const top = this.view.scrollTop;
    const low = Math.max(Math.floor(top / ROW), 0);
    const high = Math.min(Math.ceil((top + this.tall) / ROW), this.data.counts.length);
    this.drawn = this.seen = 0;
    pen.save();
    pen.beginPath();
    pen.rect(this.gutter, this.axis, this.wide, this.tall);
    pen.clip();
    for (let row = low; row < high; row++) this.drawRow(row, row * ROW - top + this.axis);
    this.drawArrows(top);
    pen.restore();
    if (this.gutter) this.drawTracks(top);
    if (!this.count && !this.sent.length) { pen.fillStyle = this.dim; pen.fillText("no rows", 8, 14 + this.axis); }
    fact("drawn", this.drawn);
    fact("seen", this.seen);
    fact("from", this.from);
    fact("to", this.to);
  }

  drawRow(row, y) {
    const end = this.first[row + 1], pen = this.pen;
    let run = -1, runFrom = 0, runTo = 0; // boxes that are too narrow, as one: the widest of them gives the colour
    const flush = () => {
      if (run >= 0) this.fill(run, runFrom, y, Math.max(runTo - runFrom, 1));
      run = -1;
    };
    for (let at = this.at(row, this.from); at < end && this.x[at] <= this.to; at++) {
      if (!this.isSeen(at)) continue;
      this.seen++;
      const left = Math.max(this.place(this.x[at]), this.gutter - 2);
      const right = Math.min(this.place(this.x[at] + this.width[at]), this.wide + 2);
      if (right - left < NARROW && at !== this.focus) {
        if (run >= 0 && left - runTo > 1) flush();
        if (run < 0) { run = at; runFrom = left; runTo = right; }
        else {
          runTo = Math.max(runTo, right);
          if (this.width[at] > this.width[run] || (this.isHit(at) && !this.isHit(run))) run = at;
        }
        continue;
      }
      flush();
      this.fill(at, left, y, Math.max(right - left - 0.6, 1));
      if (right - left > 24) this.label(at, left, right, y);
      if (at === this.focus) {
        pen.strokeStyle = this.ink;
        pen.lineWidth = 2;
        pen.strokeRect(left + 1, y + 2, Math.max(right - left - 2, 1), ROW - 4);
      }
    }
    flush();
  }

  // Whether it is in view; one that only touches the view's edge is not.
  isSeen(at) {
    const begin = this.x[at], end = begin + this.width[at];
    return (end > this.from || begin === this.from) && (begin < this.to || this.to === this.span);
  }

  isHit(at) { return this.hit !== null && this.hit[this.data.name[at]] === 1; }

  fill(at, x, y, width) {
    const pen = this.pen, data = this.data, mark = data.mark[at];
    this.drawn++;
    pen.globalAlpha = this.hit === null || this.isHit(at) ? 1 : 0.22;
    const last = data.colours.length - 1;
    pen.fillStyle = data.colours[data.tint ? data.tint[at] : mark === MERGED ? last : data.hues[data.name[at]]];
    pen.fillRect(x, y + 1, width, ROW - 2);
    if (mark === EXCEPTION && width > 2) { pen.fillStyle = "#b3261e"; pen.fillRect(x, y + ROW - 4, width, 3); }
    if (mark === OPEN && width > 4) {
      pen.strokeStyle = this.ink;
      pen.lineWidth = 1;
      pen.setLineDash([3, 2]);
      pen.strokeRect(x + 0.5, y + 1.5, width - 1, ROW - 3);
      pen.setLineDash([]);
    }
    pen.globalAlpha = 1;
  }

  label(at, left, right, y) {
    const room = Math.floor((right - left - 6) / CHARACTER);
    const name = (this.data.mark[at] === EXCEPTION ? "✗ " : "") + this.data.names[this.data.name[at]];
    this.pen.fillStyle = this.hit === null || this.isHit(at) ? "#111" : this.dim;
    this.pen.fillText(name.length > room ? `${name.slice(0, Math.max(room - 1, 1))}…` : name, left + 3, y + 13);
  }

  // The tracks' names and the scale stay where they are.
  drawTracks(top) {
    const pen = this.pen;
    pen.fillStyle = this.ground;
    pen.fillRect(0, 0, this.gutter, this.tall);
    for (const [name, row] of this.data.tracks) {
      const y = row * ROW - top + this.axis;
      if (y < -ROW || y > this.tall) continue;
      pen.strokeStyle = this.line;
      pen.lineWidth = 1;
      pen.beginPath();
      pen.moveTo(0, y + 0.5);
      pen.lineTo(this.wide, y + 0.5);
      pen.stroke();
      pen.fillStyle = this.ink;
      const room = Math.floor((this.gutter - 8) / CHARACTER);
      pen.fillText(name.length > room ? `${name.slice(0, room - 1)}…` : name, 4, y + 13);
    }
    pen.fillStyle = this.ground;
    pen.fillRect(0, 0, this.wide, this.axis);
    pen.fillStyle = this.dim;
    const rough = (this.to - this.from) / Math.max((this.wide - this.gutter) / 110, 1);
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].find((part) => part * power >= rough) * power;
    for (let x = Math.ceil(this.from / step) * step; x <= this.to; x += step) {
      pen.fillRect(this.place(x), this.axis - 5, 1, 5);
      if (this.place(x) < this.wide - 60) pen.fillText(amount(x, this.data.unit), this.place(x) + 3, 12);
    }
  }

  drawArrows(top) {
    const pen = this.pen, rowOf = (track) => this.data.tracks[track][1] * ROW - top + this.axis + ROW / 2;
    let inView = 0;
    this.lines = [];
    for (let at = 0; at < this.sent.length; at++) {
      const wait = this.waits[at], end = this.sent[at] + (wait || 0), a = this.senders[at], b = this.receivers[at];
      if (end < this.from || this.sent[at] > this.to) continue;
      const y1 = rowOf(a >= 0 ? a : b), y2 = rowOf(b >= 0 ? b : a);
      if (Math.max(y1, y2) < 0 || Math.min(y1, y2) > this.tall) continue;
      inView++;
      if (this.lines.length >= MOST_ARROWS) continue;
      const stub = wait === null || a < 0 || b < 0;
      const x1 = this.place(this.sent[at]), x2 = stub ? x1 + (a < 0 ? -12 : 12) : this.place(end);
      this.lines.push([at, x1, y1, x2, stub ? y1 : y2, stub, a < 0]);
    }
    // the more of them, the fainter, or they would hide the calls
    const faint = Math.min(Math.max(60 / this.lines.length, 0.12), 0.75);
    for (const [, ...line] of this.lines) this.arrow(faint, ...line);
    fact("arrowsdrawn", this.lines.length);
    fact("arrowsseen", inView);
  }

  arrow(faint, x1, y1, x2, y2, stub, turned) {
    const pen = this.pen, [ex, ey, bx, by] = turned ? [x1, y1, x2, y2] : [x2, y2, x1, y1];
    pen.strokeStyle = pen.fillStyle = this.ink;
    pen.globalAlpha = faint;
    pen.lineWidth = 1;
    pen.setLineDash(stub ? [2, 2] : []);
    pen.beginPath();
    pen.moveTo(x1, y1);
    pen.lineTo(x2, y2);
    pen.stroke();
    pen.setLineDash([]);
    const angle = Math.atan2(ey - by, ex - bx);
    pen.beginPath();
    pen.moveTo(ex, ey);
    for (const turn of [2.7, -2.7]) pen.lineTo(ex + 7 * Math.cos(angle + turn), ey + 7 * Math.sin(angle + turn));
    pen.fill();
    pen.globalAlpha = 1;
  }

  // --- finding

  // The first box of a row that may reach to x.
  at(row, x) {
    let low = this.first[row], high = this.first[row + 1];
    const begin = low;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.x[middle] < x) low = middle + 1; else high = middle;
    }
    return Math.max(low - 1, begin);
  }

  under(event) {
    const area = this.canvas.getBoundingClientRect();
    const px = event.clientX - area.left, py = event.clientY - area.top;
    if (px < this.gutter || py < this.axis) return { px, py, box: -1 };
    const row = Math.floor((py - this.axis + this.view.scrollTop) / ROW);
    const x = this.from + (px - this.gutter) / (this.wide - this.gutter) * (this.to - this.from);
    return { px, py, x, box: row < this.data.counts.length ? this.boxAt(row, x) : -1 };
  }

  boxAt(row, x) {
    const slack = (this.to - this.from) / this.wide;
    for (let at = this.at(row, x); at < this.first[row + 1] && this.x[at] <= x + slack; at++) {
      if (this.x[at] + this.width[at] >= x - slack) return at;
    }
    return -1;
  }

  arrowAt(px, py) {
    const near = (this.lines || []).find(([, x1, y1, x2, y2]) => {
      const length = (x2 - x1) ** 2 + (y2 - y1) ** 2 || 1;
      const part = Math.min(Math.max(((px - x1) * (x2 - x1) + (py - y1) * (y2 - y1)) / length, 0), 1);
      return Math.hypot(px - x1 - part * (x2 - x1), py - y1 - part * (y2 - y1)) < 4;
    });
    return near ? near[0] : -1;
  }
}
