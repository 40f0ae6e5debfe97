import type { Change, Image } from "../../../db/changes/change.ts";
import { columnIndexesOf, imageJson } from "../../../db/changes/json.ts";
import type { Rights } from "../../../db/rights/rights.ts";
import type { VisibleChange } from "../../../db/rights/subscriber-watches.ts";
import type { TableWatch } from "./stream.ts";

/** The data of a change as clients receive it. It is written once for all clients that receive the same event and columns. */
export class ChangeEvent {
  readonly #change: Change;
  readonly #rights: Rights;
  readonly #data = new Map<string, string>();

  constructor(change: Change, rights: Rights) {
    this.#change = change;
    this.#rights = rights;
  }

  /** `{"eventType":"UPDATE","schema":"public","table":"todos","commit_timestamp":"…","new":{…},"old":{…}}` */
  dataFor({ watch, event, seesOld }: VisibleChange<TableWatch>): string {
    const columns = this.#columnsOf(watch);
    const shown = `${event} ${seesOld} ${[...columns]}`;
    const known = this.#data.get(shown);
    if (known !== undefined) return known;
    const { table, committedAt, old, new: current } = this.#change;
    const members = [
      `"eventType":"${event}"`,
      `"schema":${JSON.stringify(table.schema)}`,
      `"table":${JSON.stringify(table.name)}`,
      `"commit_timestamp":"${new Date(committedAt).toISOString()}"`,
    ];
    const row = (image: Image, names: ReadonlySet<string>) => imageJson(table, image, columnIndexesOf(table, names));
    if (event !== "DELETE") members.push(`"new":${row(current!, columns)}`);
    // An update that keeps the key has no old row in the stream if the table logs only its key.
    if (event !== "INSERT")
      members.push(`"old":${row(old ?? current!, seesOld && old ? columns : columns.intersection(watch.key))}`);
    const data = `{${members.join(",")}}`;
    this.#data.set(shown, data);
    return data;
  }

  /** The role may read other columns than at the beginning of the stream. */
  #columnsOf({ table, caller, selected }: TableWatch): ReadonlySet<string> {
    const view = this.#rights.viewOf(table, caller.role);
    if (view === undefined || "refusal" in view) return NONE;
    return selected === null ? view.columns : intersectionOf(view.columns, selected);
  }
}

const NONE: ReadonlySet<string> = new Set();

const intersections = new WeakMap<ReadonlySet<string>, WeakMap<ReadonlySet<string>, ReadonlySet<string>>>();

/** Returns the same Set object whenever it is called with the same two Set objects. */
function intersectionOf(one: ReadonlySet<string>, other: ReadonlySet<string>): ReadonlySet<string> {
  const known = intersections.get(one) ?? new WeakMap<ReadonlySet<string>, ReadonlySet<string>>();
  intersections.set(one, known);
  const intersection = known.get(other) ?? one.intersection(other);
  known.set(other, intersection);
  return intersection;
}
