import type { ClientBase, Pool } from "pg";
import { quoteIfNeeded } from "../../db/catalog/catalog.ts";
import { lossOf } from "../../db/changes/lost-changes.ts";
import { additionOf, creationOf, type Obstacle, obstacleOf } from "../../db/changes/publication-plan.ts";
import {
  type PublicationState,
  publicationQuery,
  serverVersion,
  type TableState,
  tablesQuery,
} from "../../db/changes/publication-state.ts";
import type { Finding, Level } from "../../db/findings/finding.ts";

type Options = {
  /** The served schemas. */
  readonly schemas: readonly string[];
  /** The logins whose roles callers may become. */
  readonly logins: readonly string[];
  readonly publication: string;
  /** Whether it is no fault that there is no publication. */
  readonly mayLackPublication?: boolean;
};

/**
 * Tables whose changes subscribers do not receive, or cannot be written, in a database whose publication a DBA manages. The log and
 * `/health` say the same of a running service.
 */
export async function findLostChanges(
  client: Pick<ClientBase, "query">,
  options: Options,
): Promise<readonly Finding[]> {
  const { publication: name } = options;
  const { tables, publication } = await readPublished(client, options);
  if (publication)
    return [...lostOperations(publication), ...tables.flatMap((table) => findingsOf(table, publication))];
  if (options.mayLackPublication) return [];
  const { sql, leftOut } = creationOf(tables, { name, server: await serverVersion(client) });
  const reason = ["it does not exist: subscribers receive no changes", ...leftOut].join("; ");
  return sql === null ? [] : [{ ...ABOUT_PUBLICATION, object: objectOf(name), reason, fix: `${sql};` }];
}

/** The tables of the served schemas, and the publication, which is null if there is none. */
export async function readPublished(
  client: Pick<ClientBase | Pool, "query">,
  { schemas, logins, publication: name }: Options,
): Promise<{ readonly tables: readonly TableState[]; readonly publication: PublicationState | null }> {
  const { rows: tables } = await client.query<TableState>(tablesQuery, [schemas, logins, name]);
  const { rows: publications } = await client.query<PublicationState>(publicationQuery, [name]);
  return { tables, publication: publications[0] ?? null };
}

const objectOf = (publication: string) => `publication ${quoteIfNeeded(publication)}`;

/** A note, because a DBA may not want changes. */
const ABOUT_PUBLICATION = { rule: "changes-not-published", level: "note", comment: null } as const;

function lostOperations({ name, publishesUpdates, publishesDeletes }: PublicationState): readonly Finding[] {
  const missing = [...(publishesUpdates ? [] : ["UPDATE"]), ...(publishesDeletes ? [] : ["DELETE"])];
  if (missing.length === 0) return [];
  const reason = `it leaves out ${missing.join(" and ")}, so subscribers do not receive them`;
  const fix = `${`alter publication ${quoteIfNeeded(name)} set (publish = 'insert, update, delete, truncate')`};`;
  return [{ ...ABOUT_PUBLICATION, object: objectOf(name), reason, fix }];
}

function findingsOf(table: TableState, publication: PublicationState): readonly Finding[] {
  const { isPublished, isReadable, policyColumns, name, comment } = table;
  const find = (rule: string, level: Level, reason: string, statements: readonly string[]): Finding => ({
    ...{ rule, level, object: `table ${name}`, comment, reason },
    fix: statements.length === 0 ? null : statements.map((statement) => `${statement};`).join("\n"),
  });
  const obstacle = obstacleOf(table, publication);
  if (!isPublished) {
    if (!isReadable) return [];
    const reason = `the publication ${publication.name} leaves it out, so subscribers receive no changes`;
    const add = additionOf(table, publication);
    if (obstacle === null) return [find("changes-not-published", "note", reason, [add])];
    const statements = obstacle.isSql ? [obstacle.advice, add] : [];
    return [find("changes-not-published", "note", `${reason}; ${inWords(obstacle)}`, statements)];
  }
  const { publishesUpdates, publishesDeletes } = publication;
  const found: Finding[] = [];
  if (obstacle !== null && (publishesUpdates || publishesDeletes))
    found.push(find("table-not-writable", "error", inWords(obstacle), statementsOf(obstacle)));
  const loss = isReadable && publishesDeletes ? lossOf(table, policyColumns, publication) : null;
  if (loss === null) return found;
  const [rule, what] = loss.isAll ? ["changes-not-checked", "changes"] : ["deletes-not-delivered", "DELETE"];
  return [
    ...found,
    find(rule!, "warning", `subscribers receive no ${what} of it: ${inWords(loss)}`, statementsOf(loss)),
  ];
}

/** What is not in the SQL. */
export const inWords = ({ reason, advice, isSql }: Obstacle) =>
  isSql || advice === "" ? reason : `${reason}: ${advice}`;

export const statementsOf = ({ advice, isSql }: Obstacle): readonly string[] => (isSql ? advice.split("; ") : []);
