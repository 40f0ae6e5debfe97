import { forPairs } from "../../../cache/cache.ts";
import type { Change, Image } from "../../../db/changes/change.ts";
import { columnIndexesOf, imageJson } from "../../../db/changes/json.ts";
import { presentTable } from "../../../db/changes/present-table.ts";
import type { View, VisibleChange, Watch } from "../../../db/rights/watch.ts";

/** The data of a change as clients receive it. It is written once for all clients that receive the same event and columns. */
export class ChangeEvent {
  readonly #change: Change;
  readonly #data = new Map<string, string>();

  constructor(change: Change) {
    this.#change = change;
  }

  /** `{"eventType":"UPDATE","schema":"public","table":"todos","commit_timestamp":"…","new":{…},"old":{…}}` */
  dataFor({ watch, view, event, seesOld }: VisibleChange<Watch>): string {
    const columns = watch.selected ? intersectionOf(view.columns, watch.selected) : view.columns;
    const shown = `${event} ${seesOld} ${[...columns]}`;
    const known = this.#data.get(shown);
    if (known !== undefined) return known;
    const { committedAt, old, new: current } = this.#change;
    const table = presentTable(this.#change.table, view.table);
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
      members.push(`"old":${row(old ?? current!, seesOld && old ? columns : columns.intersection(keyOf(view)))}`);
    const data = `{${members.join(",")}}`;
    this.#data.set(shown, data);
    return data;
  }
}

/** The primary key: all that an event contains of an old row that the client may not see, or that was not logged. */
const keyOf = ({ table }: View): ReadonlySet<string> => new Set(table.primaryKey);

const intersectionOf = forPairs((one: ReadonlySet<string>, other: ReadonlySet<string>) => one.intersection(other));
