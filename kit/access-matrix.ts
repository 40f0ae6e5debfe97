import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import type pg from "pg";
import type { Caller } from "../db/caller.ts";
import { quoteIdentifier } from "../db/sql.ts";
import { type Access, Attempts, type Reach } from "./access-attempts.ts";
import { type Privileges, readPolicies, readPrivileges, readRows, readTables, type Table } from "./access-tables.ts";

/** A caller by a name for people: `{ name: "ada", role: "authenticated", claims: { sub: "1" } }` */
export type NamedCaller = Pick<Caller, "role" | "claims"> & { readonly name: string };

export type MatrixOptions = {
  readonly schemas: readonly string[];
  /** Where requests look names up after the schema of the table. */
  readonly searchPath?: readonly string[];
  readonly callers: readonly NamedCaller[];
  /** The names of tables, such as `public.notes`; without it, all tables of the schemas. */
  readonly tables?: readonly string[] | undefined;
};

/**
 * What each caller may do with each table, as Markdown: a section for each table, and a line for callers who may do the same. Each
 * statement is tried on the rows of the database, and rolled back. `owner` connects as the owner of the tables, or as a superuser.
 *
 *   | Caller | select | insert | update | delete |
 *   |---|---|---|---|---|
 *   | ada | 1-3 | 1, 2 (text) | 1, 2 (text) | denied |
 */
export async function accessMatrix(
  owner: pg.Client,
  { schemas, searchPath = [], callers, tables: chosen }: MatrixOptions,
): Promise<string> {
  await owner.query("begin");
  try {
    // For views that read the caller.
    await owner.query("set local request.jwt.claims = '{}'");
    const tables = await readTables(owner, schemas);
    await owner.query(await readFile(new URL("access-attempts.sql", import.meta.url), "utf8"));
    const sections: string[] = [];
    for (const table of tables) {
      if (chosen?.includes(`${table.schema}.${table.name}`) === false) continue;
      // As requests to the table have it, and the logins of the service.
      const path = [...new Set([table.schema, ...searchPath, "public", "extensions"])].map(quoteIdentifier);
      await owner.query(`set local search_path = ${path.join(", ")}`);
      sections.push(await sectionOf(owner, table, callers));
    }
    return sections.join("\n");
  } finally {
    await owner.query("rollback");
  }
}

async function sectionOf(owner: pg.Client, table: Table, callers: readonly NamedCaller[]): Promise<string> {
  const { rows, total, error } = await readRows(owner, table);
  const names = new Map<string, string[]>();
  for (const { name, ...identity } of callers) {
    const privileges = await readPrivileges(owner, table, identity.role);
    const access = await new Attempts(owner, table, rows, identity, privileges).access();
    const cells = cellsOf(access, { table, privileges, all: rows.length }).join(" | ");
    names.set(cells, [...(names.get(cells) ?? []), name]);
  }
  const counted =
    error !== null
      ? `its owner cannot read it: ${escaped(error)}`
      : total === 0
        ? `no rows\n\n${EMPTY}`
        : total === 1
          ? "1 row"
          : `${total} rows`;
  const lines = [...names].map(([cells, same]) => `| ${same.map(escaped).join(", ")} | ${cells} |\n`);
  const policies = total === 0 ? (await readPolicies(owner, table)).map((policy) => `- \`${policy}\`\n`) : [];
  const untried = policies.length === 0 ? "" : `\n${policies.join("")}`;
  return `## ${table.schema}.${table.name}: ${counted}\n\n${HEADER}${lines.join("")}${untried}`;
}

// So that a change of a policy changes the matrix all the same.
const EMPTY =
  "Without rows little more than the grants is known. Add rows to db/seed.sql, and the policies are tried on them. Until then, they are listed.";
const HEADER = "| Caller | select | insert | update | delete |\n|---|---|---|---|---|\n";

type Described = { readonly table: Table; readonly privileges: Privileges; readonly all: number };

function cellsOf(access: Access, { table, privileges, all }: Described): readonly string[] {
  const stored = table.columns.filter(({ isStored }) => isStored).map(({ name }) => name);
  const every = table.columns.map(({ name }) => name);
  const { update } = access;
  const isPartly = ({ allowed, tried }: { allowed: number; tried: number }) => allowed < tried;
  const updated = privileges.update.map((column) => {
    const values = update?.values.find((each) => each.column === column);
    return values && isPartly(values) ? `${column}: ${values.allowed} of ${values.tried} values` : column;
  });
  const isWhole = update?.values.some(isPartly) !== true && updated.length === stored.length;
  return [
    cellOf(access.select, all, columnsOf(privileges.select, every)),
    cellOf(access.insert, all, columnsOf(privileges.insert, stored)),
    cellOf(update, all, isWhole ? "" : ` (${updated.join(", ")})`),
    cellOf(access.delete, all, ""),
  ].map(escaped);
}

/** ` (id, text)`, or "" for all columns. */
const columnsOf = (granted: readonly string[], all: readonly string[]): string =>
  granted.length === all.length ? "" : ` (${granted.join(", ")})`;

function cellOf(reach: Reach | null, all: number, columns: string): string {
  if (reach === null) return "denied";
  const { labels, others, errors } = reach;
  const listed = labels.length === 0 ? [] : [labels.length === all ? "all" : listOf(labels)];
  const further = others === 0 ? [] : [all === 0 ? "a row of defaults" : others === 1 ? "1 other" : `${others} others`];
  const failed = errors.map((code) => `error ${code}`);
  const rows = [...listed, ...further, ...failed].join("; ");
  return `${rows || (all === 0 ? "granted" : "none")}${columns}`;
}

/** Ranges beyond these are counted. */
const MAX_RANGES = 8;

/** `["1", "2", "3", "7"]` → `1-3, 7`. A long list ends with the number of rows and a hash of all. */
function listOf(labels: readonly string[]): string {
  const ranges = labels.reduce<[string, string][]>((found, label) => {
    const last = found.at(-1);
    if (last !== undefined && follows(last[1], label)) last[1] = label;
    else found.push([label, label]);
    return found;
  }, []);
  const texts = ranges.map(([first, last]) => (first === last ? first : `${first}-${last}`));
  if (texts.length <= MAX_RANGES) return texts.join(", ");
  const hash = createHash("sha256").update(labels.join("\0")).digest("hex").slice(0, 6);
  return `${texts.slice(0, MAX_RANGES).join(", ")}, … ${labels.length} rows ${hash}`;
}

const follows = (one: string, next: string): boolean => {
  const numbers = [one, next].map((label) => /^#?(\d+)$/.exec(label)?.[1]).map(Number);
  return numbers[0]! + 1 === numbers[1];
};

const escaped = (text: string): string => text.replaceAll("|", "\\|").replaceAll("\n", " ");
