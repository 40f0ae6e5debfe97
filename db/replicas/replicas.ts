import type pg from "pg";
import type { DatabaseError } from "pg-protocol";
import type { Logger } from "pino";
import type { Config } from "../../config/config.ts";
import { atHost } from "../../config/postgres-url.ts";
import type { Metrics } from "../../telemetry/metrics.ts";
import type { Code } from "../catalog/code.ts";
import { parseStart, textOfStart } from "../changes/position.ts";
import type { CallerLogin } from "../database.ts";
import type { Identity } from "../transaction/identity.ts";
import type { Result, RunOptions, Statement, Transactions } from "../transaction/transaction.ts";
import { type FallbackReason, mayRepeat, reasonOf } from "./fallback.ts";
import { PrimaryPosition } from "./primary-position.ts";
import type { CommitPosition, Reader, Reading, Run } from "./reading.ts";
import { type Lsn, RecentWrites, UNKNOWN } from "./recent-writes.ts";
import { Replica } from "./replica.ts";
import { registerReplicas } from "./replica-metrics.ts";

export type ReplicaSettings = Pick<
  Config,
  "databaseReplicaUrls" | "replicaMaxLag" | "replicaMaxWait" | "replicaSticky"
>;

export type ReplicasOptions = {
  readonly settings: ReplicaSettings;
  /** Connection strings of the logins at the primary. */
  readonly logins: Readonly<Record<CallerLogin, string>>;
  /** Connections to the primary for background work. */
  readonly pool: Pick<pg.Pool, "query">;
  /** New pools on the replica. */
  transactionsOf(login: CallerLogin, url: string): Transactions;
  readonly log: Pick<Logger, "info" | "warn">;
};

/** What a request says about positions, and receives. */
export type ReplicatedRequest = {
  /** Undefined if only the primary may answer. */
  readonly reading: Reading | undefined;
  readonly written: CommitPosition;
  /** The text of the position of what it has written, for clients; null if it has written nothing. */
  readonly position: string | null;
};

/** Milliseconds between two looks at the primary. */
const SAMPLING = 500;

/** SQLSTATE of a write in a transaction that cannot write. */
const WRITES = "25006";

type Waiter = { readonly needed: Lsn; resolve(replica: Replica | null): void };

/**
 * Reads on replicas, for all interfaces. A read goes to the replica that answers the fewest reads, of those that have replayed what the
 * read must see: the position that it names, and what its client has written lately. Everything in doubt goes to the primary.
 */
export class Replicas {
  readonly #options: ReplicasOptions;
  readonly #primary: PrimaryPosition;
  readonly #replicas: readonly Replica[];
  readonly #recent: RecentWrites;
  readonly #waiting = new Set<Waiter>();
  readonly #fallbacks: Record<FallbackReason, number> = { unavailable: 0, behind: 0, conflict: 0, error: 0 };
  #next = 0;
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;
  /** Whether the primary did not say where its log ends. */
  #isBlind = false;

  constructor(options: ReplicasOptions) {
    this.#options = options;
    const { databaseReplicaUrls: urls, replicaMaxLag: maxLag, replicaSticky: milliseconds } = options.settings;
    this.#primary = new PrimaryPosition(options.pool, maxLag + 2 * SAMPLING);
    this.#recent = new RecentWrites({ milliseconds });
    this.#replicas = urls.map((url) => this.#replicaAt(url));
  }

  /** Looks for the replicas in the background, again and again. */
  start(): void {
    const sample = async () => {
      await this.#primary.sample().then(
        () => {
          this.#isBlind = false;
        },
        (err) => this.#onBlind(err),
      );
      if (!this.#isClosed) this.#timer = setTimeout(sample, SAMPLING).unref();
    };
    sample();
    for (const replica of this.#replicas) replica.look(this.#isBusy);
  }

  /** `position` is the header Change-Position, and `read` the preference of this name. */
  requestOf(position: unknown, read: "primary" | null): ReplicatedRequest {
    const after = position === undefined ? 0n : this.#lsnOf(String(position));
    const reading = read === null && after !== null ? { after, replayed: null } : undefined;
    const written: CommitPosition = { lsn: null };
    const textOf = (lsn: Lsn) => this.#textOf(lsn);
    return {
      reading,
      written,
      get position() {
        return written.lsn === null ? null : textOf(written.lsn);
      },
    };
  }

  /** Null for a position of another server, or of changes that are not read from the write-ahead log. */
  #lsnOf(position: string): Lsn | null {
    const parsed = parseStart(position);
    return parsed?.stream === this.#primary.stream ? parsed.start.lsn : null;
  }

  /** The position of a write, for clients; null until the server is known. */
  #textOf(lsn: Lsn): string | null {
    const { stream } = this.#primary;
    return stream === "" ? null : textOfStart({ lsn, index: 0 }, stream);
  }

  /** Notes a write of a client. Null: what it has written is unknown. */
  readonly noteWrite = ({ request }: Identity, lsn: Lsn | null): void => {
    const { recipient } = request;
    if (recipient) this.#recent.add(recipient.client, lsn ?? UNKNOWN);
  };

  /** Answers the reads of callers with this login. */
  readonly readerOf =
    (login: CallerLogin): Reader =>
    (identity, statements, options, onPrimary) => {
      const reading = options.reading!;
      const needed = this.#neededBy(identity, reading);
      if (options.isolation || options.rollback || needed === UNKNOWN)
        return onPrimary(identity, statements, { ...options, reading: undefined });
      const read = { login, identity, statements, options, reading, onPrimary, needed };
      const replica = this.#choose(needed);
      if (replica !== null) return this.#read(read, replica);
      if (!this.#replicas.some(({ fault }) => fault === null)) return this.#fallBack(read, "unavailable");
      return this.#wait(needed).then((found) => (found ? this.#read(read, found) : this.#fallBack(read, "behind")));
    };

  follow(code: Code): void {
    for (const each of this.#transactions) each.follow(code);
  }

  sendReads(): void {
    for (const { sharedReads } of this.#transactions) sharedReads.send();
  }

  /** Round trips so far. */
  get syncs(): number {
    return this.#transactions.reduce((sum, { syncs }) => sum + syncs, 0);
  }

  get #transactions(): Transactions[] {
    return this.#replicas.flatMap(({ transactions }) => Object.values(transactions));
  }

  registerMetrics(metrics: Metrics): void {
    registerReplicas(metrics, this.#replicas, this.#fallbacks);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    await Promise.all(this.#replicas.map((each) => each.close()));
  }

  /** Only the first failure of several is logged. While the primary does not answer, the last answer counts. */
  #onBlind(err: Error): void {
    if (!this.#isBlind && !this.#isClosed)
      this.#options.log.warn(
        { err },
        "the position of the primary cannot be read, with which those of its replicas are compared",
      );
    this.#isBlind = true;
  }

  #replicaAt(url: string): Replica {
    const { logins, transactionsOf, settings, log } = this.#options;
    const of = (login: CallerLogin) => transactionsOf(login, urlAt(url, logins[login]));
    return new Replica({
      name: new URL(url).host,
      url: urlAt(url, logins.data),
      transactions: { data: of("data"), admin: of("admin"), service: of("service") },
      primary: this.#primary,
      maxLag: settings.replicaMaxLag,
      onState: (replica, fault) => {
        if (fault === null) log.info({ replica }, "reads go to the replica");
        else log.warn({ replica }, `no reads go to the replica: ${fault}`);
      },
      onLook: () => this.#admit(),
    });
  }

  /** The position that a replica must have replayed. */
  #neededBy({ request: { recipient } }: Identity, { after }: Reading): Lsn {
    if (!recipient) return after;
    const { client, network } = recipient;
    // Sign-ins write as the network: their user is not known before.
    const [own, shared] = [this.#recent.of(client), this.#recent.of(network)];
    const recent = own > shared ? own : shared;
    return recent > after ? recent : after;
  }

  /** The one that answers the fewest reads; of several, each in turn. Null if none has replayed this much. */
  #choose(needed: Lsn): Replica | null {
    const { length } = this.#replicas;
    let chosen: Replica | null = null;
    for (let i = 0; i < length; i++) {
      const replica = this.#replicas[(this.#next + i) % length]!;
      if (replica.fault !== null || replica.replayed < needed) continue;
      if (chosen === null || replica.running < chosen.running) chosen = replica;
    }
    this.#next++;
    return chosen;
  }

  readonly #isBusy = () => this.#waiting.size > 0;

  /** A replica that has replayed this much, within REPLICA_MAX_WAIT; null if there is none. */
  #wait(needed: Lsn): Promise<Replica | null> {
    const { promise, resolve } = Promise.withResolvers<Replica | null>();
    const waiter = { needed, resolve };
    this.#waiting.add(waiter);
    const timer = setTimeout(resolve, this.#options.settings.replicaMaxWait, null);
    for (const replica of this.#replicas) if (replica.fault === null) replica.look(this.#isBusy);
    return promise.finally(() => {
      clearTimeout(timer);
      this.#waiting.delete(waiter);
    });
  }

  #admit(): void {
    for (const { needed, resolve } of this.#waiting) {
      const replica = this.#choose(needed);
      if (replica !== null) resolve(replica);
    }
  }

  async #read(read: Read, replica: Replica): Promise<Result[]> {
    const { login, identity, statements, options, reading, needed } = read;
    let replayed: Lsn | null = null;
    const onReplayed = (lsn: Lsn | null) => {
      replayed = lsn;
    };
    let reason: FallbackReason = "behind";
    replica.running++;
    try {
      const own = { ...options, reading: undefined, onReplayed };
      const results = await replica.transactions[login].run(identity, statements, own);
      // It may have been restarted since it was looked at, and have gone back, or be no replica any more.
      if (replayed !== null && replayed >= needed) {
        replica.answered++;
        reading.replayed = replayed;
        return results;
      }
    } catch (error) {
      if (!mayRepeat(error, options)) throw error;
      reason = reasonOf(error);
      if (reason === "unavailable") replica.doubt(error as Error);
      // The primary notes what it writes after all.
      if ((error as DatabaseError).code === WRITES)
        return this.#fallBack({ ...read, options: { ...options, isRead: false } }, reason);
    } finally {
      replica.running--;
    }
    return this.#fallBack(read, reason);
  }

  #fallBack({ identity, statements, options, onPrimary }: Read, reason: FallbackReason): Promise<Result[]> {
    this.#fallbacks[reason]++;
    return onPrimary(identity, statements, { ...options, reading: undefined });
  }
}

type Read = {
  readonly login: CallerLogin;
  readonly identity: Identity;
  readonly statements: readonly Statement[];
  readonly options: RunOptions;
  readonly reading: Reading;
  readonly onPrimary: Run;
  readonly needed: Lsn;
};

/** The login of the primary at a replica. What the URL of the replica says of user and password is not used: roles are replicated. */
export function urlAt(replica: string, login: string): string {
  const at = new URL(replica);
  const url = new URL(atHost(login, `${at.hostname}:${at.port || "5432"}`));
  if (at.pathname.length > 1) url.pathname = at.pathname;
  for (const [name, value] of at.searchParams) url.searchParams.set(name, value);
  return url.href;
}
