import type pg from "pg";
import type { DatabaseError } from "pg-protocol";
import type { Config } from "../../config/config.ts";
import type { Metrics } from "../../telemetry/metrics.ts";
import type { CallerLogin } from "../caller.ts";
import type { Catalog, Role } from "../catalog/catalog.ts";
import { type Mark, parseStart, textOfStart } from "../changes/position.ts";
import type { DatabaseLimits } from "../limits.ts";
import { every, type Repetition, within } from "../repeat.ts";
import type { Identity } from "../transaction/identity.ts";
import type { CallerRules } from "../transaction/transaction-plan.ts";
import { type FallbackReason, mayRepeat, reasonOf } from "./fallback.ts";
import { PrimaryPosition } from "./primary-position.ts";
import type { Located, LocatedOptions, Reader, Runner } from "./reader.ts";
import type { CommitPosition, Reading, SharedWrites } from "./reading.ts";
import { type Lsn, RecentWrites, UNKNOWN } from "./recent-writes.ts";
import type { Replica } from "./replica.ts";
import { registerReplicas } from "./replica-metrics.ts";
import { ReplicaSet, type ReplicaSetOptions } from "./replica-set.ts";

export type ReplicaSettings = Pick<Config, "databaseReplicaUrls"> &
  Pick<DatabaseLimits, "replicaMaxLag" | "replicaMaxWait" | "replicaSticky">;

export type ReplicasOptions = Pick<ReplicaSetOptions, "logins" | "transactionsOf" | "log"> & {
  readonly settings: ReplicaSettings;
  /** Connections to the primary for background work. */
  readonly pool: Pick<pg.Pool, "query">;
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

/** Milliseconds for which a request waits for what other processes know. */
const PATIENCE = 50;

/** The name of positions whose server is not known: the primary answers reads with them, whichever server that is. */
const UNKNOWN_STREAM = "0";

/** The setting of a role whose reads the primary answers: `alter role reporting set content.read = 'primary'` */
const READ = "content.read";

/** SQLSTATE of a write in a transaction that cannot write. */
const WRITES = "25006";

/**
 * Reads on replicas, for all interfaces. A read goes to the replica that answers the fewest reads, of those that have replayed what the
 * read must see: the position that it names, and what its client has written lately. Everything in doubt goes to the primary.
 */
export class Replicas {
  readonly #options: ReplicasOptions;
  readonly #primary: PrimaryPosition;
  readonly #replicas: ReplicaSet;
  readonly #recent: RecentWrites;
  readonly #fallbacks: Record<FallbackReason, number> = {
    unavailable: 0,
    behind: 0,
    conflict: 0,
    error: 0,
    unshared: 0,
  };
  /** Null while this process is alone. */
  #shared: SharedWrites | null = null;
  /** Roles whose reads are answered by the primary. */
  #offRoles: ReadonlySet<string> = new Set();
  #samples: Repetition | null = null;
  #isClosed = false;
  /** Whether the primary did not say where its log ends. */
  #isBlind = false;
  /** Whether there may be another primary, which has not said yet where its log ends. */
  #isUncertain = false;

  constructor(options: ReplicasOptions) {
    this.#options = options;
    const { databaseReplicaUrls: urls, replicaMaxLag: maxLag, replicaMaxWait: maxWait } = options.settings;
    this.#primary = new PrimaryPosition(options.pool, maxLag + 2 * SAMPLING);
    this.#recent = new RecentWrites({ milliseconds: options.settings.replicaSticky });
    this.#replicas = new ReplicaSet({ ...options, urls, primary: this.#primary, maxLag, maxWait });
  }

  /** Looks for the replicas in the background, again and again. */
  start(): void {
    const sample = async () => {
      await this.#primary.sample();
      this.#isBlind = false;
      this.#isUncertain = false;
    };
    this.#samples = every(SAMPLING, sample, (error) => this.#onBlind(error));
    this.#samples.now();
    this.#replicas.start();
  }

  /** `position` is the header Change-Position, and `read` the preference of this name. The read must also contain every change up to `mark`. */
  requestOf(position: unknown, read: "primary" | null, mark: Mark | null = null): ReplicatedRequest {
    const sent = position === undefined ? 0n : this.#lsnOf(String(position));
    const marked = mark === null ? 0n : this.#lsnOfMark(mark);
    const after = sent === null || marked === null ? null : sent > marked ? sent : marked;
    const reading =
      read === null && after !== null ? { after, isNamed: position !== undefined, replayed: null } : undefined;
    const written: CommitPosition = { lsn: null };
    const textOf = (lsn: Lsn | "unknown") => this.#textOf(lsn);
    return {
      reading,
      written,
      get position() {
        return written.lsn === null ? null : textOf(written.lsn);
      },
    };
  }

  /** Null for a position of another server. */
  #lsnOf(position: string): Lsn | null {
    const parsed = parseStart(position);
    return parsed?.stream === this.#primary.stream ? parsed.start.lsn : null;
  }

  /** The same for the position of a stream. */
  #lsnOfMark({ stream, position }: Mark): Lsn | null {
    return stream === this.#primary.stream ? position.lsn : null;
  }

  /** The position of a write, for clients. */
  #textOf(lsn: Lsn | "unknown"): string {
    const { stream } = this.#primary;
    if (lsn === "unknown") return textOfStart({ lsn: 0n, index: 0 }, UNKNOWN_STREAM);
    return textOfStart({ lsn, index: 0 }, stream === "" || this.#isUncertain ? UNKNOWN_STREAM : stream);
  }

  /** Lets the clients of other processes read what they have written here, and the other way round. */
  share(writes: SharedWrites): void {
    this.#shared = writes;
  }

  /** Notes a write of a client. Null: what it has written is unknown. */
  readonly noteWrite = ({ request }: Identity, lsn: Lsn | null): Promise<void> | undefined => {
    const { recipient } = request;
    if (!recipient) return undefined;
    // Positions of another primary cannot be compared with those of the replicas.
    const known = this.#isUncertain ? UNKNOWN : (lsn ?? UNKNOWN);
    this.#recent.add(recipient.client, known);
    return this.#shared === null ? undefined : this.#tellOthers(this.#shared, recipient.client, known);
  };

  /** If the other processes cannot learn of the write, its client learns of it when no replica can lack it any more. */
  async #tellOthers(shared: SharedWrites, client: string, lsn: Lsn): Promise<void> {
    const noted = shared.note(client, lsn).then(
      () => true,
      () => false,
    );
    if (await within(PATIENCE, noted)) return;
    const replayed = this.#replicas.waitForAll(lsn, this.#options.settings.replicaMaxLag + 2 * SAMPLING);
    await Promise.race([replayed, noted.then((isNoted) => (isNoted ? undefined : replayed))]);
  }

  /** Answers the reads of callers with this login. */
  readonly readerOf =
    (login: CallerLogin): Reader =>
    async (identity, options, primary, run) => {
      const reading = options.reading!;
      if (this.#offRoles.has(identity.caller.role)) return run(primary, { ...options, reading: undefined });
      const needed = await this.#neededBy(identity, reading);
      const read = { login, options, reading, primary, run, needed: needed ?? UNKNOWN };
      if (needed === null) return this.#fallBack(read, "unshared");
      // A replica has no serializable transactions.
      if (options.isolation === "serializable" || options.rollback || needed === UNKNOWN) return onPrimary(read);
      const replica = this.#replicas.choose(needed);
      if (replica !== null) return this.#read(read, replica);
      if (!this.#replicas.isUsable) return this.#fallBack(read, "unavailable");
      const found = await this.#replicas.wait(needed);
      return found ? this.#read(read, found) : this.#fallBack(read, "behind");
    };

  /** Applies what a new catalog knows about code and callers, and about roles that read at the primary. */
  follow({ code, roles }: Pick<Catalog, "code" | "roles">, rules?: CallerRules): void {
    const isOff = ({ settings }: Role) => settings.some(([name, value]) => name === READ && value === "primary");
    this.#offRoles = new Set([...roles.values()].filter(isOff).map(({ name }) => name));
    for (const each of this.#replicas.transactions) each.follow(code, rules);
  }

  sendReads(): void {
    for (const transactions of this.#replicas.transactions) transactions.sendReads();
  }

  /** Round trips so far. */
  get syncs(): number {
    return this.#replicas.transactions.reduce((sum, { syncs }) => sum + syncs, 0);
  }

  registerMetrics(metrics: Metrics): void {
    registerReplicas(metrics, this.#replicas.all, this.#fallbacks);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    void this.#samples?.stop();
    await this.#replicas.close();
  }

  /** A connection to the primary is lost: it may be replaced. */
  doubtPrimary(): void {
    this.#isUncertain = true;
  }

  /** Only the first failure of several is logged. While the primary does not answer, the last answer counts. */
  #onBlind(err: Error): void {
    if (!this.#isBlind && !this.#isClosed)
      this.#options.log.warn(
        { err },
        "the position of the primary cannot be read, with which those of its replicas are compared",
      );
    this.#isBlind = true;
    this.#isUncertain = true;
  }

  /** The position that a replica must have replayed; null if it is uncertain. */
  async #neededBy({ request: { recipient } }: Identity, { after, isNamed }: Reading): Promise<Lsn | null> {
    if (!recipient) return after;
    const { client, network } = recipient;
    // Sign-ins write as the network: their user is not known before.
    const here = later(later(this.#recent.of(client), this.#recent.of(network)), after);
    if (this.#shared === null || here === UNKNOWN) return here;
    const clients = client === network ? [client] : [client, network];
    const elsewhere = await within(PATIENCE, this.#shared.lastOf(clients));
    if (elsewhere === null) return isNamed ? here : null;
    return later(here, elsewhere);
  }

  async #read<T, Options extends LocatedOptions>(read: Read<T, Options>, replica: Replica): Promise<T> {
    const { login, options, reading, run, needed } = read;
    let replayed: Lsn | null = null;
    // It may have been restarted since it was looked at, and have gone back, or be no replica any more.
    const onReplayed = (lsn: Lsn | null) => {
      replayed = lsn;
      return lsn !== null && lsn >= needed;
    };
    let reason: FallbackReason = "behind";
    replica.running++;
    try {
      const result = await run(replica.transactions[login], { ...options, reading: undefined, onReplayed });
      if (onReplayed(replayed)) {
        replica.answered++;
        reading.replayed = replayed;
        return result;
      }
    } catch (error) {
      if (!mayRepeat(error, options)) throw error;
      reason = reasonOf(error);
      if (reason === "unavailable") replica.doubt(error as Error);
      // The primary notes what it writes after all.
      if ((error as DatabaseError).code === WRITES) read = { ...read, options: { ...options, isRead: false } };
    } finally {
      replica.running--;
    }
    return this.#fallBack(read, reason);
  }

  #fallBack<T, Options extends LocatedOptions>(read: Read<T, Options>, reason: FallbackReason): Promise<T> {
    this.#fallbacks[reason]++;
    return onPrimary(read);
  }
}

type Read<T, Options extends LocatedOptions> = {
  readonly login: CallerLogin;
  readonly options: Options;
  readonly reading: Reading;
  readonly primary: Runner;
  readonly run: Located<T, Options>;
  readonly needed: Lsn;
};

const later = (a: Lsn, b: Lsn): Lsn => (a > b ? a : b);

const onPrimary = <T, Options extends LocatedOptions>({ run, primary, options }: Read<T, Options>): Promise<T> =>
  run(primary, { ...options, reading: undefined });
