import { forObjects, forPairs } from "../../cache/cache.ts";
import type { Span } from "../../telemetry/span.ts";
import type { Recipient } from "../admission/byte-budget.ts";
import type { Caller } from "../caller.ts";
import type { Role, Setting } from "../catalog/catalog.ts";
import { countedNetworksOf } from "../network.ts";
import type { NamedStatement, Result, Statement } from "../wire/batch.ts";
import type { Trial } from "./run-options.ts";

/** The request as functions and policies can read it: `current_setting('request.method', true)`. */
export type RequestContext = {
  readonly method: string;
  readonly path: string;
  /** JSON object of the headers, names in lower case, without credentials. */
  readonly headers: string;
  /** JSON object of the cookies, without credentials. */
  readonly cookies: string;
  /** Where the results go; absent when no client waits for them. */
  readonly recipient?: Recipient | undefined;
  /** Absent when the request is not traced. */
  readonly span?: Span;
  /** Absent unless an operator tries the request. */
  readonly trial?: Trial | undefined;
  /** Who acts as the caller: `user 3`. SQL reads it as `request.operator`. Absent unless an operator tries the request. */
  readonly operator?: string;
  /** The id of the request in the log; absent when no request has started the transaction. */
  readonly requestId?: string;
};

/** For transactions that no request has started. */
export const NO_REQUEST: RequestContext = { method: "", path: "", headers: "{}", cookies: "{}" };

export type Identity = {
  readonly caller: Caller;
  readonly request: RequestContext;
  readonly settings?: TransactionSettings;
};

/** Session settings of one transaction, in addition to those that every transaction has. */
export type TransactionSettings = {
  /** From the catalog and the service: literals in the statement, whose text is cached per list. */
  readonly fixed: readonly Setting[];
  /** From the request: parameters of the statement. */
  readonly given: readonly Setting[];
};

const NO_SETTINGS: TransactionSettings = { fixed: [], given: [] };

const combined = forPairs((further: readonly Setting[], fixed: readonly Setting[]) => [...further, ...fixed]);

/** With further settings, which those of the identity override. Equal lists have one result, for which the text is cached. */
export function withSettings(identity: Identity, further: readonly Setting[]): Identity {
  if (further.length === 0) return identity;
  const { fixed, given } = identity.settings ?? NO_SETTINGS;
  return { ...identity, settings: { fixed: combined(further, fixed), given } };
}

/**
 * The statement that applies the session settings of a transaction. Every value is text, so that encoding cannot fail.
 */
export function settingsStatement(
  identity: Identity,
  statementTimeout: number,
  isWrite = false,
  isReplica = false,
): Statement {
  const settings = isWrite ? withNetworks(identity) : allSettings(identity);
  const { caller } = identity;
  const values = [caller.role, claimsText(caller), ...requestValues(identity, settings)];
  return { text: settingsText(settings, statementTimeout, isReplica), values };
}

function requestValues({ request }: Identity, { given }: TransactionSettings): string[] {
  const values = [request.method, request.path, request.headers, request.cookies];
  for (const [, value] of given) values.push(value);
  return values;
}

function allSettings(identity: Identity): TransactionSettings {
  const { span, operator } = identity.request;
  const settings = span ? tracedSettings(identity) : (identity.settings ?? NO_SETTINGS);
  return operator === undefined
    ? settings
    : { ...settings, given: [...settings.given, ["request.operator", operator]] };
}

/** With the networks of the client, for which the database counts what is written: `[{"name": "203.0.113.7", "factor": 1}]`. */
function withNetworks(identity: Identity): TransactionSettings {
  const settings = allSettings(identity);
  const { recipient } = identity.request;
  if (!recipient) return settings;
  const networks = JSON.stringify(countedNetworksOf(recipient.network));
  return { ...settings, given: [...settings.given, ["request.networks", networks]] };
}

/** Postgres cuts longer names. */
const MAX_APPLICATION_NAME = 63;

/** With the ids of the trace and the request, which `pg_stat_activity` and the log of Postgres then show. */
function tracedSettings({ request, settings = NO_SETTINGS }: Identity): TransactionSettings {
  const name = `${request.span!.traceId} ${request.requestId ?? ""}`.slice(0, MAX_APPLICATION_NAME);
  return { ...settings, given: [...settings.given, ["application_name", name]] };
}

/** What a replica has replayed before the statements that follow take their snapshots; null on a server that is no replica. */
const REPLAYED_LSN = `case when pg_catalog.pg_is_in_recovery() then
  (pg_catalog.pg_last_wal_replay_lsn() operator(pg_catalog.-) '0/0'::pg_catalog.pg_lsn)::text end`;

export const REPLAYED: NamedStatement = { text: `select ${REPLAYED_LSN}`, values: [], name: "replayed" };

/** What the server had replayed, which the statement at this place returns last; null if it is no replica. */
export function replayedIn({ results }: { readonly results: readonly Result[] }, at: number): bigint | null {
  const replayed = results[at]!.rows[0]!.at(-1);
  return replayed ? BigInt(replayed.toString()) : null;
}

/** The names of the values, in order; the given settings follow. */
const REQUEST_NAMES = ["request.method", "request.path", "request.headers", "request.cookies"];
const NAMES = ["role", "request.jwt.claims", ...REQUEST_NAMES];

const settingsTexts = forObjects((_fixed: readonly Setting[]) => new Map<string, string>());

function settingsText({ fixed, given }: TransactionSettings, statementTimeout: number, isReplica: boolean): string {
  let key = isReplica ? `${statementTimeout},replica` : String(statementTimeout);
  for (const [name] of given) key += `,${name}`;
  const texts = settingsTexts(fixed);
  let text = texts.get(key);
  if (text === undefined) {
    text = writeSettings(fixed, [...NAMES, ...given.map(([name]) => name)], statementTimeout);
    if (isReplica) text += `, ${REPLAYED_LSN}`;
    texts.set(key, text);
  }
  return text;
}

/**
 * `statementTimeout` is in milliseconds; a fixed setting overrides it. Fixed settings precede the role, which may lack
 * the right to set them.
 */
function writeSettings(fixed: readonly Setting[], names: readonly string[], statementTimeout: number): string {
  const isLimited = fixed.some(([name]) => name === "statement_timeout");
  const limit: readonly Setting[] = isLimited ? [] : [["statement_timeout", String(statementTimeout)]];
  const literals = [...fixed, ...limit].map(([name, value]) => `${literal(name)}, ${literal(value)}`);
  return selectSettings([...literals, ...names.map(withParameter)]);
}

const withParameter = (name: string, i: number) => `${literal(name)}, $${i + 1}`;

const selectSettings = (pairs: readonly string[]) =>
  `select ${pairs.map((pair) => `pg_catalog.set_config(${pair}, true)`).join(", ")}`;

/** Safe for both values of standard_conforming_strings. */
const literal = (text: string) => {
  const quoted = `'${text.replaceAll("\\", "\\\\").replaceAll("'", "''")}'`;
  return text.includes("\\") ? ` E${quoted}` : quoted;
};

/** The claims of the caller as policies read them: a JSON object with the role. */
export const claimsText = forObjects(({ claims, role }: Caller): string => JSON.stringify({ ...claims, role }));

/** Times in milliseconds; 0 means no limit. */
export type StatementTimeoutOptions = {
  readonly everyone: number;
  /** Does not exceed that of everyone. */
  readonly anonymous: number;
  /** The roles of callers without credentials. */
  readonly anonymousRoles: readonly string[];
};

/** How long a statement of each role may run. `alter role … set statement_timeout` takes precedence over the defaults. */
export class StatementTimeouts {
  #options: StatementTimeoutOptions;
  #roles: ReadonlyMap<string, Role> = new Map();
  #byRole: ReadonlyMap<string, number>;

  constructor(options: StatementTimeoutOptions) {
    this.#options = options;
    this.#byRole = new Map(this.#ofAnonymous());
  }

  /** Replaces the defaults. */
  limitTo(defaults: Pick<StatementTimeoutOptions, "everyone" | "anonymous">): void {
    this.#options = { ...this.#options, ...defaults };
    this.follow(this.#roles);
  }

  /** Milliseconds after which Postgres cancels a statement of the role; 0 means never. */
  of(role: string): number {
    return this.ofRole(role) ?? this.#options.everyone;
  }

  /** The same, or null if only the default for everyone applies to the role. */
  ofRole(role: string): number | null {
    return this.#byRole.get(role) ?? null;
  }

  /** Whether callers without credentials have this role. */
  isAnonymous(role: string): boolean {
    return this.#options.anonymousRoles.includes(role);
  }

  /** Applies the settings of the roles in a new catalog. */
  follow(roles: ReadonlyMap<string, Role>): void {
    this.#roles = roles;
    this.#byRole = new Map([...this.#ofAnonymous(), ...ownTimeouts(roles)]);
  }

  /** Applies other roles of callers without credentials. */
  followAnonymous(anonymousRoles: readonly string[]): void {
    this.#options = { ...this.#options, anonymousRoles };
    this.follow(this.#roles);
  }

  #ofAnonymous(): readonly (readonly [role: string, milliseconds: number])[] {
    const { everyone, anonymous, anonymousRoles } = this.#options;
    const limits = [everyone, anonymous].filter((limit) => limit > 0);
    const shorter = limits.length === 0 ? 0 : Math.min(...limits);
    return anonymousRoles.map((role) => [role, shorter]);
  }
}

function* ownTimeouts(roles: ReadonlyMap<string, Role>): Generator<readonly [role: string, milliseconds: number]> {
  for (const { name, settings } of roles.values()) {
    const own = settings.find(([setting]) => setting === "statement_timeout");
    if (own) yield [name, millisecondsOf(own[1])];
  }
}

const UNITS: Readonly<Record<string, number>> = {
  us: 0.001,
  ms: 1,
  "": 1,
  s: 1000,
  min: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};

/** `"3s"` → 3000, `"1.5 min"` → 90000, `"250"` → 250. Postgres has checked the value, and rounds to milliseconds. */
function millisecondsOf(setting: string): number {
  const [, amount, unit] = /^\s*(.*?)\s*([a-z]*)\s*$/.exec(setting)!;
  return Math.round(Number(amount) * UNITS[unit!]!);
}
