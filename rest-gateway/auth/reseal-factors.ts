import type pg from "pg";
import type { Logger } from "pino";
import type { SecretBox } from "./secret-box.ts";

type Row = { readonly id: string; readonly secret: Buffer };

/** Encrypts second factors with the present key, so that the previous one can be removed from the settings. */
export async function resealFactors(client: pg.Client, box: SecretBox, log: Logger): Promise<void> {
  const { rows } = await client.query<Row>(
    "select user_id::text as id, secret from auth_private.factors where secret is not null",
  );
  const read = rows.map(({ id, secret }) => ({ id, secret, sealed: box.reseal(secret, id) }));
  const changed = read.filter(({ secret, sealed }) => sealed !== null && sealed !== secret);
  // A second factor that was removed or enabled again in the meantime stays as it is.
  const { rowCount } = await client.query(
    `update auth_private.factors as f set secret = r.sealed
     from unnest($1::bigint[], $2::bytea[], $3::bytea[]) as r (user_id, secret, sealed)
     where f.user_id = r.user_id and f.secret = r.secret`,
    [changed.map(({ id }) => id), changed.map(({ secret }) => secret), changed.map(({ sealed }) => sealed)],
  );
  log.info({ factors: rowCount }, "second factors were encrypted with the present key");
  const unreadable = read.filter(({ sealed }) => sealed === null).length;
  if (unreadable > 0)
    log.warn({ factors: unreadable }, "second factors cannot be decrypted with MFA_KEY or MFA_PREVIOUS_KEY");
}
