import type { Table } from "../../db/catalog/catalog.ts";
import { type Html, html } from "../../gate/pages/html.ts";
import { type Placement, type Point, placeInLayers } from "./layers.ts";
import { CONSOLE } from "./path.ts";

/** A foreign key between two tables of a diagram. */
type ForeignKey = {
  readonly from: string;
  readonly to: string;
  readonly column: string;
  readonly target: string;
  readonly name: string;
};

/** A column of a key, as a row of a box. */
type KeyColumn = { readonly name: string; readonly marks: string };

type Drawn = {
  readonly id: string;
  readonly columns: readonly KeyColumn[];
  readonly width: number;
  readonly height: number;
};

const ROW = 20;
const HEAD = 30;
const CHARACTER = 7.9;
const MAX_NAME = 30;
const MARGIN = 34;

export const nameOf = ({ schema, name }: Pick<Table, "schema" | "name">): string => `${schema}.${name}`;

export const SCHEMA = `${CONSOLE}/schema`;

export const linkTo = (table: string): string => `${SCHEMA}?table=${encodeURIComponent(table)}`;

export const backToAll: Html = html`<p><a href="${SCHEMA}">All tables</a></p>`;

/** The most tables in a diagram. */
const MAX_DRAWN = 60;

/** The tables with their foreign keys, in a frame that scrolls and zooms. */
export function drawing(tables: readonly Table[]): Html {
  const drawable = tables.filter(({ kind }) => !kind.includes("view"));
  const shown = drawable.slice(0, MAX_DRAWN);
  if (shown.length === 0) return html``;
  return html`<div class="zoom" hidden><button type="button" class="quiet" data-zoom="0.8" aria-label="Smaller">−</button><button type="button" class="quiet" data-zoom="1.25" aria-label="Larger">+</button><button type="button" class="quiet" data-zoom="fit">Fit</button></div>
<div class="canvas" tabindex="0" role="region" aria-label="Diagram">${diagramOf(shown)}</div>
${drawable.length > shown.length ? html`<p class="muted">The diagram has the first ${shown.length} of ${drawable.length} tables: search for a part of the name.</p>` : null}`;
}

/** Tables as boxes with the columns of their keys, and foreign keys as lines. Each box is a link to the page of its table. */
function diagramOf(tables: readonly Table[]): Html {
  const ids = new Set(tables.map(nameOf));
  const keys = tables.flatMap(foreignKeysOf).filter(({ to }) => ids.has(to));
  const boxes = tables.map((table) => boxOf(table, keys));
  const placement = placeInLayers(boxes, keys);
  const byId = new Map(boxes.map((box) => [box.id, box]));
  const [width, height] = [placement.width + 2 * MARGIN, placement.height + 2 * MARGIN].map(Math.ceil);
  return html`<svg class="diagram" width="${width!}" height="${height!}" viewBox="${-MARGIN} ${-MARGIN} ${width!} ${height!}" role="group" aria-label="Tables and their foreign keys">
<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto"><path d="M0 0L8 4L0 8z"/></marker></defs>
${keys.map((key, i) => html`<path class="key" marker-end="url(#arrow)" d="${pathOf(key, placement.bends[i]!, byId, placement)}"><title>${key.name}: ${key.from}.${key.column} → ${key.to}.${key.target}</title></path>\n`)}
${boxes.map((box) => drawn(box, placement.corners.get(box.id)!))}
</svg>`;
}

/** The foreign keys of a table, each by its first column. */
const foreignKeysOf = (table: Table): readonly ForeignKey[] =>
  table.relationships.flatMap((each) => {
    if (each.kind === "computed" || each.kind === "many-to-many" || !each.isOwner) return [];
    const [column, target] = each.columns[0]!;
    return [{ from: nameOf(table), to: nameOf(each.target), column, target, name: each.constraint }];
  });

function boxOf(table: Table, keys: readonly ForeignKey[]): Drawn {
  const id = nameOf(table);
  const foreign = new Set(keys.filter(({ from }) => from === id).map(({ column }) => column));
  const referenced = new Set(keys.filter(({ to }) => to === id).map(({ target }) => target));
  const columns = [...table.columns.keys()].flatMap((name) => {
    const marks = [table.primaryKey.includes(name) ? "key" : "", foreign.has(name) ? "→" : ""].filter(
      (mark) => mark !== "",
    );
    return marks.length > 0 || referenced.has(name) ? [{ name, marks: marks.join(" ") }] : [];
  });
  const longest = Math.max(
    shortened(id).length,
    ...columns.map(({ name, marks }) => shortened(name).length + marks.length + 3),
  );
  return {
    id,
    columns,
    width: Math.ceil(longest * CHARACTER + 24),
    height: HEAD + columns.length * ROW + (columns.length > 0 ? 8 : 0),
  };
}

const shortened = (name: string): string => (name.length > MAX_NAME ? `${name.slice(0, MAX_NAME - 1)}…` : name);

/** A line leaves the row of its column, and ends at the row of the column that it refers to. */
function pathOf(
  key: ForeignKey,
  bends: readonly Point[],
  boxes: ReadonlyMap<string, Drawn>,
  { corners }: Placement,
): string {
  const [from, to] = [boxes.get(key.from)!, boxes.get(key.to)!];
  const [start, end] = [corners.get(from.id)!, corners.get(to.id)!];
  const [startY, endY] = [start.y + rowOf(from, key.column), end.y + rowOf(to, key.target)];
  if (start.x <= end.x) {
    const [startX, endX] = [start.x + from.width, start.x < end.x ? end.x : end.x + to.width];
    const far = Math.max(startX, endX) + 36;
    return `M${startX} ${startY}C${far} ${startY} ${start.x < end.x ? endX - 36 : far} ${endY} ${endX} ${endY}`;
  }
  const points = [{ x: start.x, y: startY }, ...bends.toReversed(), { x: end.x + to.width, y: endY }];
  const curves = points.slice(1).map(({ x, y }, i) => {
    const before = points[i]!;
    const half = (before.x - x) / 2;
    return `C${before.x - half} ${before.y} ${x + half} ${y} ${x} ${y}`;
  });
  return `M${start.x} ${startY}${curves.join("")}`;
}

function rowOf({ columns }: Drawn, column: string): number {
  const row = columns.findIndex(({ name }) => name === column);
  return row < 0 ? HEAD / 2 : HEAD + row * ROW + ROW / 2;
}

const drawn = ({ id, columns, width, height }: Drawn, { x, y }: Point): Html => html`
<a href="${linkTo(id)}" transform="translate(${x} ${y})"><title>${id}</title><rect width="${width}" height="${height}" rx="6"/><text class="name" x="12" y="20">${shortened(id)}</text>${columns.map(
  ({ name, marks }, i) =>
    html`<text x="12" y="${HEAD + i * ROW + 14}">${shortened(name)}</text><text class="mark" x="${width - 12}" y="${HEAD + i * ROW + 14}">${marks}</text>`,
)}</a>`;
