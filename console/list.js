// A table of any length, of which only the rows in sight are there. Rows that are not loaded yet are asked for when they come
// into sight.

import { h, show } from "./dom.js";

/** Rows beyond what is in sight, so that a little scrolling shows no gap. */
const BEYOND = 8;

export class List {
  /**
   * `columns` are headings; `row` makes the cells of an item. `boxed` scrolls by itself rather than with the page. `need` is told
   * which rows are in sight and not there, `seen` which are in sight.
   */
  constructor({ name, label, columns, row, empty, boxed = false, need = null, seen = null }) {
    Object.assign(this, { name, row, empty, need, seen });
    this.items = [];
    this.total = 0;
    this.columns = columns;
    this.rows = h("div", { class: "rows", role: "rowgroup" });
    this.nothing = h("div", { class: "empty" });
    const heading = h(
      "div",
      { class: "row heading", role: "row", "aria-rowindex": "1" },
      columns.map((column) => h("div", { role: "columnheader" }, column)),
    );
    this.table = h(
      "div",
      { role: "table", "aria-label": label },
      h("div", { role: "rowgroup", class: "headings" }, heading),
      this.rows,
    );
    this.element = h(
      "div",
      { class: `list ${name}${boxed ? " boxed" : ""}`, onkeydown: (event) => this.keyDown(event) },
      this.table,
      this.nothing,
    );
    if (boxed) {
      // Else nobody could scroll it by keyboard.
      this.element.tabIndex = 0;
      this.element.setAttribute("role", "region");
      this.element.setAttribute("aria-label", `${label}, scrolls`);
    }
    this.scheduled = 0;
    this.moved = () => this.schedule();
    addEventListener("scroll", this.moved, { capture: true, passive: true });
    addEventListener("resize", this.moved, { passive: true });
  }

  end() {
    removeEventListener("scroll", this.moved, { capture: true });
    removeEventListener("resize", this.moved);
    cancelAnimationFrame(this.scheduled);
  }

  /** Shows these; `total` says how many there are if not all are here. */
  set(items, total = items.length) {
    [this.items, this.total] = [items, Math.max(total, items.length)];
    this.draw();
  }

  schedule() {
    this.scheduled ||= requestAnimationFrame(() => {
      this.scheduled = 0;
      this.draw();
    });
  }

  draw() {
    const isEmpty = this.total === 0;
    this.table.hidden = isEmpty;
    this.nothing.hidden = !isEmpty;
    if (isEmpty) {
      show(this.rows);
      show(this.nothing, this.empty?.());
      return;
    }
    const height = parseFloat(getComputedStyle(this.rows).getPropertyValue("--row")) || 44;
    this.rows.style.height = `${height * this.total}px`;
    this.table.setAttribute("aria-rowcount", String(this.total + 1));
    const [first, last] = this.inSight(height);
    const rows = [];
    let missing = false;
    for (let index = first; index < last; index++) {
      const item = this.items[index];
      missing ||= item === undefined;
      rows.push(this.drawRow(item, index, height));
    }
    show(this.rows, rows);
    if (missing) this.need?.(first, last);
    this.seen?.(first, last);
  }

  drawRow(item, index, height) {
    const attributes = {
      key: index,
      class: item === undefined ? "row loading" : "row",
      role: "row",
      "aria-rowindex": String(index + 2),
      style: { transform: `translateY(${index * height}px)` },
    };
    if (item === undefined) return h("div", attributes, h("div", { role: "cell" }, "…"));
    const { cells, mark } = this.row(item, index);
    if (mark) attributes.class += ` ${mark}`;
    return h(
      "div",
      attributes,
      cells.map((cell, at) => h("div", { role: "cell", "data-column": this.columns[at] }, cell)),
    );
  }

  inSight(height) {
    const rows = this.rows.getBoundingClientRect();
    const box = this.element.getBoundingClientRect();
    const top = Math.max(0, this.element.classList.contains("boxed") ? box.top : 0);
    const bottom = Math.min(innerHeight, this.element.classList.contains("boxed") ? box.bottom : innerHeight);
    const first = Math.max(0, Math.floor((top - rows.top) / height) - BEYOND);
    const last = Math.min(this.total, Math.ceil((bottom - rows.top) / height) + BEYOND);
    return [Math.min(first, this.total), Math.max(first, last)];
  }

  /** Moves from row to row by the arrows. */
  keyDown(event) {
    const steps = { ArrowDown: 1, ArrowUp: -1, Home: -Infinity, End: Infinity };
    const step = steps[event.key];
    if (step === undefined || !event.target.closest(".row") || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    this.move(step);
  }

  /** To the row so many further down; to the first that is in sight if none is chosen. */
  move(step) {
    const from = document.activeElement?.closest?.(".row");
    const chosen = from && this.rows.contains(from) ? from.key : null;
    const height = parseFloat(getComputedStyle(this.rows).getPropertyValue("--row")) || 44;
    const [first] = this.inSight(height);
    const start = first > 0 ? first + BEYOND : 0;
    const index = Math.max(0, Math.min(this.total - 1, chosen === null ? start : chosen + step));
    this.reveal(index, height);
    this.draw();
    const row = [...this.rows.children].find((row) => row.key === index);
    row?.querySelector("a, button")?.focus({ preventScroll: true });
  }

  reveal(index, height) {
    const boxed = this.element.classList.contains("boxed");
    const rows = this.rows.getBoundingClientRect();
    const box = this.element.getBoundingClientRect();
    const heading = boxed ? this.table.firstElementChild.offsetHeight : 72;
    const [top, bottom] = boxed ? [box.top + heading, box.bottom] : [heading, innerHeight];
    const at = rows.top + index * height;
    const by = at < top ? at - top : at + height > bottom ? at + height - bottom : 0;
    if (by) (boxed ? this.element : document.scrollingElement).scrollTop += by;
  }
}
