import { randomBytes } from "node:crypto";
import type { DatabaseError } from "pg-protocol";
import { bytesOf, Cache } from "../../cache/cache.ts";
import type { Code } from "../catalog/code.ts";
import { Batch, type NamedStatement, type Statement } from "../wire/batch.ts";
import type { Preparation } from "./preparation.ts";

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

/**
 * Ends what SQL can start for a whole session. A rollback ends neither locks nor prepared statements. The state of
 * sequences is discarded before code, which alone can read it.
 */
const STATEMENTS = [
  // First: these settings affect the other statements.
  "reset all",
  // Resets the role too.
  "reset session authorization",
  "close all",
  "unlisten *",
  "discard temp",
  `select pg_catalog.pg_advisory_unlock_all(),
    pg_catalog.setseed(pg_catalog.hashtext(pg_catalog.gen_random_uuid()::text) / 2147483648::float8)`,
];

/**
 * Finds statements that SQL code has prepared with PREPARE: one of them may have taken the name of a statement of the service. This
 * query is sent unnamed, because a named one could have been replaced too. Of the statements above, PREPARE accepts only the `select`.
 */
const PREPARED_BY_SQL = "select from pg_catalog.pg_prepared_statement() where from_sql";

const named = (text: string, i: number): NamedStatement => ({ text, values: [], name: `cleaning_${i}` });
const unnamed = (text: string): NamedStatement => ({ text, values: [], name: "" });

/** How connections are cleaned after code. */
export class Cleaning {
  readonly #preparation: Preparation;
  readonly #usual = STATEMENTS.map(named);

  constructor(preparation: Preparation) {
    this.#preparation = preparation;
  }

  /**
   * A batch that cleans the connection; `done` gets an error if the connection cannot be used again. `isFramed`: an error
   * may have left a transaction open. `mayPrepare`: the code may have prepared statements.
   */
  batch(options: CleaningOptions, done: (error: Error | undefined) => void): Batch {
    const statements = [
      ...(options.isFramed ? [unnamed("rollback")] : []),
      ...this.#usual,
      ...(options.mayPrepare ? [unnamed(this.#preparation.max === 0 ? "deallocate all" : PREPARED_BY_SQL)] : []),
    ];
    const batchOptions = {
      preparation: this.#preparation,
      unlimitedResult: false,
      recipient: null,
      onCompleted: undefined,
    };
    const batch: Batch = new Batch(statements, batchOptions, (error: DatabaseError | Error | null) => {
      const isReplaced = options.mayPrepare && batch.results.at(-1)!.rows.length > 0;
      done(error ?? (isReplaced ? new Error("a function has prepared statements") : undefined));
    });
    return batch;
  }
}

type CleaningOptions = { readonly isFramed: boolean; readonly mayPrepare: boolean };
