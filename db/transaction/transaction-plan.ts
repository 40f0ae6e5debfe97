import { randomBytes } from "node:crypto";
import type { DatabaseError } from "pg-protocol";
import { bytesOf, Cache } from "../../cache/cache.ts";
import type { Config } from "../../config/config.ts";
import { problem } from "../../problems/problem.ts";
import type { Times } from "../../telemetry/histogram.ts";
import type { Span } from "../../telemetry/span.ts";
import type { Admission } from "../admission/admission.ts";
import type { Recipient } from "../admission/byte-budget.ts";
import type { Caller } from "../caller.ts";
import type { Catalog, Role, Setting } from "../catalog/catalog.ts";
import type { Code } from "../catalog/code.ts";
import type { ReplicationOptions } from "../replicas/reader.ts";
import { quoteIdentifier } from "../sql.ts";
import { TEXT_SETTINGS } from "../text-settings.ts";
import type { BatchOptions, NamedStatement, Statement } from "../wire/batch.ts";
import type { CancelSignal } from "../wire/connection.ts";
import { type Identity, settingsStatement, withSettings } from "./identity.ts";
import type { ConnectionPool, PoolOptions } from "./pool.ts";
import type { FrameOptions, RunOptions } from "./run-options.ts";

export type TransactionOptions = ReplicationOptions & {
  /** Options of pg and of the pool: connection string, ssl, and `max`, its size. */
  readonly pool: PoolOptions;
  /** Milliseconds after which Postgres cancels a statement of the role with 57014; 0 means never. */
  statementTimeoutOf(role: string): number;
  /** Prepared statements per connection; 0 sends them unnamed, for poolers that do not support named ones. */
  readonly maxPrepared: number;
  /** Called when prepared statements turn out to be lost behind a pooler: from then on all are sent unnamed. */
  readonly onPooler?: () => void;
  /** Maximum bytes of the result of a transaction; 0 means no limit. */
  readonly maxResultBytes?: number;
  /**
   * Milliseconds: reads that arrive together share a connection if the sum of their usual durations is less. 0 or absent: none do. Has no
   * effect without prepared statements.
   */
  readonly sharedReads?: number;
  /** Whether callers without credentials have a role. */
  readonly isAnonymous?: (role: string) => boolean;
  /** Decides which transaction gets a connection next. It has at most as many slots as the pool has connections. */
  readonly admission: Admission;
  /** Decides which of the transactions whose rows are streamed gets a connection next; without it, there are none. */
  readonly streams?: Admission;
  readonly onConnectionError: (error: Error) => void;
  /** Called with errors that the database has raised for a caller. */
  readonly onFailure?: (failure: Failure) => void;
  /** In seconds: until a connection is free, and from then on until the results are complete. Absent where they are not measured. */
  readonly times?: { readonly wait: Times; readonly run: Times };
  /** Called with what a caller runs, before it is run. */
  readonly onRun?: (identity: Identity, statements: readonly Statement[]) => void;
  /** Called with those that took at least SLOW milliseconds. */
  readonly onSlow?: (statements: readonly Statement[], milliseconds: number) => void;
};

/** An error that the database has raised, with what it was doing. */
export type Failure = {
  readonly error: DatabaseError;
  /** The role of the caller. */
  readonly role: string;
  /** The statements of the transaction. */
  readonly texts: readonly string[];
};

type PlannerOptions = Pick<
  TransactionOptions,
  "sharedReads" | "isAnonymous" | "statementTimeoutOf" | "onFailure" | "onWritten" | "maxResultBytes" | "isReplica"
>;

/** What transactions take from the catalog beside its code. */
export type CallerRules = {
  /** The session settings of each role, which those of the service, and of a transaction, override. */
  readonly roles: ReadonlyMap<string, Pick<Role, "settings">>;
  readonly settings: readonly Setting[];
  /** The call of DB_PRE_REQUEST, which precedes what a caller does; null for none. */
  readonly preRequest: Statement | null;
};

/** Until there is a catalog, and for transactions that do not follow it. */
export const NO_RULES: CallerRules = { roles: new Map(), settings: TEXT_SETTINGS, preRequest: null };

/** What a transaction does. */
export type Work = {
  readonly identity: Identity;
  /** Those of the caller are from `first` up to, but not including, `last`; the one with the settings is at `settingsAt`. */
  readonly statements: readonly NamedStatement[];
  readonly batchOptions: BatchOptions;
  readonly first: number;
  readonly last: number;
  readonly settingsAt: number;
  /** What `runsCode` is based on. */
  readonly code: Code;
  /** Whether the statements may leave state on the connection, which is cleaned afterwards. */
  readonly runsCode: boolean;
  /** The usual duration of a read that may share its connection; null for every other transaction. */
  readonly pace: Pace | null;
  readonly isFramed: boolean;
  readonly recipient: Recipient | null;
  readonly signal: CancelSignal | undefined;
  readonly onConnected: (() => void) | undefined;
  readonly onReplayed: RunOptions["onReplayed"];
  /** Called after a commit that has written, before its results are returned. Null: where it ended is unknown, or whether there was one. */
  readonly onWritten: ((lsn: bigint | null) => Promise<void> | undefined) | undefined;
  /** Called with an error that the database has raised. */
  readonly onFailure: ((error: DatabaseError) => void) | undefined;
  /** Absent when the transaction is not traced; `startTrip` starts the span of its round trip. */
  readonly span: Span | undefined;
  readonly startTrip: (() => Span) | undefined;
};

/** A transaction of several round trips: what is sent first and last. */
type OpenPlan = {
  readonly opening: readonly NamedStatement[];
  readonly end: readonly NamedStatement[];
  readonly code: Code;
  readonly runsCode: boolean;
};

/** Plans what is sent for a transaction: the settings of the identity and the statements, in their frame. */
export class TransactionPlanner {
  rules = NO_RULES;
  readonly #options: PlannerOptions;
  readonly #connections: ConnectionPool;
  readonly #known: KnownStatements;

  constructor(options: PlannerOptions, connections: ConnectionPool) {
    this.#options = options;
    this.#connections = connections;
    this.#known = new KnownStatements(options.isAnonymous);
  }

  /** The isolation level that the transaction chooses, or its role: `alter role … set default_transaction_isolation`. */
  isolationFor({ role }: Caller, { isolation }: FrameOptions): FrameOptions["isolation"] {
    return isolation ?? isolationOf(this.rules.roles.get(role)?.settings ?? []);
  }

  /** Throws Problem for text that Postgres cannot store. */
  plan(identity: Identity, own: readonly Statement[], options: RunOptions): Work {
    const { recipient = null, span } = identity.request;
    const { role } = identity.caller;
    const { onFailure, onWritten } = this.#options;
    const { code } = this.#connections;
    const statements = options.isOfRole ? own : this.#afterPreRequest(own);
    const runsCode = this.#known.runCode(role, statements, code);
    const isolation = this.isolationFor(identity.caller, options);
    const frame = frameOf(own.length, { ...options, isolation }, runsCode);
    const first = frame.begin.length + 1 + statements.length - own.length;
    const report = onWritten && writtenOf(identity, options, onWritten);
    const end = report ? [HAS_WRITTEN, ...frame.end] : frame.end;
    return {
      identity,
      settingsAt: frame.begin.length,
      statements: this.#statementsOf(identity, statements, { begin: frame.begin, end }, code, options.unlimitedResult),
      batchOptions: this.#batchOptions(options, recipient, first, own.length),
      first,
      last: first + own.length,
      code,
      runsCode,
      pace: runsCode || isolation ? null : this.#paceOf(role, statements, options),
      isFramed: frame.end.length > 0,
      recipient,
      signal: options.signal,
      onConnected: options.onConnected,
      onReplayed: options.onReplayed,
      onWritten: report,
      onFailure: onFailure && ((error) => onFailure({ error, role, texts: statements.map(({ text }) => text) })),
      span,
      startTrip: span && (() => querySpan(span, identity, statements)),
    };
  }

  /** Plans a transaction of several round trips. Throws Problem for text that Postgres cannot store. */
  open(identity: Identity, own: readonly Statement[], options: FrameOptions): OpenPlan {
    const { code } = this.#connections;
    const statements = this.#afterPreRequest(own);
    const runsCode = this.#known.runCode(identity.caller.role, statements, code);
    const isolation = this.isolationFor(identity.caller, options);
    const { begin, end } = openFrame({ ...options, isolation }, runsCode);
    const opening = this.#statementsOf(identity, statements, { begin, end: [] }, code);
    return { opening, end: end.map((statement) => ({ ...statement, name: "" })), code, runsCode };
  }

  /** Null if the transaction cannot share a connection: it is no read, or sharing would gain little. */
  #paceOf(role: string, statements: readonly Statement[], options: RunOptions): Pace | null {
    const { sharedReads = 0 } = this.#options;
    if (!options.isRead || sharedReads === 0 || this.#connections.preparation.max === 0 || statements.length !== 1)
      return null;
    if (options.rollback || options.onCompleted || options.unlimitedResult) return null;
    return this.#known.of(role, statements[0]!.text, this.#connections.code)?.pace ?? null;
  }

  #afterPreRequest(statements: readonly Statement[]): readonly Statement[] {
    const { preRequest } = this.rules;
    return preRequest === null ? statements : [preRequest, ...statements];
  }

  #statementsOf(
    identity: Identity,
    statements: readonly Statement[],
    { begin, end }: Frame,
    code: Code,
    isWrite = true,
  ): NamedStatement[] {
    const { role } = identity.caller;
    const { statementTimeoutOf, isReplica } = this.#options;
    const ofRole = this.rules.roles.get(role)?.settings ?? [];
    const all = withSettings(withSettings(identity, this.rules.settings), ofRole);
    const settings = settingsStatement(all, statementTimeoutOf(role), isWrite, isReplica);
    for (const { values } of [...statements, settings]) for (const value of values) refuseUnstorable(value);
    return [...begin, settings, ...statements, ...end].map((statement) => this.#known.named(role, statement, code));
  }

  /** `onCompleted` receives the caller's `count` statements, which start at `first`. */
  #batchOptions(
    { unlimitedResult = false, onCompleted }: RunOptions,
    recipient: Recipient | null,
    first: number,
    count: number,
  ): BatchOptions {
    const report =
      onCompleted &&
      ((index: number) => {
        if (index >= first && index < first + count) onCompleted(index - first);
      });
    const isUnlimited = unlimitedResult || this.#options.maxResultBytes === 0;
    return { preparation: this.#connections.preparation, unlimitedResult: isUnlimited, recipient, onCompleted: report };
  }
}

/** The last statement of a transaction that may write. Its result is null if nothing was written. */
const HAS_WRITTEN: Statement = { text: "select pg_catalog.pg_current_xact_id_if_assigned()", values: [] };

/** Called with the position of the commit; undefined for a transaction that writes nothing. */
function writtenOf(
  identity: Identity,
  { isRead, rollback, written }: RunOptions,
  report: NonNullable<TransactionOptions["onWritten"]>,
): Work["onWritten"] {
  if (isRead || rollback) return undefined;
  return (lsn) => {
    if (written) written.lsn = lsn ?? "unknown";
    return report(identity, lsn);
  };
}

/** A text in parts has been read. */
function refuseUnstorable(value: Statement["values"][number]): void {
  if (typeof value === "string" && (!value.isWellFormed() || value.includes("\0"))) throw problem("unstorable text");
}

/** Longer texts are cut, as most collectors would do. */
const MAX_TEXT = 4000;

/** The span of one round trip to the database. Source of the names: OpenTelemetry, "Semantic conventions for database spans". */
const querySpan = (parent: Span, { caller }: Identity, statements: readonly Statement[]): Span =>
  parent.child("transaction", {
    "db.system.name": "postgresql",
    "db.operation.batch.size": statements.length,
    "db.query.text": statements
      .map(({ text }) => text)
      .join(";\n")
      .slice(0, MAX_TEXT),
    "db.role": caller.role,
  });

/** The statements before and after those of the caller. Usually none: the Sync makes them one implicit transaction. */
type Frame = { readonly begin: readonly Statement[]; readonly end: readonly Statement[] };

/** Functions and roles may set this. */
export const ISOLATION = "default_transaction_isolation";

/** The isolation level that the settings of a function or role choose; null for the default. */
export function isolationOf(settings: readonly Setting[]): "repeatable read" | "serializable" | null {
  const [, value] = settings.find(([name]) => name === ISOLATION) ?? [];
  return value === "repeatable read" || value === "serializable" ? value : null;
}

const BEGIN = "begin isolation level";
const command = (text: string): Statement => ({ text, values: [] });
const COMMIT = [command("commit")];
const ROLLBACK = [command("set constraints all immediate"), command("rollback")];
/** Writes without code leave the state of sequences, which only code can read: `currval`, `lastval`. */
const FORGET = [command("discard sequences")];
const UNFRAMED: Frame = { begin: [], end: [] };
const CODE: Frame = { begin: FORGET, end: [] };

/** For a transaction of several round trips: the limits of the stream apply to the time between them. */
const openFrame = ({ isolation, rollback }: FrameOptions, runsCode: boolean): Frame => ({
  begin: [
    command(`${BEGIN} ${isolation ?? "read committed"}`),
    command("set local idle_in_transaction_session_timeout to 0"),
    ...(runsCode ? FORGET : []),
  ],
  end: rollback ? ROLLBACK : COMMIT,
});

/** `count` is the number of the caller's statements. */
function frameOf(count: number, { snapshot, isolation, rollback }: FrameOptions, runsCode: boolean): Frame {
  const needed = isolation ?? (snapshot && count > 1 ? "repeatable read" : null);
  if (needed === null && !rollback) return runsCode ? CODE : UNFRAMED;
  const begin = [command(`${BEGIN} ${needed ?? "read committed"}`), ...(runsCode ? FORGET : [])];
  return { begin, end: rollback ? ROLLBACK : COMMIT };
}

/** A statement, by its text and role: the name that it is prepared as, and whether it runs `code`. */
type KnownStatement = {
  readonly name: string;
  readonly code: Code;
  readonly runsCode: boolean;
  readonly pace: Pace;
  readonly isAnonymous: boolean;
  /** Whether it has run before. */
  isRepeated: boolean;
};

/** How long a statement usually takes: a mean in which the last runs weigh most. */
export class Pace {
  /** Before the first run it is not known to be quick. */
  milliseconds = 10.5;

  /** After one slow run, a quick statement counts as slow for the next runs. */
  add(milliseconds: number): void {
    this.milliseconds += (Math.min(milliseconds, LONG) - this.milliseconds) / RUNS;
  }
}

/** Milliseconds; what takes longer counts as this. */
const LONG = 100;
/** The mean covers about this many of the last runs. */
const RUNS = 16;

/** Longer statements are not prepared: one-off queries would take megabytes on every connection. */
const MAX_PREPARED_LENGTH = 10_000;

/** The statements of one pool. */
export class KnownStatements {
  /** Behind a pooler a connection may have the statements of another process: theirs must never have the names of these. */
  readonly #prefix = `s_${randomBytes(4).toString("hex")}_`;
  readonly #byRole = new Map<string, Cache<KnownStatement>>();
  readonly #isAnonymous: (role: string) => boolean;
  #nextName = 1;

  /** `isAnonymous`: whether callers without credentials have a role. */
  constructor(isAnonymous: (role: string) => boolean = () => false) {
    this.#isAnonymous = isAnonymous;
  }

  /**
   * The statement with the name that it is prepared as. Those of callers without credentials are prepared when they run again: with ever
   * new ones, anyone could displace the others.
   */
  named(role: string, statement: Statement, code: Code): NamedStatement {
    const known = this.of(role, statement.text, code);
    if (!known) return { ...statement, name: "" };
    const { name, isAnonymous, isRepeated } = known;
    known.isRepeated = true;
    return { ...statement, name: isAnonymous && !isRepeated ? "" : name, isAnonymous };
  }

  /** Whether the statements may leave state on the connection. */
  runCode(role: string, statements: readonly Statement[], code: Code): boolean {
    return statements.some(({ text }) => this.of(role, text, code)?.runsCode ?? true);
  }

  /**
   * Undefined for a statement that is too long to be kept. Row-level policies are part of a plan: a name shared by two roles
   * would be replanned at each change of role.
   */
  of(role: string, text: string, code: Code): KnownStatement | undefined {
    if (text.length > MAX_PREPARED_LENGTH) return undefined;
    const ofRole = this.#ofRole(role);
    const known = ofRole.get(text);
    if (known?.code === code) return known;

    const name = known?.name ?? `${this.#prefix}${this.#nextName++}`;
    const created = {
      name,
      code,
      runsCode: code.isIn(text),
      pace: new Pace(),
      isAnonymous: this.#isAnonymous(role),
      isRepeated: known?.isRepeated ?? false,
    };
    ofRole.set(text, created);
    return created;
  }

  #ofRole(role: string): Cache<KnownStatement> {
    const known = this.#byRole.get(role);
    if (known) return known;
    const created = new Cache<KnownStatement>({
      name: "prepared",
      sizeOf: (statement, text) => bytesOf(text) + bytesOf(statement.name),
    });
    this.#byRole.set(role, created);
    return created;
  }
}

export const searchPathOf = (schemas: readonly string[]): string => schemas.map(quoteIdentifier).join(", ");

export type SessionSettings = Pick<Config, "dbSchemas" | "dbExtraSearchPath" | "appSettings" | "dbPreRequest">;

/** What all transactions of callers have, on every interface. */
export const sessionSettings = ({ dbSchemas, dbExtraSearchPath, appSettings }: SessionSettings): readonly Setting[] => [
  ["search_path", searchPathOf([...dbSchemas.slice(0, 1), ...dbExtraSearchPath])],
  ...appSettings,
];

export const PRE_REQUEST = "DB_PRE_REQUEST";

/** The call of DB_PRE_REQUEST. A name without a schema is looked up in those of the settings, whatever the search path of a transaction is. */
export function preRequestOf(
  { dbPreRequest, dbSchemas, dbExtraSearchPath }: SessionSettings,
  { schemas }: Catalog,
): Statement | null {
  if (dbPreRequest === null) return null;
  const { name } = dbPreRequest;
  const schema =
    dbPreRequest.schema ?? [...dbSchemas, ...dbExtraSearchPath].find((each) => schemas.get(each)?.functions.has(name));
  const call = [...(schema === undefined ? [] : [schema]), name].map(quoteIdentifier).join(".");
  return { text: `select ${call}()`, values: [], context: PRE_REQUEST };
}
