import { z } from "zod";
import { type Broadcast, faultOf } from "./broadcast.ts";
import { isShort, PREFIX } from "./join.ts";
import type { Topics } from "./topics.ts";

export type SqlBroadcastsOptions = {
  readonly topics: Pick<Topics, "deliver">;
  readonly jsonMaxDepth: number;
};

/** `<id> <number> <count> <text>` */
const PART = /^([0-9a-f-]{36}) (\d{1,3}) (\d{1,3}) (.*)$/s;

/** `realtime.send_message` refuses more bytes. */
const MAX_CHARACTERS = 262_144;

const MESSAGE = z.object({
  topic: z.string().refine((topic) => topic !== "" && isShort(PREFIX + topic)),
  event: z.string(),
  private: z.boolean(),
  payload: z.unknown().default({}),
  /** Instead of the payload. */
  base64: z.base64().optional(),
});

/**
 * Broadcasts of `realtime.send` and `realtime.send_binary`, which each process receives from the database. A long one has several parts, which follow each other:
 * PostgreSQL does not mix the notifications of transactions. What is not complete or not valid is ignored: every role may NOTIFY.
 */
export class SqlBroadcasts {
  readonly #options: SqlBroadcastsOptions;
  #id = "";
  #parts: string[] = [];

  constructor(options: SqlBroadcastsOptions) {
    this.#options = options;
  }

  receive(part: string): void {
    const [, id, number, count, text] = PART.exec(part) ?? [];
    if (id === undefined) return;
    if (id !== this.#id) this.#parts = [];
    this.#id = id;
    if (Number(number) !== this.#parts.length + 1) return;
    this.#parts.push(text!);
    if (number === count) this.#deliver(this.#parts.splice(0).join(""));
  }

  #deliver(text: string): void {
    const message = parse(text);
    if (message === null) return;
    const { topic, event, private: isPrivate, payload, base64 } = message;
    const isJson = base64 === undefined;
    const bytes = isJson ? Buffer.from(JSON.stringify(payload)) : Buffer.from(base64, "base64");
    const broadcast: Broadcast = { event, body: { isJson, bytes }, meta: { id: this.#id } };
    if (faultOf(broadcast, this.#options.jsonMaxDepth) === null)
      this.#options.topics.deliver(PREFIX + topic, isPrivate, broadcast);
  }
}

function parse(text: string): z.infer<typeof MESSAGE> | null {
  if (text.length > MAX_CHARACTERS) return null;
  try {
    return MESSAGE.safeParse(JSON.parse(text)).data ?? null;
  } catch {
    return null;
  }
}
