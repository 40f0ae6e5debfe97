import type { Position } from "../../db/changes/position.ts";
import type { Entry, Found, Head, SharedLog } from "../../db/changes/shared-log.ts";
import { type Redis, scriptOf } from "./redis.ts";
import type { RedisConnection } from "./redis-servers.ts";

/** Milliseconds after which the reader counts as gone, */
const READER_TTL = 5000;
/** a process no longer wants changes, */
const WANTED_TTL = 10_000;
/** and entries that no process reads or writes are removed. */
const LOG_TTL = 600_000;
/** Milliseconds that a read waits for an entry, */
const WAIT = 1000;
/** and for the server. */
const MAX_WAIT = 4000;
/** Maximum entries of a read. Together they are at most as large as the log. */
const MAX_ENTRIES = 8;
/** Bytes that an entry takes beside its data. */
const ENTRY_BYTES = 100;

/** Positions are the ids of entries, which grow: `"22334455-3"`. Numbers of Lua would not be exact. */
const LIBRARY = `
  local function isLessNumber(a, b) return #a < #b or (#a == #b and a < b) end
  local function isLess(a, b)
    local x, i = string.match(a, '(%d+)-(%d+)')
    local y, j = string.match(b, '(%d+)-(%d+)')
    if x == y then return isLessNumber(i, j) end
    return isLessNumber(x, y)
  end
  local log, state, current, wanted = KEYS[1], KEYS[2], KEYS[3], KEYS[4]`;

/** What is stored stays if the stream continues there, and does not end after the log of the server. */
const BEGIN = scriptOf(`${LIBRARY}
  local start, last, stream, ancestors, reader, readerTtl, logTtl = unpack(ARGV)
  local top = redis.call('HGET', state, 'top')
  if not top or redis.call('EXISTS', log) == 0 or isLess(top, start) or isLess(last, top) then
    redis.call('DEL', log, state)
    redis.call('XADD', log, start, 'base', start, 'data', '')
    redis.call('HSET', state, 'top', start, 'bytes', 0)
  end
  redis.call('HSET', state, 'live', last)
  redis.call('HSET', current, 'stream', stream, 'ancestors', ancestors, 'reader', reader)
  redis.call('PEXPIRE', current, readerTtl)
  redis.call('PEXPIRE', log, logTtl)
  redis.call('PEXPIRE', state, logTtl)`);

/** The oldest entries make room. After a gap, what precedes it is of no use. */
const APPEND = scriptOf(`${LIBRARY}
  local after, base, last, data, max, more = unpack(ARGV)
  local top = redis.call('HGET', state, 'top')
  if not top or redis.call('EXISTS', log) == 0 or isLess(top, after) then return 0 end
  if not isLess(top, last) then return 1 end
  if isLess(after, base) then
    redis.call('DEL', log)
    redis.call('HSET', state, 'bytes', 0)
  end
  redis.call('XADD', log, last, 'base', base, 'data', data)
  redis.call('HSET', state, 'top', last)
  local bytes = redis.call('HINCRBY', state, 'bytes', #data + more)
  while bytes > tonumber(max) do
    local oldest = redis.call('XRANGE', log, '-', '+', 'COUNT', 1)[1]
    if oldest[1] == last then break end
    redis.call('XDEL', log, oldest[1])
    bytes = redis.call('HINCRBY', state, 'bytes', -(#oldest[2][4] + more))
  end
  return 1`);

/** If no process wants changes, nothing is kept, because it would have a gap when the next one does. */
const BEAT = scriptOf(`${LIBRARY}
  local stream, ancestors, reader, readerTtl, logTtl = unpack(ARGV)
  if redis.call('EXISTS', wanted) == 0 then
    redis.call('DEL', log, state, current)
    return 'unwanted'
  end
  if redis.call('EXISTS', log) == 0 or redis.call('EXISTS', state) == 0 then return 'lost' end
  redis.call('HSET', current, 'stream', stream, 'ancestors', ancestors, 'reader', reader)
  redis.call('PEXPIRE', current, readerTtl)
  redis.call('PEXPIRE', log, logTtl)
  redis.call('PEXPIRE', state, logTtl)
  return 'wanted'`);

const WANT = scriptOf(`
  local current, wanted = KEYS[1], KEYS[2]
  redis.call('SET', wanted, '1', 'PX', ARGV[1])
  local head = redis.call('HMGET', current, 'stream', 'ancestors', 'reader')
  if not head[1] then return false end
  local stored = redis.call('HMGET', ARGV[2] .. head[1], 'top', 'live')
  if not stored[2] then return false end
  return { head[1], head[2], head[3], stored[1], stored[2] }`);

const IS_WANTED = scriptOf("return redis.call('EXISTS', KEYS[1])");

export type RedisLogOptions = {
  readonly redis: Redis;
  /** The processes with another publication read other changes. */
  readonly publication: string;
  /** Maximum size of the entries. */
  readonly maxBytes: number;
};

/** The changes that one process reads for all, in a stream of Valkey or Redis. */
export class RedisLog implements SharedLog {
  readonly #redis: Redis;
  readonly #prefix: string;
  readonly #maxBytes: number;
  /** Its commands wait for entries. */
  #connection: RedisConnection | null = null;
  /** The `connectedAt` of the server to which it is. */
  #connectedAt = Number.NaN;
  #isClosed = false;

  constructor({ redis, publication, maxBytes }: RedisLogOptions) {
    this.#redis = redis;
    this.#prefix = `${redis.prefix}:changes:${publication}`;
    this.#maxBytes = maxBytes;
  }

  async begin(head: Head, start: Position, end: bigint): Promise<void> {
    const values = [textOf(start), textOf({ lsn: end, index: 0 }), ...valuesOf(head)];
    await this.#redis.run(BEGIN, this.#keysOf(head.stream), values);
  }

  async append(stream: string, { base, end, data }: Entry, after: Position): Promise<"stored" | "lost"> {
    const values = [...[after, base, end].map(textOf), data, String(this.#maxBytes), String(ENTRY_BYTES)];
    return (await this.#redis.run(APPEND, this.#keysOf(stream), values)) === 1 ? "stored" : "lost";
  }

  beat(head: Head) {
    return this.#redis.run(BEAT, this.#keysOf(head.stream), valuesOf(head)) as ReturnType<SharedLog["beat"]>;
  }

  async isWanted(): Promise<boolean> {
    return (await this.#redis.run(IS_WANTED, [this.#wanted], [])) === 1;
  }

  async want(): Promise<Found | null> {
    const values = [String(WANTED_TTL), this.#stateOf("")];
    const head = (await this.#redis.run(WANT, [this.#current, this.#wanted], values)) as string[] | null;
    if (head === null) return null;
    const [stream = "", ancestors = "", reader = "", top = "", live = ""] = head;
    const [ofTop, ofLive] = [positionOf(top), positionOf(live)];
    return { stream, ancestors: new Map(parse(ancestors)), reader, top: ofTop, live: ofLive.lsn };
  }

  async read(stream: string, after: Position | null): Promise<Entry[]> {
    const connection = await this.#connect();
    const from = after === null ? "0-0" : textOf(after);
    const command = ["XREAD", "COUNT", `${MAX_ENTRIES}`, "BLOCK", `${WAIT}`, "STREAMS", this.#logOf(stream), from];
    try {
      const [found] = ((await connection.send(command, MAX_WAIT)) as [Buffer, [Buffer, Buffer[]][]][] | null) ?? [];
      return (found?.[1] ?? []).map(([id, fields]) => entryOf(id, fields));
    } catch (error) {
      connection.close();
      if (this.#connection === connection) this.#connection = null;
      throw error;
    }
  }

  /** The connection, or another one where the data are now. */
  async #connect(): Promise<RedisConnection> {
    const { connectedAt } = this.#redis;
    if (this.#connection !== null && this.#connectedAt === connectedAt) return this.#connection;
    this.#connection?.close();
    this.#connection = await this.#redis.connect(MAX_WAIT);
    this.#connectedAt = connectedAt;
    const connection = this.#connection;
    if (this.#isClosed) this.close();
    return connection;
  }

  close(): void {
    this.#isClosed = true;
    this.#connection?.close();
    this.#connection = null;
  }

  #keysOf(stream: string): string[] {
    return [this.#logOf(stream), this.#stateOf(stream), this.#current, this.#wanted];
  }

  #logOf = (stream: string) => `${this.#prefix}:log:${stream}`;
  #stateOf = (stream: string) => `${this.#prefix}:state:${stream}`;

  get #current(): string {
    return `${this.#prefix}:current`;
  }

  get #wanted(): string {
    return `${this.#prefix}:wanted`;
  }
}

const valuesOf = ({ stream, ancestors, reader }: Head): string[] => {
  const pairs = [...ancestors].map(([name, lsn]) => [name, String(lsn)]);
  return [stream, JSON.stringify(pairs), reader, String(READER_TTL), String(LOG_TTL)];
};

const parse = (ancestors: string): [string, bigint][] =>
  (JSON.parse(ancestors) as [string, string][]).map(([name, lsn]) => [name, BigInt(lsn)]);

const textOf = ({ lsn, index }: Position): string => `${lsn}-${index}`;

function positionOf(text: string): Position {
  const [lsn = "0", index = "0"] = text.split("-");
  return { lsn: BigInt(lsn), index: Number(index) };
}

/** Its fields are `base` and `data`. */
const entryOf = (id: Buffer, [, base, , data]: Buffer[]): Entry => ({
  base: positionOf(base!.toString()),
  end: positionOf(id.toString()),
  data: data!,
});
