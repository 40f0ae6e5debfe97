import type pg from "pg";
import { COMMAND } from "../../../config/command.ts";
import { type Config, valueIn } from "../../../config/config.ts";
import type { Check } from "../../../identity/diagnosis.ts";
import { factorKeys } from "../../../rest-gateway/auth/second-factor.ts";
import { readFactors, type SecretBox, UNREADABLE } from "../../../rest-gateway/auth/secret-box.ts";

/** Whether the users of the application can sign in. */
export async function* checkAccounts(client: pg.Client, config: Config): AsyncGenerator<Check> {
  const { mfaKey, mfaPreviousKey } = config;
  const unreadable = mfaKey && mfaPreviousKey ? await unreadableIn(client, factorKeys(config, mfaKey).box) : null;
  const found = [unreadable, await lockedOutIn(client, config)].filter((text) => text !== null);
  const without = await withoutAccount(client);
  if (without !== null) yield { level: "note", text: without };
  else if (found.length === 0) yield { level: "ok", text: "they can sign in" };
  for (const text of found) yield { level: "warning", text };
}

/** Ids that a note lists. */
const SHOWN = 5;

/** Rows that another application has added to the table of auth.use_users; null if there are none, or the login may not read it. */
async function withoutAccount(client: pg.Client): Promise<string | null> {
  const { rows: tables } = await client.query<{ table: string; key: string }>(`
    select format('%I.%I', n.nspname, c.relname) as table, quote_ident(a.attname) as key
    from pg_constraint as k
    join pg_class as c on c.oid = k.confrelid
    join pg_namespace as n on n.oid = c.relnamespace
    join pg_attribute as a on a.attrelid = c.oid and a.attnum = k.confkey[1]
    where k.conrelid = 'auth_private.accounts'::regclass and k.conname = 'accounts_user_id_fkey'
      and has_schema_privilege(n.oid, 'usage') and has_table_privilege(c.oid, 'select')`);
  const [users] = tables;
  if (users === undefined) return null;
  const { rows } = await client.query<{ without: number; all: number; first: string }>(`
    select count(*) filter (where a.user_id is null)::int as without, count(*)::int as all,
      array_to_string((array_agg(u.${users.key}::text order by u.${users.key}) filter (where a.user_id is null))[:${SHOWN}], ', ') as first
    from ${users.table} as u left join auth_private.accounts as a on a.user_id = u.${users.key}`);
  const { without, all, first } = rows[0]!;
  if (without === 0) return null;
  const ids = `${users.key} ${first}${without > SHOWN ? ", …" : ""}`;
  return (
    `${without} of ${all} rows of ${users.table} have no account (${ids}), so these users cannot sign in: give them one with select auth.try_add_account(…), ` +
    "as in db/accounts.sql of init --database and docs/existing-database.md; its warnings say why a user gets none"
  );
}

/** Accounts that have been brought along without a hash set their first password by e-mail. */
async function lockedOutIn(client: pg.Client, config: Config): Promise<string | null> {
  if (valueIn(config, "MAIL_URL")) return null;
  const { rows } = await client.query(`
    select count(*) filter (where not exists (select from auth_private.identities as i where i.user_id = a.user_id)
        and not exists (select from auth_private.passkeys as p where p.user_id = a.user_id)
        and auth_private.usable_hash(password_hash) is null)::int as "lockedOut", count(*)::int as all
    from auth_private.accounts as a where not is_anonymous`);
  const [{ lockedOut, all }] = rows;
  if (lockedOut === 0) return null;
  return (
    `${lockedOut} of ${all} accounts have no password that can be verified, and the service sends no e-mails by which their users could set one: set ` +
    `MAIL_URL (docs/mail.md), or ${COMMAND} user password <login>`
  );
}

/** What the log of a start says of factors that cannot be decrypted, and how many there are; null if there are none. */
async function unreadableIn(client: pg.Client, box: SecretBox): Promise<string | null> {
  const unreadable = (await readFactors(client)).filter(({ id, secret }) => box.open(secret, id) === null).length;
  return unreadable === 0 ? null : `${UNREADABLE}: ${unreadable}`;
}
