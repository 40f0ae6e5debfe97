import { chown, readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { SystemUser } from "./system-user.ts";

/** As initdb writes them: `host    replication     all             127.0.0.1/32            scram-sha-256`. */
const COPIES =
  /^(local|host)[ \t]+replication[ \t]+all[ \t]+(127\.0\.0\.1\/32[ \t]+|::1\/128[ \t]+)?scram-sha-256[ \t]*\n/gm;
const COMMENT = /^# Allow replication connections from localhost, by a user with the\n# replication privilege\.\n/gm;

/**
 * Removes the rules of initdb that let every login with the attribute `replication` copy the whole cluster, with all databases and
 * password hashes. The feed of changes does not need them: it reads one database. Rules that an operator has added stay.
 */
export async function refuseCopies(dataDir: string, user: SystemUser | undefined): Promise<void> {
  const file = join(dataDir, "pg_hba.conf");
  const rules = await readFile(file, "utf8");
  const kept = rules.replace(COPIES, "").replace(COMMENT, "");
  if (kept === rules) return;
  // Renamed into place: PostgreSQL does not start with half of the rules.
  const draft = `${file}.new`;
  await writeFile(draft, kept, { mode: 0o600 });
  if (user) await chown(draft, user.uid, user.gid);
  await rename(draft, file);
}
