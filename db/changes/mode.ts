import type pg from "pg";
import type { ChangeSource } from "./feed.ts";
import { LogicalSource } from "./logical.ts";
import { OutboxSource } from "./outbox.ts";

/** How changes are read; "logical" is logical decoding, "outbox" a table that triggers fill. */
export type ChangeMode = "logical" | "outbox";

/**
 * Prepares the database so that `login` can read its changes, as its owner: by logical decoding where the server and the
 * owner's rights allow that, otherwise through the outbox. Returns the mode, and why it is not logical decoding.
 */
export async function prepareChanges(owner: pg.Client, login: string): Promise<{ mode: ChangeMode; reason: string }> {
  const reason = await refuseLogical(owner, login);
  const mode = reason === "" ? "logical" : "outbox";
  await owner.query("select changes.use_outbox($1)", [mode === "outbox"]);
  return { mode, reason };
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

/** Reads the committed changes at `url`, the connection string of the login that may. */
export function createSource(
  { mode, url }: { readonly mode: ChangeMode; readonly url: string },
  onError: (error: Error) => void,
): ChangeSource {
  const Source = mode === "logical" ? LogicalSource : OutboxSource;
  return new Source({ connectionString: url, onError });
}
