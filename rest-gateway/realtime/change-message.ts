import type { Change, ChangedTable, Image } from "../../db/changes/change.ts";
import { imageJson } from "../../db/changes/json.ts";
import type { Sight } from "../../db/changes/rights/watch.ts";
import type { ChangeWatch } from "./bindings.ts";
import { type Version, writeText } from "./serializer.ts";

/** Instead of a record that is too large. */
const TOO_LARGE = '["Error 413: Payload Too Large"]';

/**
 * The messages of one change. What is equal for several subscribers is written once: the data for those with the same columns, the
 * message for channels with the same topic and bindings.
 */
export class ChangeMessages {
  readonly change: Change;
  readonly #maxBytes: number;
  readonly #data = new Map<string, string>();
  readonly #messages = new Map<string, Buffer>();

  /** `maxBytes` is the maximum size of the data. */
  constructor(change: Change, maxBytes: number) {
    this.change = change;
    this.#maxBytes = maxBytes;
  }

  /** The message of a channel for the bindings with these ids, which have the same columns and see the same. */
  of(topic: string, version: Version, ids: readonly number[], sight: Sight<ChangeWatch>): Buffer {
    const shown = shownIn(sight);
    const key = `${version} ${ids.join()} ${shown} ${topic}`;
    let message = this.#messages.get(key);
    if (message === undefined) {
      const payload = `{"ids":[${ids.join()}],"data":${this.#dataOf(shown, sight)}}`;
      message = Buffer.from(writeText(version, { topic, event: "postgres_changes" }, payload));
      this.#messages.set(key, message);
    }
    return message;
  }

  #dataOf(shown: string, sight: Sight<ChangeWatch>): string {
    let data = this.#data.get(shown);
    if (data !== undefined) return data;
    data = writeData(this.change, sight, false);
    if (Buffer.byteLength(data) > this.#maxBytes) data = writeData(this.change, sight, true);
    this.#data.set(shown, data);
    return data;
  }
}

/** Equal for sights that show the same of a change. */
export const shownIn = ({ event, seesOld, watch }: Sight<ChangeWatch>): string =>
  `${event} ${seesOld} ${watch.view.name}`;

/** Source: realtime-js, RealtimeChannel.ts, `_getPayloadRecords`. */
function writeData(change: Change, { event, seesOld, watch }: Sight<ChangeWatch>, onlyKey: boolean): string {
  const { table } = change;
  const key = placesOf(table, watch.view.key);
  const included = onlyKey ? key : placesOf(table, watch.view.columns);
  const described = included.map((i) => ({ name: table.columns[i]!.name, type: table.columns[i]!.typeName }));
  const members = [
    `"schema":${JSON.stringify(table.schema)}`,
    `"table":${JSON.stringify(table.name)}`,
    `"commit_timestamp":"${new Date(change.committedAt).toISOString()}"`,
    `"type":"${event}"`,
    `"columns":${JSON.stringify(described)}`,
  ];
  if (event !== "DELETE") members.push(`"record":${imageJson(table, change.new!, included)}`);
  if (event !== "INSERT") members.push(`"old_record":${oldRecord(change, seesOld ? included : key)}`);
  return `{${members.join(",")},"errors":${onlyKey ? TOO_LARGE : "null"}}`;
}

/** An update that does not change the key has no old row in the stream if the replica identity is the key. */
const oldRecord = (change: Change, included: readonly number[]): string =>
  imageJson(change.table, change.old ?? (change.new as Image), included);

const places = new WeakMap<ReadonlySet<string>, WeakMap<ChangedTable, readonly number[]>>();

/** The places of columns in a row of the stream. */
function placesOf(table: ChangedTable, names: ReadonlySet<string>): readonly number[] {
  const byTable = places.get(names) ?? new WeakMap<ChangedTable, readonly number[]>();
  places.set(names, byTable);
  const known = byTable.get(table) ?? [...table.columns.keys()].filter((i) => names.has(table.columns[i]!.name));
  byTable.set(table, known);
  return known;
}
