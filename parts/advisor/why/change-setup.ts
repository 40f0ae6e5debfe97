import type { ClientBase, Pool } from "pg";
import { quoteIfNeeded, type Table } from "../../../db/catalog/catalog.ts";
import { additionOf, creationOf, obstacleOf, WHOLE } from "../../../db/changes/publication-plan.ts";
import { type PublicationState, serverVersion, type TableState } from "../../../db/changes/publication-state.ts";
import { inWords, readPublished, statementsOf } from "../changes.ts";
import { type AskedEvent, stateOf } from "./asked-change.ts";
import type { Obstacle } from "./row-access.ts";

/** One of the conditions under which a subscriber receives a change. */
export type Step = {
  /** A sentence that is true if the condition is met. */
  readonly condition: string;
  readonly isMet: boolean;
  /** Whether no change of the table arrives if it is not met. */
  readonly isRequired: boolean;
  /** Why it is not met, and the SQL that changes that. */
  readonly obstacles: readonly Obstacle[];
};

/** How the service reads changes. */
export type ChangesRead = {
  /** Why it reads none; null if it does. */
  readonly missing: string | null;
  readonly publication: string;
  /** Whether the service publishes the tables that callers may read; otherwise a DBA does. */
  readonly isManaged: boolean;
};

/** What is published of the tables. */
export type ChangesSetup = ChangesRead & {
  readonly tables: readonly TableState[];
  /** Null if there is none. */
  readonly state: PublicationState | null;
  readonly sends: Readonly<Record<AskedEvent, boolean>>;
  /** SQL text of the condition for published rows of the table; null if all are published. */
  readonly rowFilter: string | null;
  readonly server: number;
};

const SENDS = `
  select pubinsert as "INSERT", pubupdate as "UPDATE", pubdelete as "DELETE",
    (select rowfilter from pg_catalog.pg_publication_tables as t
     where t.pubname = p.pubname and t.schemaname = $2 and t.tablename = $3) as "rowFilter"
  from pg_catalog.pg_publication as p
  where pubname = $1`;

type Scope = { readonly schemas: readonly string[]; readonly logins: readonly string[] };

export async function readChangesSetup(
  client: Pick<ClientBase | Pool, "query">,
  { schema, name }: Table,
  read: ChangesRead,
  scope: Scope,
): Promise<ChangesSetup> {
  const { publication } = read;
  const { tables, publication: state } = await readPublished(client, { ...scope, publication });
  const { rows } = await client.query(SENDS, [publication, schema, name]);
  const { rowFilter = null, ...sends } = rows[0] ?? { INSERT: false, UPDATE: false, DELETE: false };
  return { ...read, tables, state, sends, rowFilter, server: await serverVersion(client) };
}

/** Whether the database sends this change of the table to the service. */
export function setupSteps(setup: ChangesSetup, table: Table, event: AskedEvent): Step[] {
  const { missing, publication, state, sends, rowFilter } = setup;
  const name = `${table.schema}.${table.name}`;
  const steps = [
    step("The service reads the changes of the database", missing === null ? [] : [because(missing)]),
    step(`The publication ${publication} has the table ${name}`, publicationObstacles(setup, table)),
  ];
  if (state === null) return steps;
  const all = `alter publication ${quoteIfNeeded(publication)} set (publish = 'insert, update, delete, truncate');`;
  const left = { reason: `it leaves out ${event}`, expression: null, fix: all };
  steps.push(step(`The publication ${publication} sends ${event}`, sends[event] ? [] : [left]));
  const rowObstacle = { reason: "it sends only the rows that fulfil its condition", expression: rowFilter, fix: null };
  if (rowFilter !== null) steps.push(step(`The publication ${publication} sends every row`, [rowObstacle], false));
  return steps;
}

export const step = (condition: string, obstacles: readonly Obstacle[], isRequired = true): Step => ({
  condition,
  isMet: obstacles.length === 0,
  isRequired,
  obstacles,
});

const because = (reason: string): Obstacle => ({ reason, expression: null, fix: null });

function publicationObstacles(setup: ChangesSetup, table: Table): readonly Obstacle[] {
  const { tables, state, publication, server, isManaged } = setup;
  const found = stateOf(tables, table);
  if (found === undefined)
    return [because(`${table.name} is temporary, or a partition: changes are those of its table`)];
  if (found.isPublished) return [];
  if (!found.isReadable) return [because("no role of callers may read it, so there would be no subscriber")];
  const own = obstacleOf(found, state ?? { ...WHOLE, name: publication });
  const repairs = own === null ? [] : [fixable(inWords(own), statementsOf(own))];
  if (isManaged)
    return repairs.length > 0 ? repairs : [because("the service has not published it yet: /health has the reason")];
  if (state !== null) return [...repairs, fixable("it leaves the table out", [additionOf(found, state)])];
  const { sql } = creationOf(tables, { name: publication, server });
  return [...repairs, fixable("the publication does not exist", sql === null ? [] : [sql])];
}

/** An obstacle with the statements that remove it. */
export const fixable = (reason: string, statements: readonly string[]): Obstacle => ({
  reason,
  expression: null,
  fix: statements.length === 0 ? null : statements.map((statement) => `${statement};`).join("\n"),
});
