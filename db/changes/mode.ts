import type pg from "pg";
import { LogicalSource } from "./logical.ts";
import { OutboxSource } from "./outbox.ts";
import { slotOf } from "./slot.ts";

/** How changes are read; "logical" is logical decoding, "outbox" a table that triggers fill. */
export type ChangeMode = "logical" | "outbox";

/**
 * Prepares the database so that `login` can read its changes, as its owner: by logical decoding where the server and the
 * owner's rights allow that, otherwise through the outbox. Returns the mode, and why it is not logical decoding.
 */
export async function prepareChanges(
  owner: pg.Client,
  login: string,
): Promise<{ mode: ChangeMode; reason: string; database: number }> {
  const reason = await refuseLogical(owner, login);
  const mode = reason === "" ? "logical" : "outbox";
  await owner.query("select changes.use_outbox($1)", [mode === "outbox"]);
  const { rows } = await owner.query("select oid from pg_database where datname = current_database()");
  return { mode, reason, database: rows[0].oid };
}

async function refuseLogical(owner: pg.Client, login: string): Promise<string> {
  const { rows } = await owner.query(
    "select current_setting('wal_level') as level, (select rolreplication from pg_roles where rolname = $1) as may_replicate",
    [login],
  );
  const { level, may_replicate: mayReplicate } = rows[0];
  if (level !== "logical") return `wal_level is ${level}: set it to logical and restart the server`;
  if (mayReplicate) return "";
  try {
    await owner.query(`alter role ${owner.escapeIdentifier(login)} replication`);
    return "";
  } catch {
    return `the login ${login} may not replicate: a superuser can run: alter role ${owner.escapeIdentifier(login)} replication`;
  }
}

/** How and where committed changes are read. */
export type ChangesConfig = {
  readonly mode: ChangeMode;
  /** The connection string of the login that may read them. */
  readonly url: string;
  /** The OID of the database. */
  readonly database: number;
};

/** `instance` is the name of this instance, or "" if it has none that survives a restart. */
export function createSource(
  { mode, url, database }: ChangesConfig,
  instance: string,
  onError: (error: Error) => void,
) {
  const options = { connectionString: url, onError };
  if (mode === "outbox") return new OutboxSource(options);
  return new LogicalSource({ ...options, slot: slotOf(database, instance) });
}
