import { z } from "zod";
import { CHARACTERS_PER_OPERATION, type Client, IntervalCount } from "../gate/limits/clients.ts";
import { parseShape } from "../gate/pipeline/body.ts";
import { problem } from "../problems/problem.ts";
import type { RealtimeLimits } from "./limits.ts";
import { malformed, noReplay } from "./problem.ts";
import { isObject } from "./serializer.ts";

/** The payload of `phx_join`. */
export type JoinRequest = {
  readonly topic: string;
  /** The topic without `realtime:`. */
  readonly name: string;
  readonly isPrivate: boolean;
  /** Whether broadcasts are acknowledged, and sent to the channel itself. */
  readonly broadcast: { readonly ack: boolean; readonly self: boolean };
  /** Whether a `system` message says that broadcasts from SQL are delivered. */
  readonly awaitsSql: boolean;
  /** Which of the stored broadcasts are sent first; null for none. */
  readonly replay: ReplayRequest | null;
  /** `key` identifies the client among the others; "" for a generated one. */
  readonly presence: { readonly isEnabled: boolean; readonly key: string };
  readonly bindings: readonly BindingRequest[];
  readonly options: ChangesOptions;
  /** Null if the client has no token. */
  readonly token: string | null;
};

/** The last `limit` broadcasts since `since`, in milliseconds since 1970. */
export type ReplayRequest = z.infer<typeof REPLAY>;

/** `on("postgres_changes", { event, schema, table, filter, select }, …)` */
export type BindingRequest = {
  /** The object as the client sent it, which the reply repeats. */
  readonly sent: Readonly<Record<string, unknown>>;
  readonly event: "INSERT" | "UPDATE" | "DELETE" | "*";
  /** Null for all served schemas. */
  readonly schema: string | null;
  /** Null for all tables of the schema. */
  readonly table: string | null;
  readonly filter: string;
  /** Null for all columns. */
  readonly select: readonly string[] | null;
  /** Whether the channel accepts that deletions do not arrive. */
  readonly isPartial: boolean;
};

/** `config.postgres_changes_options`: settings that Supabase does not have. */
export type ChangesOptions = {
  /** The position from which changes are sent; null for those from now on. */
  readonly since: string | null;
  /** Whether an update is sent as a DELETE if the row no longer matches the filter. */
  readonly leave: boolean;
  /** Whether `system` messages report the position regularly. */
  readonly positions: boolean;
};

export const PREFIX = "realtime:";
/** Maximum bytes of a topic, with its prefix, and of the key of a presence: binary messages have one byte for the length. */
const MAX_NAME_BYTES = 255;
const TOO_LONG = `must have at most ${MAX_NAME_BYTES} bytes`;
export const NOT_STORED = "persist is not possible because broadcasts of clients are not stored: leave out persist";
export const isShort = (name: string) => Buffer.byteLength(name) <= MAX_NAME_BYTES;

const FLAGS: ReadonlyMap<string, boolean> = new Map([
  ["true", true],
  ["false", false],
]);

/** `true`, `false`, or one of these words in any case; false if it is left out. */
export const flag = z.preprocess(
  (value) => (typeof value === "string" ? FLAGS.get(value.toLowerCase()) : (value ?? false)),
  z.boolean("must be true or false"),
);

/** A string that may be left out. */
const text = z
  .string("must be a string")
  .nullish()
  .transform((value) => value ?? "");

/** What identifies a client: text or a number. */
const key = z.preprocess(
  (value) => (typeof value === "number" ? String(value) : value),
  text.refine(isShort, TOO_LONG),
);

/** Maximum broadcasts of a replay, which is also the default, as with Supabase. */
const MAX_REPLAYED = 25;

/** `since` is a time between the years 1 and 9999. */
const REPLAY = z.object({
  since: z.int().min(-62_135_596_800_000).max(253_402_300_799_999),
  limit: z
    .int()
    .nullish()
    .transform((limit) => Math.max(1, Math.min(limit ?? MAX_REPLAYED, MAX_REPLAYED))),
});

/** An object that may be left out. */
const optional = <Shape extends z.ZodRawShape>(shape: Shape) =>
  z.preprocess((value) => value ?? {}, z.object(shape, "must be an object"));

const BINDING = z
  .custom<BindingRequest["sent"]>(isObject, "must be an object")
  .transform((sent) => ({ ...sent, sent }))
  .pipe(
    z.object({
      sent: z.custom<BindingRequest["sent"]>(),
      event: text
        .transform((event) => event.toUpperCase())
        .pipe(z.enum(["INSERT", "UPDATE", "DELETE", "*"], "must be INSERT, UPDATE, DELETE or *")),
      schema: text.transform((schema) => schema || "public"),
      table: text.transform((table) => table || "*"),
      filter: text,
      select: z.array(z.string("must be the name of a column"), "must be an array of column names").nullish(),
    }),
  );

const JOIN = z.object({
  config: optional({
    private: flag,
    broadcast: optional({ ack: flag, self: flag, replay: z.unknown().optional(), replication_ready: flag }),
    presence: optional({ enabled: flag, key }),
    postgres_changes: z.array(BINDING, "must be an array").nullish(),
    postgres_changes_options: optional({ since: text, leave: flag, partial: flag, positions: flag }),
  }),
  access_token: text,
});

/** Throws Problem. */
export function parseJoin(topic: string, payload: Readonly<Record<string, unknown>>, maxBindings: number): JoinRequest {
  if (!topic.startsWith(PREFIX) || topic.length === PREFIX.length) throw problem("topic required");
  if (!isShort(topic)) throw malformed(`the topic ${TOO_LONG}`);
  const { config, access_token } = parseShape(JOIN, payload, "the payload", malformed);
  const { broadcast, presence, postgres_changes: changes, postgres_changes_options: options } = config;
  if (changes && changes.length > maxBindings)
    throw malformed(`a channel can have at most ${maxBindings} bindings of postgres_changes`);
  return {
    topic,
    name: topic.slice(PREFIX.length),
    isPrivate: config.private,
    broadcast: { ack: broadcast.ack, self: broadcast.self },
    awaitsSql: broadcast.replication_ready,
    replay: parseReplay(broadcast.replay, config.private),
    presence: { isEnabled: presence.enabled, key: presence.key },
    bindings: (changes ?? []).map(({ schema, table, select, ...binding }) => ({
      ...binding,
      schema: schema === "*" ? null : schema,
      table: table === "*" || schema === "*" ? null : table,
      select: select?.length ? select : null,
      isPartial: options.partial,
    })),
    options: { since: options.since || null, leave: options.leave, positions: options.positions },
    token: parseToken(access_token),
  };
}

function parseReplay(value: unknown, isPrivate: boolean): ReplayRequest | null {
  if (!value) return null;
  if (!isPrivate) throw noReplay("Replay is not allowed for public channels");
  const { data } = REPLAY.safeParse(value);
  if (data === undefined) throw noReplay("Replay params are not valid");
  return data;
}

/**
 * How often a join that may not be valid counts for RATE_LIMIT: for each different binding, and again for the length of its filter, and
 * for a replay.
 */
export function costOf({ config }: Readonly<Record<string, unknown>>): number {
  if (!isObject(config)) return 1;
  const ofReplay = isObject(config.broadcast) && config.broadcast.replay ? 1 : 0;
  return ofReplay + costOfChanges(config.postgres_changes);
}

function costOfChanges(changes: unknown): number {
  if (!Array.isArray(changes)) return 1;
  const length = changes.reduce(
    (sum, each) => sum + (isObject(each) && typeof each.filter === "string" ? each.filter.length : 0),
    0,
  );
  const different = new Set(changes.map((each) => JSON.stringify(each))).size;
  return Math.max(1, different) + Math.floor(length / CHARACTERS_PER_OPERATION);
}

/** Null for no token. Keys of Supabase, which begin with `sb_`, are no tokens. */
export function parseToken(value: unknown): string | null {
  return typeof value === "string" && value !== "" && !value.startsWith("sb_") ? value : null;
}

/** Per socket and per network: channels, and joins per second. */
export type JoinLimitSettings = Pick<
  RealtimeLimits,
  "realtimeMaxChannels" | "realtimeMaxChannelsPerAddress" | "realtimeJoinRate" | "realtimeJoinRatePerAddress"
>;

/** The channels of one socket. They also count for its network. */
export class SocketJoins {
  readonly #settings: JoinLimitSettings;
  readonly #network: Client;
  readonly #onLimit: (setting: string) => void;
  readonly #joins = new IntervalCount();
  #channels = 0;

  constructor(settings: JoinLimitSettings, network: Client, onLimit: (setting: string) => void) {
    this.#settings = settings;
    this.#network = network;
    this.#onLimit = onLimit;
  }

  /** Counts a join. Throws Problem if there are too many in this second. */
  countJoin(): void {
    const { realtimeJoinRate, realtimeJoinRatePerAddress } = this.#settings;
    const isOver = this.#joins.add() > realtimeJoinRate;
    const isNetworkOver = this.#network.exceeds("joins", realtimeJoinRatePerAddress);
    if (!isOver && !isNetworkOver) return;
    this.#onLimit(isOver ? "socket_joins" : "address_joins");
    throw problem("too many joins");
  }

  /** Throws Problem if there can be no further channel with so many bindings. */
  admitChannel(bindings: number): void {
    const { realtimeMaxChannels, realtimeMaxChannelsPerAddress } = this.#settings;
    if (this.#channels >= realtimeMaxChannels) {
      this.#onLimit("socket_channels");
      throw problem("too many channels", { max: realtimeMaxChannels, of: "socket" });
    }
    if (this.#network.isFull("channels", realtimeMaxChannelsPerAddress, Math.max(1, bindings))) {
      this.#onLimit("address_channels");
      throw problem("too many channels", { max: realtimeMaxChannelsPerAddress, of: "IP address" });
    }
  }

  /** Counts a channel; for its network once for each of its bindings. The result must be called once, when it is closed. */
  openChannel(bindings: number): () => void {
    this.#channels++;
    const release = this.#network.hold("channels", Math.max(1, bindings));
    return () => {
      this.#channels--;
      release();
    };
  }
}
