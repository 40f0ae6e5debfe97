import type pg from "pg";
import { ownerUrl, withOwner } from "../../../cli/command.ts";
import { withCore } from "../../../cli/open-core.ts";
import type { Config } from "../../../config/config.ts";
import type { Caller } from "../../../db/caller.ts";
import type { Catalog, Table } from "../../../db/catalog/catalog.ts";
import { findChanges, PUBLICATION } from "../../../db/changes/changes-config.ts";
import { refusalsOfLogical, whyUnread } from "../../../db/changes/requirements.ts";
import { loginName } from "../../../db/cluster/provision.ts";
import type { PatternLimits } from "../../../db/filters/patterns.ts";
import { setupOf } from "../setup.ts";
import { QuestionFault } from "./asked-change.ts";
import { type ChangesRead, readChangesSetup } from "./change-setup.ts";
import { MissingChangeCheck } from "./missing-change.ts";
import { RowAccessCheck } from "./row-access.ts";

type Opened = {
  readonly check: MissingChangeCheck;
  readonly catalog: Catalog;
  /** The login of this command. */
  readonly login: string;
  readonly filterLimits: PatternLimits;
  /**
   * A row with this primary key, as the first of `readers` that sees it, and the values of `changes` in place of its own. Rejects with
   * QuestionFault.
   */
  find(table: Table, key: readonly string[], readers: readonly Caller[], changes: string): Promise<string>;
};

/** Opens the database as the service would, without the service. */
export async function withMissingChange<Result>(
  config: Config,
  use: (opened: Opened) => Promise<Result>,
): Promise<Result> {
  const { login, logins, read } = await readServiceSetup(config, ownerUrl(config));
  const { dbAnonRole: anonymousRole, dbSchemas: schemas } = config;
  return withCore(config, "rights", ({ database, catalog: { current: catalog }, rights }) => {
    const access = new RowAccessCheck({ database, catalog: () => catalog });
    const readSetup = (table: Table) => readChangesSetup(database.catalog, table, read, { schemas, logins });
    const check = new MissingChangeCheck({ rights, access, anonymousRole, logins, readSetup });
    const { filterLimits } = rights;
    return use({ check, catalog, login, filterLimits, find: (...row) => findRow(access, ...row) });
  });
}

/** The logins of the service, and how it reads changes. */
async function readServiceSetup(config: Config, url: string) {
  const { dbSchemas: schemas, changesUrl, databaseDirectUrl } = config;
  return withOwner(config, async (client) => {
    const { logins } = await setupOf(client, config);
    const { rows } = await client.query("select current_user as login, current_database() as database");
    const { login, database } = rows[0];
    if (config.hasFeed) {
      const missing = await whyNoLogical(client, loginName(database, "changes"));
      const read: ChangesRead = { missing, publication: PUBLICATION, isManaged: true };
      return { login, logins: [...logins, loginName(database, "service")], read };
    }
    const { missing, publication } = await findChanges(databaseDirectUrl || url, { schemas, changesUrl });
    const read: ChangesRead = { missing, publication, isManaged: false };
    return { login, logins, read };
  });
}

async function findRow(
  access: RowAccessCheck,
  table: Table,
  key: readonly string[],
  readers: readonly Caller[],
  changes: string,
): Promise<string> {
  const isOne = readers.length === 1;
  let fault: string | null = null;
  for (const reader of readers) {
    try {
      const row = await access.find(table, key, reader, changes);
      if (row !== null) return row;
    } catch (error) {
      const { code, message } = error as Error & { code?: string };
      // Without a grant, the next one may see it.
      if (isOne || code !== "42501") fault ??= `The row cannot be read as ${reader.role}: ${message}`;
    }
  }
  const { role } = readers[0]!;
  const seen = isOne ? `${role} sees no row` : `Neither ${role} nor a role that it may become sees a row`;
  const reason = fault ?? `${seen} with this key in ${table.schema}.${table.name}`;
  const other = isOne ? "name a role that may read it with --reader, or " : "";
  throw new QuestionFault(`${reason}: ${other}give its values with --old and --new instead of --key.`);
}

/** The same as one sentence; null if the login can read it. */
export const whyNoLogical = async (client: pg.Client, login: string): Promise<string | null> =>
  whyUnread((await refusalsOfLogical(client, login)).map(({ text }) => text));
