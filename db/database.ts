import pg from "pg";
import type { Logger } from "pino";
import type { Config } from "../config/config.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import { Admission } from "./admission/admission.ts";
import { ByteBudget, budgetLimits } from "./admission/byte-budget.ts";
import type { CallerLogin } from "./caller.ts";
import type { Catalog, Role } from "./catalog/catalog.ts";
import { prepareSession } from "./cluster/client.ts";
import type { Logins } from "./cluster/provision.ts";
import { loginRequired } from "./errors.ts";
import type { DatabaseLimits } from "./limits.ts";
import { registerPools, transactionTimes } from "./pool-metrics.ts";
import { Replicas } from "./replicas/replicas.ts";
import { TEXT_SETTINGS } from "./text-settings.ts";
import { type StatementTimeoutOptions, StatementTimeouts } from "./transaction/identity.ts";
import { type TransactionOptions, Transactions } from "./transaction/transaction.ts";
import { type Failure, preRequestOf, type SessionSettings, sessionSettings } from "./transaction/transaction-plan.ts";
import { PrimaryClient } from "./wire/primary.ts";

type DatabaseSettings = Config & DatabaseLimits;

export type DatabaseOptions = Pick<StatementTimeoutOptions, "anonymousRoles"> & {
  readonly settings: DatabaseSettings;
  readonly logins: Logins;
  /** A direct connection string of the login `data`, for LISTEN. Default: that of the login. */
  readonly listenUrl?: string;
  readonly onConnectionError: (error: Error) => void;
  /** Receives what the DBA should know about errors. */
  readonly log: Logger;
  /** Absent where nothing is measured. */
  readonly metrics?: Metrics;
  /** Called with the name of the setting whose limit has refused a transaction. */
  onLimit?(setting: string): void;
};

const KEEPALIVE_MILLISECONDS = 10_000;

const POOLER =
  "the database is behind a pooler that loses prepared statements: the service no longer prepares any. Set " +
  "DB_PREPARED_STATEMENTS=0, or let the pooler keep them (max_prepared_statements in PgBouncer 1.21 and later)";

/** The logins of transactions that requests wait for. */
type RequestLogin = CallerLogin | "auth";

/** The connection pools, one per login role, and the health of the database. */
export class Database {
  /** Ordinary connections for background work: the catalog, GraphQL's schema, the advisor, the health check, LISTEN. */
  readonly catalog: pg.Pool;
  readonly auth: Transactions;
  /** The memory that clients hold. */
  readonly budget: ByteBudget;
  readonly statementTimeouts: StatementTimeouts;
  /** Null without DATABASE_REPLICA_URLS. */
  readonly replicas: Replicas | null;
  /** Called with errors that the database has raised for a caller. It must not throw. */
  onFailure: (failure: Failure) => void = () => {};
  /** Called with the statements of slow transactions of callers. */
  onSlow: NonNullable<TransactionOptions["onSlow"]> = () => {};
  readonly #data: Transactions;
  readonly #admin: Transactions;
  readonly #service: Transactions;
  /** The transactions of tasks, on the connections of the logins. */
  readonly #tasks: Readonly<Record<CallerLogin, Transactions>>;
  #sessions: SessionSettings;
  readonly #logins: Logins;
  /** Which caller gets a connection next. */
  readonly #queues: Readonly<Record<RequestLogin, Admission>>;
  readonly #onLimit: (setting: string) => void;
  /** Roles that only the login of admins may become; by name until there is a catalog. */
  #adminRoles: ReadonlySet<string> = new Set(["admin"]);

  constructor(options: DatabaseOptions) {
    const { settings, logins, anonymousRoles, onConnectionError } = options;
    const { dbPool, dbPoolTimeout, dbPoolShare } = settings;
    const statementTimeouts = new StatementTimeouts({
      everyone: settings.dbStatementTimeout,
      anonymous: settings.dbAnonStatementTimeout,
      anonymousRoles,
    });
    const pool = (connectionString: string, max: number) => ({
      connectionString,
      max,
      connectionTimeoutMillis: dbPoolTimeout,
      idleTimeoutMillis: 60_000,
      application_name: "content-service",
    });
    const statementTimeoutOf = (role: string) => statementTimeouts.of(role);
    const few = Math.min(4, dbPool);
    const budget = new ByteBudget(budgetLimits(settings));
    const timesOf = options.metrics && transactionTimes(options.metrics);
    const transactions = (login: RequestLogin, slots: number, more: Partial<TransactionOptions> = {}) =>
      new Transactions({
        maxPrepared: settings.dbPreparedStatements,
        maxResultBytes: settings.dbMaxResultBytes,
        sharedReads: settings.dbSharedReads,
        isAnonymous: (role) => statementTimeouts.isAnonymous(role),
        onConnectionError,
        statementTimeoutOf,
        onPooler,
        pool: pool(logins[login], slots),
        admission: this.#queues[login],
        ...more,
        ...(timesOf && { times: timesOf(login) }),
      });
    const { onLimit = () => {} } = options;
    let isWarned = false;
    const onPooler = () => {
      if (!isWarned) options.log.warn(POOLER);
      isWarned = true;
    };
    this.#onLimit = onLimit;
    const onFailure = (failure: Failure) => this.onFailure(failure);
    const onSlow: TransactionOptions["onSlow"] = (...slow) => this.onSlow(...slow);
    const onRun: TransactionOptions["onRun"] = ({ caller: { role }, request: { requestId } }, statements) => {
      // The level may change while the service runs.
      if (!options.log.isLevelEnabled("trace")) return;
      // Without the values of parameters, which may be personal or secret.
      const sql = statements.map(({ text }) => text);
      options.log.trace({ requestId, role, sql }, "sql");
    };
    const queue = { timeout: dbPoolTimeout, queue: settings.dbPoolQueue, budget, onLimit };
    // Admins and callers with the service key are trusted, and may act for many users.
    const queues = {
      data: { ...queue, slots: dbPool, share: dbPoolShare, short: settings.dbPoolShort },
      admin: { ...queue, slots: few, share: 100 },
      service: { ...queue, slots: few, share: 100 },
      auth: { ...queue, slots: few, share: dbPoolShare },
    };
    this.#queues = {
      data: new Admission(queues.data),
      admin: new Admission(queues.admin),
      service: new Admission(queues.service),
      auth: new Admission(queues.auth),
    };
    this.catalog = new pg.Pool({
      Client: PrimaryClient,
      ...pool(options.listenUrl ?? logins.data, 3),
      keepAlive: true,
      keepAliveInitialDelayMillis: KEEPALIVE_MILLISECONDS,
      onConnect: prepareSession,
    });
    const onLost = (error: Error) => {
      this.replicas?.doubtPrimary();
      onConnectionError(error);
    };
    this.catalog.on("error", onLost);
    // One of them is always open: the one that listens.
    this.catalog.on("connect", (client) => client.on("error", onLost));
    const streamsOf = ({ share, slots }: { readonly share: number; readonly slots: number }) => {
      const streamed = Math.min(settings.streamConnections, slots - 1);
      return streamed > 0 ? new Admission({ ...queue, share, slots: streamed, busy: "streams busy" }) : undefined;
    };
    const transactionsOf = (login: CallerLogin, url: string) =>
      transactions(login, queues[login].slots, {
        pool: pool(url, queues[login].slots),
        admission: new Admission(queues[login]),
        streams: streamsOf(queues[login]),
        isReplica: true,
        onRun,
        onSlow,
      });
    const onReplicas = { settings, logins, pool: this.catalog, transactionsOf, log: options.log };
    const replicas = settings.databaseReplicaUrls.length > 0 ? new Replicas(onReplicas) : null;
    this.replicas = replicas;
    const { taskTimeout } = settings;
    const taskConcurrency = settings.hasTasks ? settings.taskConcurrency : 0;
    const admitted = (login: CallerLogin, slots: number, share: number) => {
      return transactions(login, slots + taskConcurrency, {
        streams: streamsOf({ share, slots }),
        onFailure,
        onRun,
        onSlow,
        ...(replicas && { reader: replicas.readerOf(login), onWritten: replicas.noteWrite }),
      });
    };

    this.statementTimeouts = statementTimeouts;
    this.budget = budget;
    this.#sessions = settings;
    this.#logins = logins;
    this.#data = admitted("data", dbPool, dbPoolShare);
    this.#admin = admitted("admin", few, 100);
    this.#service = admitted("service", few, 100);
    this.auth = transactions("auth", few, replicas ? { onWritten: replicas.noteWrite } : {});
    // Tasks may take long: requests do not wait for their slots.
    const tasks = (requests: Transactions) =>
      requests.inBackground({
        admission: new Admission({ ...queue, slots: taskConcurrency, share: 100 }),
        statementTimeoutOf: (role) => statementTimeouts.ofRole(role) ?? taskTimeout,
      });
    this.#tasks = { data: tasks(this.#data), admin: tasks(this.#admin), service: tasks(this.#service) };
    const pools = { data: this.#data, admin: this.#admin, service: this.#service, auth: this.auth };
    if (options.metrics) registerPools(options.metrics, pools, budget);
    if (options.metrics) this.replicas?.registerMetrics(options.metrics);
    this.replicas?.start();
  }

  /** Applies what a new catalog knows about roles and code, and changed settings of sessions. */
  follow(catalog: Catalog, sessions = this.#sessions): void {
    this.#sessions = sessions;
    const { roles, code, textSettings } = catalog;
    const settings = sessionSettings(sessions);
    const preRequest = preRequestOf(sessions, catalog);
    const rules = { roles, settings: [...settings, ...textSettings], preRequest };
    this.statementTimeouts.follow(roles);
    this.#adminRoles = rolesOfAdmin(roles, this.#logins);
    const all = [this.#data, this.#admin, this.#service, ...Object.values(this.#tasks)];
    for (const transactions of all) transactions.follow(code, rules);
    // The files of a replica may set what those of the primary do not.
    this.replicas?.follow(catalog, { ...rules, settings: [...settings, ...TEXT_SETTINGS] });
  }

  /** Round trips to the database so far. */
  get waits(): number {
    const own = this.#data.syncs + this.#admin.syncs + this.#service.syncs + this.auth.syncs;
    return own + (this.replicas?.syncs ?? 0);
  }

  /** The pool whose login may become `role`. Throws for "": anonymous callers are not allowed. */
  forRole(role: string): Transactions {
    if (role === "") throw loginRequired(null);
    const login = this.loginOf(role);
    return login === "data" ? this.#data : login === "admin" ? this.#admin : this.#service;
  }

  /** The transactions of a task of this role. */
  forTask(role: string): Transactions {
    return this.#tasks[this.loginOf(role)];
  }

  /** Sends the reads that wait for others to share a connection with. */
  sendReads(): void {
    for (const transactions of [this.#data, this.#admin, this.#service]) transactions.sendReads();
    this.replicas?.sendReads();
  }

  /** Transactions of callers that wait for a connection. */
  get waiting(): number {
    return this.#queues.data.waiting + this.#queues.admin.waiting + this.#queues.service.waiting;
  }

  /** Whether a further transaction of the client, in this role, would be refused at once. */
  refuses(role: string, client: string): boolean {
    const isRefused = role !== "" && this.#queues[this.loginOf(role)].refuses(client);
    if (isRefused) this.#onLimit("database_queue");
    return isRefused;
  }

  /** The login that may become `role`. */
  loginOf(role: string): CallerLogin {
    if (role === "service_role") return "service";
    return this.#adminRoles.has(role) ? "admin" : "data";
  }

  /** Rejects when the database does not respond. */
  async ping(): Promise<void> {
    await this.catalog.query("select");
  }

  async close(): Promise<void> {
    const all = [this.#data, this.#admin, this.#service, this.auth];
    await this.replicas?.close();
    await Promise.all([...all.map((transactions) => transactions.close()), this.catalog.end()]);
  }
}

/** The roles that the login of admins may become, without those of the login for all callers. */
function rolesOfAdmin(roles: ReadonlyMap<string, Role>, logins: Logins): ReadonlySet<string> {
  const [data, admin] = [logins.data, logins.admin].map((url) => roles.get(decodeURIComponent(new URL(url).username)));
  if (!admin || data?.isSuperuser) return new Set();
  return data ? admin.mayBecome.difference(data.mayBecome) : admin.mayBecome;
}
