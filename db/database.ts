import pg from "pg";
import type { Logger } from "pino";
import type { Config } from "../config/config.ts";
import { Admission } from "./admission.ts";
import type { Catalog, Role } from "./catalog/catalog.ts";
import type { Logins } from "./cluster/provision.ts";
import { Diagnosis, type Failure } from "./diagnosis.ts";
import { ApiError, loginRequired } from "./errors.ts";
import { UnsentBytes, type UnsentLimits } from "./recipient.ts";
import { type StatementTimeoutOptions, StatementTimeouts } from "./statement-timeouts.ts";
import { type TransactionOptions, Transactions } from "./transaction.ts";

export type DatabaseOptions = {
  readonly logins: Logins;
  /** Connections of the pool for callers; the other pools have at most four. */
  readonly poolSize: number;
  /** Milliseconds that a request waits for a free connection before it fails. */
  readonly poolTimeout: number;
  /** Maximum percentage of the pool for callers that one client may use at once. */
  readonly poolShare: number;
  readonly unsent: UnsentLimits;
  readonly statementTimeouts: StatementTimeouts;
  readonly maxPrepared: number;
  readonly maxResultBytes: number;
  readonly onConnectionError: (error: Error) => void;
  /** Receives what the DBA should know about errors. */
  readonly log: Logger;
};

/** The database of the settings. `anonymousRoles` are the roles of callers without credentials. */
export const createDatabase = (
  config: Config,
  options: Pick<DatabaseOptions, "logins" | "onConnectionError" | "log"> &
    Pick<StatementTimeoutOptions, "anonymousRoles">,
): Database =>
  new Database({
    ...options,
    poolSize: config.dbPool,
    poolTimeout: config.dbPoolTimeout,
    poolShare: config.dbPoolShare,
    statementTimeouts: new StatementTimeouts({
      everyone: config.dbStatementTimeout,
      anonymous: config.dbAnonStatementTimeout,
      anonymousRoles: options.anonymousRoles,
    }),
    unsent: { total: config.maxUnsentBytes, perAddress: config.maxUnsentBytesPerAddress },
    maxPrepared: config.dbPreparedStatements,
    maxResultBytes: config.dbMaxResultBytes,
  });

/** The logins that take on the role of a caller. */
export type CallerLogin = "data" | "admin" | "service";

/** The connection pools, one per login role, and the health of the database. */
export class Database {
  /** Ordinary connections, for the catalog and the health check. */
  readonly catalog: pg.Pool;
  readonly auth: Transactions;
  /** The results that clients have not taken yet. */
  readonly unsent: UnsentBytes;
  readonly statementTimeouts: StatementTimeouts;
  readonly #data: Transactions;
  readonly #admin: Transactions;
  readonly #service: Transactions;
  readonly #logins: Logins;
  readonly #diagnosis: Diagnosis;
  /** Roles that only the login of admins may become; by name until there is a catalog. */
  #adminRoles: ReadonlySet<string> = new Set(["admin"]);

  constructor(options: DatabaseOptions) {
    const { logins, poolSize, poolTimeout, poolShare, statementTimeouts, onConnectionError } = options;
    const pool = (connectionString: string, max: number): pg.PoolConfig => ({
      connectionString,
      max,
      connectionTimeoutMillis: poolTimeout,
      idleTimeoutMillis: 60_000,
      application_name: "content-service",
    });
    const statementTimeoutOf = (role: string) => statementTimeouts.of(role);
    const few = Math.min(4, poolSize);
    const unsent = new UnsentBytes(options.unsent);
    const transactions = (
      login: string,
      slots: number,
      more: Pick<TransactionOptions, "admission" | "onFailure"> = {},
    ) => new Transactions({ ...options, statementTimeoutOf, pool: pool(login, slots), ...more });
    const onFailure = (failure: Failure) => this.#diagnosis.examine(failure);
    const admitted = (login: string, slots: number, share: number) =>
      transactions(login, slots, {
        admission: new Admission({ slots, share, timeout: poolTimeout, unsent }),
        onFailure,
      });

    this.statementTimeouts = statementTimeouts;
    this.unsent = unsent;
    this.#logins = logins;
    this.#data = admitted(logins.data, poolSize, poolShare);
    // Admins and callers with the service key are trusted, and may act for many users.
    this.#admin = admitted(logins.admin, few, 100);
    this.#service = admitted(logins.service, few, 100);
    this.auth = transactions(logins.auth, few);
    this.catalog = new pg.Pool(pool(logins.data, 2));
    this.catalog.on("error", onConnectionError);
    this.catalog.on("connect", (client) => client.on("error", onConnectionError));
    this.#diagnosis = new Diagnosis(this.catalog, options.log);
  }

  /** Applies what a new catalog knows about roles and code. */
  follow(catalog: Catalog): void {
    const { roles, code } = catalog;
    this.#diagnosis.follow(catalog);
    this.statementTimeouts.follow(roles);
    this.#adminRoles = rolesOfAdmin(roles, this.#logins);
    for (const transactions of [this.#data, this.#admin, this.#service]) transactions.follow(code);
  }

  /** Round trips to the database so far. */
  get waits(): number {
    return this.#data.syncs + this.#admin.syncs + this.#service.syncs + this.auth.syncs;
  }

  /** The pool whose login may become `role`. Throws for "": anonymous callers are not allowed. */
  forRole(role: string): Transactions {
    if (role === "") throw new ApiError(loginRequired(false));
    const login = this.loginOf(role);
    return login === "data" ? this.#data : login === "admin" ? this.#admin : this.#service;
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
    await Promise.all([...all.map((transactions) => transactions.close()), this.catalog.end()]);
  }
}

/** The roles that the login of admins may become, without those of the login for all callers. */
function rolesOfAdmin(roles: ReadonlyMap<string, Role>, logins: Logins): ReadonlySet<string> {
  const [data, admin] = [logins.data, logins.admin].map((url) => roles.get(decodeURIComponent(new URL(url).username)));
  if (!admin || data?.isSuperuser) return new Set();
  return data ? admin.mayBecome.difference(data.mayBecome) : admin.mayBecome;
}
