// The score matrix as tiles on a canvas: one pixel a tile, scaled up without smoothing; marks and frames lie over it.

import { cellAt, equalRuns, makeGrid, maskEdge, massLevel, mixed, visitsOf } from "./core_attention.mjs";
import { share } from "./core_attention_text.mjs";
import { h } from "./dom.mjs";

const SHADES = 64;
const ROOM_FOR_FRAMES = 5; // pixels a tile needs for a frame of its own
const ROOM_FOR_CROSSES = 14;
const ROOM_FOR_NUMBERS = [52, 22];
const COLOURS = ["surface", "ink", "muted", "rule", "rule-strong", "target", "target-tint", "target-text", "standard-tint", "rejected", "residual"];

/** The colours of a theme, as #rrggbb by name. */
export function themeColours(root) {
  const style = getComputedStyle(root);
  return Object.fromEntries(COLOURS.map((name) => [name, style.getPropertyValue(`--sv-${name}`).trim()]));
}

export function makeMatrix({ onPick }) {
  const canvas = h("canvas", { class: "sv-att-canvas", role: "img", tabindex: "0" });
  const [tiles, marks, frames] = [0, 1, 2].map(() => document.createElement("canvas"));
  const pen = canvas.getContext("2d");
  let scene = null; // what `show` was given, and what follows from it
  let framedUntil = -1;
  canvas.addEventListener("click", (event) => {
    if (!scene) return;
    const { grid, rows, keys } = scene;
    const box = canvas.getBoundingClientRect();
    onPick(cellAt(grid, ((event.clientY - box.top) / box.height) * rows, ((event.clientX - box.left) / box.width) * keys));
  });

  /** A track over so many queries and keys, on a canvas of this size in CSS pixels. */
  function show({ track, queries, keys, colours, width, height }) {
    const { schedule } = track;
    const grid = makeGrid(schedule, queries, keys);
    const rows = queries * schedule.group;
    const density = Math.min(2, window.devicePixelRatio || 1);
    const [w, tall] = [Math.round(width * density), Math.round(height * density)];
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    for (const one of [canvas, marks, frames]) Object.assign(one, { width: w, height: tall });
    Object.assign(tiles, { width: grid.across, height: grid.down });
    const x = (key) => Math.round((key / keys) * w);
    const y = (row) => Math.round((row / rows) * tall);
    const image = tiles.getContext("2d").createImageData(grid.across, grid.down);
    scene = {
      track, grid, rows, keys, queries, colours, density, x, y, image, visits: visitsOf(schedule, grid), pixels: new Uint32Array(image.data.buffer),
      cells: schedule.steps.worker.map((_, i) => indexOf(grid, grid.cell(i))), shades: shadesOf(schedule, colours),
      slices: equalRuns(grid.rows).flatMap((down) => equalRuns(grid.columns).map((across) => ({ down, across }))),
      box: ({ row, column }) => [x(grid.columns[column]), y(grid.rows[row]), x(grid.columns[column + 1]) - x(grid.columns[column]), y(grid.rows[row + 1]) - y(grid.rows[row])],
    };
    framedUntil = Infinity;
    drawMarks();
  }

  /** What never changes while the film plays: skipped and masked tiles, the mask's edge, the cuts between splits. */
  function drawMarks() {
    const { track: { schedule: { steps } }, grid, colours, density, x, y, rows, keys, queries, box } = scene;
    const over = marks.getContext("2d");
    const hatch = pattern(over, colours["rule-strong"], density);
    steps.kind.forEach((kind, i) => {
      const cell = grid.cell(i);
      if (!cell || (kind !== "masked" && kind !== "skipped")) return;
      const [left, top, w, tall] = box(cell);
      if (kind === "masked") {
        over.fillStyle = hatch;
        over.fillRect(left, top, w, tall);
      } else crossOut(over, [left, top, w, tall], colours, density);
    });
    over.strokeStyle = colours.ink;
    over.lineWidth = density;
    over.beginPath();
    for (const [key, row] of maskEdge(keys - queries, queries)) over.lineTo(x(key), y((row / queries) * rows));
    over.stroke();
    over.fillStyle = colours.ink;
    for (const key of cutsOf(steps, grid)) over.fillRect(x(key) - density, 0, 2 * density, y(rows));
  }

  /** The film at a moment: `active` steps run, `picked` is a cell or null. */
  function draw({ time, active, picked }) {
    const { track: { film }, cells, pixels, shades, image, slices, grid, box, colours, density, x, y } = scene;
    pixels.fill(0);
    for (let i = 0; i < cells.length; i++) if (cells[i] >= 0 && film.ends[i] <= time + film.slack && shades[i]) pixels[cells[i]] = shades[i];
    for (const i of active) if (cells[i] >= 0) pixels[cells[i]] = shades[i];
    tiles.getContext("2d").putImageData(image, 0, 0);
    pen.imageSmoothingEnabled = false;
    pen.fillStyle = colours.surface;
    pen.fillRect(0, 0, canvas.width, canvas.height);
    for (const { down, across } of slices) {
      const [left, top] = [x(grid.columns[across.from]), y(grid.rows[down.from])];
      pen.drawImage(tiles, across.from, down.from, across.to - across.from, down.to - down.from, left, top, x(grid.columns[across.to]) - left, y(grid.rows[down.to]) - top);
    }
    drawFrames(time);
    pen.drawImage(frames, 0, 0);
    writeShares(time);
    pen.strokeStyle = colours.ink;
    pen.lineWidth = 2 * density;
    for (const i of active) strokeInside(boxOfStep(i), density);
    if (!picked) return;
    pen.strokeStyle = colours.residual;
    pen.lineWidth = 3 * density;
    strokeInside(box(picked), 1.5 * density);
  }

  /** Where tiles are large enough, their share of attention also as a number. */
  function writeShares(time) {
    const { track: { film, schedule: { steps } }, cells, grid, box, density, colours } = scene;
    const [, , w, tall] = box({ row: 0, column: 0 });
    if (w < ROOM_FOR_NUMBERS[0] * density || tall < ROOM_FOR_NUMBERS[1] * density) return;
    pen.font = `600 ${12 * density}px system-ui, sans-serif`;
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    for (let i = 0; i < cells.length; i++) {
      if (cells[i] < 0 || steps.mass[i] === null || film.starts[i] >= time) continue;
      const [left, top, width, height] = box({ row: Math.floor(cells[i] / grid.across), column: cells[i] % grid.across });
      const text = share(steps.mass[i]);
      const room = pen.measureText(text).width + 8 * density;
      if (width < room) continue;
      pen.fillStyle = colours.surface;
      pen.fillRect(left + (width - room) / 2, top + height / 2 - 9 * density, room, 18 * density);
      pen.fillStyle = colours.ink;
      pen.fillText(text, left + width / 2, top + height / 2);
    }
  }

  const strokeInside = ([left, top, w, tall], inset) => pen.strokeRect(left + inset, top + inset, Math.max(1, w - 2 * inset), Math.max(1, tall - 2 * inset));

  /** A step over whole rows has a box as wide as its keys; one without keys a sliver at the left. */
  function boxOfStep(i) {
    const { steps } = scene.track.schedule;
    const { x, y, density } = scene;
    const left = x(steps.k0[i]);
    return [left, y(steps.r0[i]), Math.max(4 * density, x(steps.k1[i]) - left), y(steps.r1[i]) - y(steps.r0[i])];
  }

  /** Over the marks visited tiles are framed; while the film runs on, only the new ones are drawn. */
  function drawFrames(time) {
    const { track: { film, schedule: { steps } }, grid, box, colours, density, cells } = scene;
    const over = frames.getContext("2d");
    const [, , w, tall] = box({ row: 0, column: 0 });
    if (time < framedUntil) {
      over.clearRect(0, 0, frames.width, frames.height);
      over.drawImage(marks, 0, 0);
      framedUntil = -1;
    }
    if (Math.min(w, tall) < ROOM_FOR_FRAMES * density) return;
    const small = Math.min(w, tall) < ROOM_FOR_CROSSES * density;
    over.strokeStyle = small ? colours.surface : colours["rule-strong"];
    over.lineWidth = density;
    over.beginPath();
    for (let i = 0; i < cells.length; i++) {
      if (cells[i] < 0 || steps.kind[i] === "skipped" || film.ends[i] > time + film.slack || film.ends[i] <= framedUntil + film.slack) continue;
      const [left, top, width, height] = box({ row: Math.floor(cells[i] / grid.across), column: cells[i] % grid.across });
      const [x, y] = [left + density / 2, top + density / 2];
      if (small) { // two edges: with four, neighbours would leave nothing of each other
        over.moveTo(x, top + height);
        over.lineTo(x, y);
        over.lineTo(left + width, y);
      } else over.rect(x, y, width - density, height - density);
    }
    over.stroke();
    framedUntil = time;
  }

  return { canvas, show, draw, visits: (cell) => scene.visits.get(indexOf(scene.grid, cell)) ?? [], cellOf: (i) => scene.grid.cell(i) };
}

const indexOf = (grid, cell) => (cell ? cell.row * grid.across + cell.column : -1);

/** A pixel for each step: its attention mass on the scale, grey where that is not known, none where nothing is computed. */
function shadesOf({ steps }, colours) {
  const pixel = ([r, g, b]) => (255 << 24) | (b << 16) | (g << 8) | r;
  const scale = Array.from({ length: SHADES + 1 }, (_, i) => pixel(mixed(colours["target-tint"], colours["target-text"], i / SHADES)));
  const unknown = pixel(mixed(colours["standard-tint"], colours["standard-tint"], 0));
  return Uint32Array.from(steps.kind, (kind, i) => {
    if (kind === "skipped") return 0;
    const level = massLevel(steps.mass[i]);
    return level === null ? unknown : scale[Math.round(level * SHADES)];
  });
}

/** The keys at which another split begins. */
function cutsOf(steps, grid) {
  const first = new Map();
  steps.split.forEach((split, i) => {
    if (grid.cell(i)) first.set(split, Math.min(first.get(split) ?? Infinity, steps.k0[i]));
  });
  return [...first.values()].filter((key) => key > 0);
}

function pattern(pen, colour, density) {
  const size = 6 * density;
  const stamp = Object.assign(document.createElement("canvas"), { width: size, height: size });
  const one = stamp.getContext("2d");
  one.strokeStyle = colour;
  one.lineWidth = density;
  one.beginPath();
  for (const shift of [-size, 0, size]) {
    one.moveTo(shift, size);
    one.lineTo(shift + size, 0);
  }
  one.stroke();
  return pen.createPattern(stamp, "repeat");
}

function crossOut(pen, [left, top, w, tall], colours, density) {
  pen.fillStyle = colours.rule;
  pen.fillRect(left, top, w, tall);
  if (Math.min(w, tall) < ROOM_FOR_CROSSES * density) return;
  const size = 3 * density;
  const [x, y] = [left + w / 2, top + tall / 2];
  pen.strokeStyle = colours.muted;
  pen.lineWidth = density;
  pen.beginPath();
  for (const way of [-1, 1]) {
    pen.moveTo(x - size, y - way * size);
    pen.lineTo(x + size, y + way * size);
  }
  pen.stroke();
}
