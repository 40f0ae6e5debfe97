import { z } from "zod";
import type { Change, Image } from "../db/changes/change.ts";
import { columnIndexesOf, imageJson } from "../db/changes/json.ts";
import { presentTable } from "../db/changes/present-table.ts";
import type { View, VisibleChange, Watch } from "../db/rights/watch.ts";
import { parseJson, parseShape } from "../gate/pipeline/body.ts";
import { Problem } from "../problems/problem.ts";

/**
 * The version of the message format, from the parameter `vsn` of the URL: 1 are JSON objects, 2 are JSON arrays and binary
 * broadcasts.
 */
export type Version = 1 | 2;

/** A message of a client. References are decimal numbers as text. */
export type ClientMessage = {
  readonly joinRef: string | null;
  readonly ref: string | null;
  readonly topic: string;
  readonly event: string;
  readonly payload: Readonly<Record<string, unknown>>;
  /** Why the message is answered with an error: its payload is no object, and `{}` here. */
  readonly fault: string | null;
  /** The payload of a broadcast that was sent as a binary message; its event is in `payload`. */
  readonly body: Body | null;
};

/** What a broadcast carries. */
export type Body = { readonly isJson: boolean; readonly bytes: Buffer };

/** A message that is not in the format. It closes the socket. */
export class MalformedMessage extends Error {}

export const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

const REF = z
  .union([z.string().max(255, "must be a short string"), z.number().transform(String)], "must be a short string")
  .nullish()
  .transform((ref) => ref ?? null);

/** A message of version 1. */
const OBJECT = z.object(
  {
    join_ref: REF,
    ref: REF,
    topic: z.string("must be a string"),
    event: z.string("must be a string"),
    payload: z.unknown().optional(),
  },
  "must be an object with topic, event, payload and ref",
);

const FIVE = "must be an array [join_ref, ref, topic, event, payload]";

/** A message of version 2, as one of version 1. */
const ARRAY = z
  .array(z.unknown(), FIVE)
  .length(5, FIVE)
  .transform(([join_ref, ref, topic, event, payload]) => ({ join_ref, ref, topic, event, payload }));

/** Throws MalformedMessage. */
export function parseText(bytes: Buffer, version: Version, maxDepth: number): ClientMessage {
  const value = parse(bytes, maxDepth);
  const fields = version === 2 ? parseShape(ARRAY, value, "a message", malformed) : value;
  const { join_ref: joinRef, ref, topic, event, payload } = parseShape(OBJECT, fields, "a message", malformed);
  const isValid = isObject(payload ?? {});
  const fault = isValid ? null : "the payload must be an object";
  return { joinRef, ref, topic, event, payload: isObject(payload) ? payload : {}, fault, body: null };
}

const malformed = (fault: string) => new MalformedMessage(fault);

function parse(bytes: Buffer, maxDepth: number): unknown {
  try {
    return parseJson(bytes, maxDepth);
  } catch (error) {
    if (error instanceof Problem) throw new MalformedMessage("the message is not valid JSON");
    throw error;
  }
}

/** Binary messages of clients: a broadcast. */
const PUSH = 3;
/** Binary messages to clients: a broadcast. */
const BROADCAST = 4;

/**
 * Six bytes follow the kind: the lengths of join_ref, ref, topic, event and metadata, and 1 for JSON. Then come the five texts, and
 * the body. Throws MalformedMessage.
 */
export function parseBinary(bytes: Buffer, version: Version): ClientMessage {
  if (version === 1 || bytes[0] !== PUSH || bytes.length < 7)
    throw new MalformedMessage("a binary message must be a broadcast of version 2.0.0");
  const lengths = [...bytes.subarray(1, 6)];
  const texts: string[] = [];
  let at = 7;
  for (const length of lengths) {
    texts.push(bytes.toString("utf8", at, at + length));
    at += length;
  }
  if (at > bytes.length) throw new MalformedMessage("the binary message is shorter than its header says");
  const [joinRef, ref, topic, event, metadata] = texts as [string, string, string, string, string];
  return {
    joinRef: joinRef || null,
    ref: ref || null,
    topic,
    event: "broadcast",
    payload: { ...(metadata && parseMetadata(metadata)), type: "broadcast", event },
    fault: null,
    body: { isJson: bytes[6] === 1, bytes: bytes.subarray(at) },
  };
}

/** Members of the payload that are no part of the body. */
function parseMetadata(text: string): ClientMessage["payload"] {
  const metadata = parse(Buffer.from(text), 1);
  if (isObject(metadata)) return metadata;
  throw new MalformedMessage("the metadata of a binary message must be an object");
}

/**
 * A message to clients: a whole WebSocket frame, so that one that many receive is made once. Servers do not mask.
 * Source: RFC 6455, 5.2.
 */
export type Frame = Buffer;

const TEXT = 0x81;
const BINARY = 0x82;

/** A message of so many bytes, which are to be written at its end. */
function newFrame(kind: typeof TEXT | typeof BINARY, bytes: number): Frame {
  const header = bytes < 126 ? 2 : bytes < 65_536 ? 4 : 10;
  const frame = Buffer.allocUnsafe(header + bytes);
  frame[0] = kind;
  frame[1] = header === 2 ? bytes : header === 4 ? 126 : 127;
  if (header > 2) frame.writeUIntBE(bytes, header === 4 ? 2 : 4, header === 4 ? 2 : 6);
  if (header === 10) frame.writeUInt16BE(0, 2);
  return frame;
}

/** A message to a client. `payload` is JSON. Messages that the client has not asked for have no references. */
export function writeText(
  version: Version,
  { joinRef = null, ref = null, topic, event }: ServerMessage,
  payload: string,
): Frame {
  const [j, r, t] = [JSON.stringify(joinRef), JSON.stringify(ref), JSON.stringify(topic)];
  const text =
    version === 2
      ? `[${j},${r},${t},"${event}",${payload}]`
      : `{"topic":${t},"event":"${event}","payload":${payload},"ref":${r},"join_ref":${j}}`;
  const bytes = Buffer.byteLength(text);
  const frame = newFrame(TEXT, bytes);
  frame.write(text, frame.length - bytes);
  return frame;
}

type ServerMessage = {
  readonly joinRef?: string | null;
  readonly ref?: string | null;
  readonly topic: string;
  /** One of those of the protocol: it needs no quoting. */
  readonly event: string;
};

/** A message to several clients, written once for each version. `payload` is JSON. */
export class SharedText {
  readonly #message: ServerMessage;
  readonly #payload: string;
  readonly #written = new Map<Version, Frame>();

  constructor(message: ServerMessage, payload: string) {
    this.#message = message;
    this.#payload = payload;
  }

  of(version: Version): Frame {
    const written = this.#written.get(version) ?? writeText(version, this.#message, this.#payload);
    this.#written.set(version, written);
    return written;
  }
}

/** A broadcast whose body is not JSON. Version 1 cannot carry it. `metadata` is JSON, or "" for none. */
export function writeBinary(topic: string, event: string, metadata: string, body: Buffer): Frame {
  const texts = [topic, event, metadata].map((text) => Buffer.from(text));
  const parts = [Buffer.from([BROADCAST, ...texts.map(({ length }) => length), 0]), ...texts, body];
  const bytes = parts.reduce((sum, { length }) => sum + length, 0);
  const frame = newFrame(BINARY, bytes);
  Buffer.concat(parts, bytes).copy(frame, frame.length - bytes);
  return frame;
}

/** The columns that a channel receives. */
export type ChangeView = {
  /** That of the role. */
  readonly of: View;
  /** Equal for views with equal columns. */
  readonly name: string;
  readonly columns: ReadonlySet<string>;
  /** The columns of the primary key among them. */
  readonly key: ReadonlySet<string>;
};

type SeenChange = VisibleChange<Watch & { readonly view: ChangeView }>;

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
  readonly #messages = new Map<string, Frame>();

  /** `maxBytes` is the maximum size of the data. */
  constructor(change: Change, maxBytes: number) {
    this.change = change;
    this.#maxBytes = maxBytes;
  }

  /** The message of a channel for the bindings with these ids, which have the same columns and see the same. */
  of(topic: string, version: Version, ids: readonly number[], seen: SeenChange): Frame {
    const shown = shownIn(seen);
    const key = `${version} ${ids.join()} ${shown} ${topic}`;
    let message = this.#messages.get(key);
    if (message === undefined) {
      const payload = `{"ids":[${ids.join()}],"data":${this.#dataOf(shown, seen)}}`;
      message = writeText(version, { topic, event: "postgres_changes" }, payload);
      this.#messages.set(key, message);
    }
    return message;
  }

  #dataOf(shown: string, seen: SeenChange): string {
    let data = this.#data.get(shown);
    if (data !== undefined) return data;
    data = writeData(this.change, seen, false);
    if (Buffer.byteLength(data) > this.#maxBytes) data = writeData(this.change, seen, true);
    this.#data.set(shown, data);
    return data;
  }
}

/** Equal for subscribers that receive the same data of a change. */
export const shownIn = ({ event, seesOld, watch }: SeenChange): string => `${event} ${seesOld} ${watch.view.name}`;

/** Source: realtime-js, RealtimeChannel.ts, `_getPayloadRecords`. */
function writeData(change: Change, { event, seesOld, watch }: SeenChange, onlyKey: boolean): string {
  const table = presentTable(change.table, watch.view.of.table);
  const key = columnIndexesOf(table, watch.view.key);
  const included = onlyKey ? key : columnIndexesOf(table, watch.view.columns);
  const described = included.map((i) => ({ name: table.columns[i]!.name, type: table.columns[i]!.typeName }));
  const members = [
    `"schema":${JSON.stringify(table.schema)}`,
    `"table":${JSON.stringify(table.name)}`,
    `"commit_timestamp":"${new Date(change.committedAt).toISOString()}"`,
    `"type":"${event}"`,
    `"columns":${JSON.stringify(described)}`,
  ];
  if (event !== "DELETE") members.push(`"record":${imageJson(table, change.new!, included)}`);
  // An update that does not change the key has no old row in the stream if the replica identity is the key.
  const old = change.old ?? (change.new as Image);
  if (event !== "INSERT") members.push(`"old_record":${imageJson(table, old, seesOld ? included : key)}`);
  return `{${members.join(",")},"errors":${onlyKey ? TOO_LARGE : "null"}}`;
}
