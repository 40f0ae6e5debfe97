import type pg from "pg";
import { hashOf, newKey } from "../identity/secrets.ts";

/** An anon or service key as an operator sees it. Times are ISO 8601. */
export type KeyRow = {
  readonly id: string;
  readonly kind: string;
  readonly prefix: string;
  readonly name: string;
  readonly created: string;
  /** "" when it has never been used. */
  readonly used: string;
  readonly state: "active" | "revoked";
};

/** The anon and service keys, as the owner of the database. */
export class KeyRepository {
  readonly #client: pg.Client;

  constructor(client: pg.Client) {
    this.#client = client;
  }

  /** Returns the key, which cannot be read again. Rejects with the errors of the database. */
  async create(kind: "anon" | "service", name: string): Promise<string> {
    const { key, prefix } = newKey(kind);
    // Only the hash: the database may log what it is sent.
    const { rows } = await this.#client.query<{ id: string }>(
      "insert into auth_private.api_keys (kind, name, prefix, key_hash) values ($1, $2, $3, $4) returning id",
      [kind, name, prefix, hashOf(key)],
    );
    await this.#record("key_created", rows[0]!.id);
    return key;
  }

  async list(): Promise<KeyRow[]> {
    const time = (column: string) =>
      `coalesce(to_char(${column} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), '')`;
    const { rows } = await this.#client.query<KeyRow>(
      `select id, kind, prefix, name, ${time("created_at")} as created, ${time("last_used_at")} as used,
         case when revoked_at is null then 'active' else 'revoked' end as state
       from auth_private.api_keys where user_id is null order by created_at`,
    );
    return rows;
  }

  /** Revokes the key if exactly one active key has this id or prefix. Returns how many have it. */
  async revoke(idOrPrefix: string): Promise<number> {
    const { rows } = await this.#client.query<{ id: string }>(
      "select id from auth_private.api_keys where user_id is null and revoked_at is null and $1 in (id::text, prefix)",
      [idOrPrefix],
    );
    if (rows.length !== 1) return rows.length;
    await this.#client.query("update auth_private.api_keys set revoked_at = now() where id = $1", [rows[0]!.id]);
    await this.#record("key_revoked", rows[0]!.id);
    return 1;
  }

  async #record(event: string, key: string): Promise<void> {
    const detail = JSON.stringify({ by: "operator", key });
    await this.#client.query("select auth_api.note_event($1, null, null, $2, now())", [event, detail]);
  }
}
