import type { Caller } from "../../../db/caller.ts";
import {
  type Catalog,
  type PolicyCommand,
  quoteIfNeeded,
  quoteName,
  type RowPolicy,
  type Setting,
  type Table,
  type TablePrivilege,
} from "../../../db/catalog/catalog.ts";
import { tableExposure } from "../../../db/catalog/exposure.ts";
import { mayUseColumn, mayUseSchema, mayUseTable } from "../../../db/catalog/grants.ts";
import { clauseOf, policiesFor } from "../../../db/catalog/policies.ts";
import type { Database } from "../../../db/database.ts";
import { rowSource } from "../../../db/rights/row-source.ts";
import { quoteIdentifier } from "../../../db/sql.ts";
import { type Identity, NO_REQUEST } from "../../../db/transaction/identity.ts";
import { writeArray } from "../../../db/wire/array-text.ts";
import { QuestionFault } from "./asked-change.ts";

/** Whether a caller may use one row with one command, and why. */
export type Verdict = {
  readonly command: TablePrivilege;
  readonly isAllowed: boolean;
  /** The columns that it may read or write; "all" for every column, and for a deletion. */
  readonly columns: readonly string[] | "all";
  /** Why it is not allowed. A missing grant or policy has the SQL that adds it. */
  readonly obstacles: readonly Obstacle[];
};

export type Obstacle = {
  readonly reason: string;
  /** SQL text of a policy that is not true. */
  readonly expression: string | null;
  /** The SQL that fixes it; … stands for what the DBA decides. Null if it is a policy. */
  readonly fix: string | null;
};

/** A policy and what its expression is for the row: "true", "false", "null", or the error that it raises. */
export type Evaluated = {
  readonly policy: RowPolicy;
  readonly expression: string;
  readonly result: string;
};

export type RowAccess = {
  readonly verdicts: readonly Verdict[];
  readonly policies: readonly Evaluated[];
  /** Whether the grants alone decide. */
  readonly isUnrestricted: boolean;
};

export type Question = {
  readonly table: Table;
  /** The row as Postgres writes it: `(1,"a title",{})` */
  readonly row: string;
  readonly caller: Caller;
};

export type RowAccessOptions = {
  readonly database: Pick<Database, "forRole">;
  catalog(): Catalog;
};

const COMMANDS: readonly TablePrivilege[] = ["select", "insert", "update", "delete"];

/** What a command needs: for each entry, a permissive policy that is true and no restrictive one that is not. */
type Need = { readonly commands: readonly PolicyCommand[]; readonly part: "using" | "check" };

const READ: Need = { commands: ["all", "select"], part: "using" };

/** Updates and deletions find their rows by reading. Source: PostgreSQL, CREATE POLICY, "Policies Applied by Command Type". */
const NEEDS: Readonly<Record<TablePrivilege, readonly Need[]>> = {
  select: [READ],
  insert: [{ commands: ["all", "insert"], part: "check" }],
  update: [READ, { commands: ["all", "update"], part: "using" }, { commands: ["all", "update"], part: "check" }],
  delete: [READ, { commands: ["all", "delete"], part: "using" }],
};

/** Why a caller may or may not use a row: the grants, and each policy evaluated by Postgres, alone, as the caller. */
export class RowAccessCheck {
  readonly #options: RowAccessOptions;

  constructor(options: RowAccessOptions) {
    this.#options = options;
  }

  /**
   * The row with this primary key, as `reader` sees it; null if there is none. The values of `changes`, a JSON object, replace its own.
   * Rejects with the errors of the database.
   */
  async find(table: Table, key: readonly string[], reader: Caller, changes = "{}"): Promise<string | null> {
    const conditions = table.primaryKey.map((column, i) => `t.${quoteIdentifier(column)} = $${i + 2}`);
    const text = `select ${populated("t")} from ${quoteName(table)} as t where ${conditions.join(" and ")}`;
    return (await this.#run(reader, table, text, [changes, ...key]))?.[0]?.toString() ?? null;
  }

  /** A row with the values of a JSON object; the other columns are null. Rejects with the errors of the database. */
  async write(table: Table, values: string, writer: Caller): Promise<string> {
    const text = `select ${populated(`null::${quoteName(table)}`)}`;
    return (await this.#run(writer, table, text, [values]))![0]!.toString();
  }

  /** The policies that hide the row from the caller. */
  async reading(question: Question): Promise<readonly Obstacle[]> {
    const applied = this.#applied(question);
    if (applied === null) return [];
    const relevant = applied.filter(({ command }) => READ.commands.includes(command));
    return obstaclesOf(READ, question, await this.#evaluate(question, relevant));
  }

  async explain(question: Question): Promise<RowAccess> {
    const { table, caller } = question;
    const catalog = this.#options.catalog();
    const applied = this.#applied(question);
    const isUnrestricted = applied === null;
    const policies = await this.#evaluate(question, applied ?? []);
    const { columns: exposed } = tableExposure(catalog, caller.role, table);
    const verdicts = COMMANDS.map((command): Verdict => {
      const missing = missingGrants(catalog, caller.role, table, command);
      const hiding = isUnrestricted ? [] : NEEDS[command].flatMap((need) => obstaclesOf(need, question, policies));
      const obstacles = [...missing, ...hiding.filter(isFirst)];
      const columns = command === "delete" ? "all" : exposed[command];
      return { command, isAllowed: obstacles.length === 0, columns, obstacles };
    });
    return { verdicts, policies, isUnrestricted };
  }

  /** The policies that apply to the caller; null if the grants alone decide. Throws QuestionFault if one cannot be read now. */
  #applied({ table, caller }: Question): readonly RowPolicy[] | null {
    const applied = policiesFor(this.#options.catalog(), caller.role, table);
    const locked = applied?.find(({ isLocked }) => isLocked);
    if (!locked) return applied;
    throw new QuestionFault(`The policy “${locked.name}” cannot be read now, because a table is locked: ask again.`);
  }

  /** Each expression is a transaction of its own, because one may raise an error. */
  async #evaluate({ table, row, caller }: Question, policies: readonly RowPolicy[]): Promise<readonly Evaluated[]> {
    const { queries, from } = rowSource(table);
    const rows = writeArray([row]);
    const known = new Map<string, string>();
    const evaluated: Evaluated[] = [];
    for (const policy of policies) {
      for (const expression of new Set([policy.using, policy.check].filter((each) => each !== null))) {
        const text = `with ${queries}\nselect (${expression})::pg_catalog.text from ${from}`;
        const result =
          known.get(expression) ??
          (await this.#run(caller, table, text, [rows]).then(
            (found) => found?.[0]?.toString() ?? "null",
            (error: Error) => `error: ${error.message}`,
          ));
        known.set(expression, result);
        evaluated.push({ policy, expression, result });
      }
    }
    return evaluated;
  }

  /** The first row; undefined without one. */
  async #run(caller: Caller, { schema }: Table, text: string, values: readonly string[]) {
    const { database } = this.#options;
    const fixed: readonly Setting[] = [
      ["search_path", quoteIdentifier(schema)],
      ["transaction_read_only", "on"],
    ];
    const identity: Identity = { caller, request: NO_REQUEST, settings: { fixed, given: [] } };
    const [result] = await database.forRole(caller.role).run(identity, [{ text, values }], { rollback: true });
    return result!.rows[0];
  }
}

/** SQL of a row with the values of the JSON object $1. */
const populated = (row: string) => `pg_catalog.jsonb_populate_record(${row}, $1::pg_catalog.jsonb)::pg_catalog.text`;

/** USING and WITH CHECK of an update are often the same. */
const isFirst = ({ reason, expression }: Obstacle, at: number, all: readonly Obstacle[]): boolean =>
  all.findIndex((each) => each.reason === reason && each.expression === expression) === at;

/** The grants that a role lacks for a command, with the SQL that adds them. */
export function missingGrants(
  catalog: Catalog,
  role: string,
  table: Table,
  command: TablePrivilege,
): readonly Obstacle[] {
  const [schema, name, grantee] = [table.schema, table.name, role].map(quoteIfNeeded);
  const missing: Obstacle[] = [];
  const add = (reason: string, grant: string) =>
    missing.push({ reason, expression: null, fix: `grant ${grant} to ${grantee};` });
  if (!mayUseSchema(catalog, role, catalog.schemas.get(table.schema)!))
    add(`${role} has no USAGE on the schema ${table.schema}`, `usage on schema ${schema}`);
  if (!mayUseTable(catalog, role, table, command))
    add(`${role} has no ${command.toUpperCase()} on ${table.schema}.${table.name}`, `${command} on ${schema}.${name}`);
  const findsByKey = command === "update" || command === "delete";
  const unread = table.primaryKey.filter(
    (key) => !mayUseColumn(catalog, role, table, table.columns.get(key)!, "select"),
  );
  if (findsByKey && unread.length > 0) {
    const columns = unread.map(quoteIfNeeded).join(", ");
    add(
      `${role} may not read the key (${unread.join(", ")}), so it cannot name the row`,
      `select (${columns}) on ${schema}.${name}`,
    );
  }
  return missing;
}

/** The policies of one need that keep the row from the caller. */
function obstaclesOf(
  { commands, part }: Need,
  { table, caller }: Question,
  all: readonly Evaluated[],
): readonly Obstacle[] {
  const relevant = all.filter(
    ({ policy, expression }) => commands.includes(policy.command) && expression === clauseOf(policy, part),
  );
  const [permissive, restrictive] = [true, false].map((kind) =>
    relevant.filter(({ policy }) => policy.isPermissive === kind),
  );
  const use = part === "check" ? `write such a row by ${commands.at(-1)}` : commands.at(-1)!;
  const refusing = restrictive!
    .filter(({ result }) => result !== "true")
    .map((each) => obstacleOf(each, "restrictive policy"));
  if (permissive!.some(({ result }) => result === "true")) return refusing;
  if (permissive!.length > 0) return [...refusing, ...permissive!.map((each) => obstacleOf(each, "policy"))];
  const name = `${quoteIfNeeded(table.schema)}.${quoteIfNeeded(table.name)}`;
  const clause = part === "check" ? "with check" : "using";
  const fix = `create policy "…" on ${name} for ${commands.at(-1)} to ${quoteIfNeeded(caller.role)} ${clause} (…);`;
  return [
    ...refusing,
    { reason: `row-level security is on, and no policy lets ${caller.role} ${use}`, expression: null, fix },
  ];
}

const obstacleOf = ({ policy, expression, result }: Evaluated, kind: string): Obstacle => {
  const outcome = result.startsWith("error: ") ? `not decided (${result})` : result;
  return { reason: `the ${kind} “${policy.name}” is ${outcome} for this row`, expression, fix: null };
};
