import type { Config } from "../config/config.ts";
import { problem } from "../db/problems/problem.ts";
import { type Client, IntervalCount } from "../http/limits/clients.ts";
import { malformed } from "./problem.ts";
import { isObject } from "./serializer.ts";

/** The payload of `phx_join`. */
export type JoinRequest = {
  readonly topic: string;
  /** The topic without `realtime:`. */
  readonly name: string;
  readonly isPrivate: boolean;
  /** Whether broadcasts are acknowledged, and sent to the channel itself. */
  readonly broadcast: { readonly ack: boolean; readonly self: boolean };
  /** `key` identifies the client among the others; "" for a generated one. */
  readonly presence: { readonly isEnabled: boolean; readonly key: string };
  readonly bindings: readonly BindingRequest[];
  readonly options: ChangesOptions;
  /** Null if the client has no token. */
  readonly token: string | null;
};

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
const EVENTS: ReadonlySet<unknown> = new Set<BindingRequest["event"]>(["INSERT", "UPDATE", "DELETE", "*"]);

/** Throws Problem. */
export function parseJoin(topic: string, payload: Readonly<Record<string, unknown>>, maxBindings: number): JoinRequest {
  if (!topic.startsWith(PREFIX) || topic.length === PREFIX.length) throw problem("topic required");
  checkName(topic, "the topic");
  const config = objectOf(payload.config, "config");
  const broadcast = objectOf(config.broadcast, "config.broadcast");
  const presence = objectOf(config.presence, "config.presence");
  const changes = config.postgres_changes ?? [];
  if (!Array.isArray(changes)) throw malformed("config.postgres_changes must be an array");
  if (changes.length > maxBindings)
    throw malformed(`a channel can have at most ${maxBindings} bindings of postgres_changes`);
  const options = objectOf(config.postgres_changes_options, "config.postgres_changes_options");
  return {
    topic,
    name: topic.slice(PREFIX.length),
    isPrivate: config.private === true,
    broadcast: { ack: broadcast.ack === true, self: broadcast.self === true },
    presence: { isEnabled: presence.enabled === true, key: nameOf(presence.key, "config.presence.key") },
    bindings: changes.map((sent, index) => parseBinding(sent, index, options.partial === true)),
    options: {
      since: stringOf(options.since, "postgres_changes_options.since") || null,
      leave: options.leave === true,
      positions: options.positions === true,
    },
    token: parseToken(payload.access_token),
  };
}

/** Null for no token. Keys of Supabase, which begin with `sb_`, are no tokens. */
export function parseToken(value: unknown): string | null {
  return typeof value === "string" && value !== "" && !value.startsWith("sb_") ? value : null;
}

function parseBinding(sent: unknown, index: number, isPartial: boolean): BindingRequest {
  const name = `postgres_changes[${index}]`;
  if (!isObject(sent)) throw malformed(`${name} must be an object`);
  const { select } = sent;
  const event = stringOf(sent.event, `${name}.event`).toUpperCase();
  if (!EVENTS.has(event)) throw malformed(`${name}.event must be INSERT, UPDATE, DELETE or *`);
  if (select !== undefined && select !== null && !isStrings(select))
    throw malformed(`${name}.select must be an array of column names`);
  const schema = stringOf(sent.schema, `${name}.schema`) || "public";
  const table = stringOf(sent.table, `${name}.table`) || "*";
  return {
    sent,
    event: event as BindingRequest["event"],
    schema: schema === "*" ? null : schema,
    table: table === "*" || schema === "*" ? null : table,
    filter: stringOf(sent.filter, `${name}.filter`),
    select: isStrings(select) && select.length > 0 ? select : null,
    isPartial,
  };
}

const isStrings = (value: unknown): value is readonly string[] =>
  Array.isArray(value) && value.every((each) => typeof each === "string");

/** An object that may be left out. */
function objectOf(value: unknown, name: string): Readonly<Record<string, unknown>> {
  if (value === undefined || value === null) return {};
  if (!isObject(value)) throw malformed(`${name} must be an object`);
  return value;
}

/** A string that may be left out. */
function stringOf(value: unknown, name: string): string {
  if (value === undefined || value === null) return "";
  if (typeof value !== "string") throw malformed(`${name} must be a string`);
  return value;
}

/** A short string that may be left out. */
function nameOf(value: unknown, name: string): string {
  const text = stringOf(value, name);
  checkName(text, name);
  return text;
}

function checkName(text: string, name: string): void {
  if (Buffer.byteLength(text) > MAX_NAME_BYTES) throw malformed(`${name} must have at most ${MAX_NAME_BYTES} bytes`);
}

/** Per socket and per network: channels, and joins per second. */
export type JoinLimitSettings = Pick<
  Config,
  "realtimeMaxChannels" | "realtimeMaxChannelsPerAddress" | "realtimeJoinRate" | "realtimeJoinRatePerAddress"
>;

/** The channels of one socket. They also count for its network. */
export class SocketJoins {
  readonly #settings: JoinLimitSettings;
  readonly #network: Client;
  readonly #joins = new IntervalCount();
  #channels = 0;

  constructor(settings: JoinLimitSettings, network: Client) {
    this.#settings = settings;
    this.#network = network;
  }

  /** Counts a join. Throws Problem if there are too many in this second. */
  countJoin(): void {
    const { realtimeJoinRate, realtimeJoinRatePerAddress } = this.#settings;
    const isOver = this.#joins.add() > realtimeJoinRate;
    if (this.#network.exceeds("joins", realtimeJoinRatePerAddress) || isOver) throw problem("too many joins");
  }

  /** Throws Problem if there can be no further channel. */
  admitChannel(): void {
    const { realtimeMaxChannels, realtimeMaxChannelsPerAddress } = this.#settings;
    if (this.#channels >= realtimeMaxChannels)
      throw problem("too many channels", { max: realtimeMaxChannels, of: "socket" });
    if (this.#network.isFull("channels", realtimeMaxChannelsPerAddress))
      throw problem("too many channels", { max: realtimeMaxChannelsPerAddress, of: "IP address" });
  }

  /** Counts a channel. The result must be called once, when it is closed. */
  openChannel(): () => void {
    this.#channels++;
    const release = this.#network.hold("channels");
    return () => {
      this.#channels--;
      release();
    };
  }
}
