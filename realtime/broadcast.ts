import { parseJson } from "../gate/pipeline/body.ts";
import { type Body, type Frame, type Version, writeBinary, writeText } from "./serializer.ts";

/** A message of a client, or from SQL, to the members of a topic. */
export type Broadcast = {
  readonly event: string;
  readonly body: Body;
  /** Of one from SQL, for its receivers. */
  readonly meta?: BroadcastMeta;
};

export type BroadcastMeta = { readonly replayed?: true; readonly id: string };

/** The longest event, in bytes of UTF-8: binary messages have one byte for it. */
const MAX_EVENT_BYTES = 255;

/** Why a broadcast cannot be sent; null if it can. */
export function faultOf({ event, body }: Broadcast, maxDepth: number): string | null {
  if (Buffer.byteLength(event) > MAX_EVENT_BYTES) return `the event must have at most ${MAX_EVENT_BYTES} bytes`;
  if (!body.isJson) return null;
  try {
    parseJson(body.bytes, maxDepth);
    return null;
  } catch {
    return "the payload is not valid JSON";
  }
}

/** The messages of a broadcast, each written once for all members. */
export class BroadcastMessages {
  readonly #topic: string;
  readonly #broadcast: Broadcast;
  readonly #written = new Map<Version, Frame>();

  constructor(topic: string, broadcast: Broadcast) {
    this.#topic = topic;
    this.#broadcast = broadcast;
  }

  /** Null if the version cannot carry it. */
  of(version: Version): Frame | null {
    if (!this.#broadcast.body.isJson && version === 1) return null;
    const written = this.#written.get(version) ?? this.#write(version);
    this.#written.set(version, written);
    return written;
  }

  #write(version: Version): Frame {
    const { event, body, meta } = this.#broadcast;
    const metadata = meta === undefined ? "" : JSON.stringify(meta);
    if (!body.isJson) return writeBinary(this.#topic, event, metadata, body.bytes);
    const more = metadata && `,"meta":${metadata}`;
    const payload = `{"type":"broadcast","event":${JSON.stringify(event)},"payload":${body.bytes}${more}}`;
    return writeText(version, { topic: this.#topic, event: "broadcast" }, payload);
  }
}
