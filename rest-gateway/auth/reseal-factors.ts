import type pg from "pg";
import type { SecretBox } from "./secret-box.ts";

export type Resealed = {
  readonly resealed: number;
  /** Those that neither the present key nor one of before opens. */
  readonly unreadable: number;
};

type Row = { readonly id: string; readonly secret: Buffer };

/** Seals with the present key, as the owner of the database, the secrets of second factors that were sealed with another. */
export async function resealFactors(client: pg.Client, box: SecretBox): Promise<Resealed> {
  const { rows } = await client.query<Row>(
    "select user_id::text as id, secret from auth_private.factors where secret is not null",
  );
  const read = rows.map(({ id, secret }) => ({ id, secret, sealed: box.reseal(secret, id) }));
  const changed = read.filter(({ secret, sealed }) => sealed !== null && sealed !== secret);
  // One that somebody has removed, or enabled anew, meanwhile is left alone.
  const { rowCount } = await client.query(
    `update auth_private.factors as f set secret = r.sealed
     from unnest($1::bigint[], $2::bytea[], $3::bytea[]) as r (user_id, secret, sealed)
     where f.user_id = r.user_id and f.secret = r.secret`,
    [changed.map(({ id }) => id), changed.map(({ secret }) => secret), changed.map(({ sealed }) => sealed)],
  );
  return { resealed: rowCount!, unreadable: read.filter(({ sealed }) => sealed === null).length };
}
