import type pg from "pg";
import { COMMAND } from "../config/command.ts";
import type { Environment } from "../config/config.ts";
import { whyNoServiceKey } from "../db/cluster/service-key.ts";
import { hashOf, newKey } from "../identity/secrets.ts";
import { CommandError, defineCommand, inColumns, inTransaction, readSettings, withOwner } from "./command.ts";

const HELP = `\
Manages anon and service keys. The service may be running: it rejects a revoked key within a second.

  ${COMMAND} key create anon <name>      create a public key, which browsers may use
  ${COMMAND} key create service <name>   create a secret key for servers, which bypasses row-level security
  ${COMMAND} key list                    list all keys, without the keys themselves
  ${COMMAND} key revoke <id or prefix>   revoke a key
  ${COMMAND} key --help                  show this help

A key is printed once, because the database stores only its hash.
The command uses the settings of the service: DATABASE_URL, or the embedded database while the service runs.
`;

export const key = defineCommand({
  name: "key",
  help: HELP,
  maxArguments: 3,
  async run({ args, refuse }, environment?: Environment) {
    const [action, first = "", second = ""] = args;
    const withKeys = async (work: (keys: OperatorKeys) => Promise<string>) =>
      withOwner(await readSettings(environment), (client) =>
        inTransaction(client, () => work(new OperatorKeys(client))),
      );
    if (action === "list" && args.length === 1) return withKeys(list);
    if (action === "revoke" && args.length === 2) return withKeys((keys) => revoke(keys, first));
    if (action !== "create" || (first !== "anon" && first !== "service") || second.trim() === "")
      throw refuse("expected create anon <name>, create service <name>, list, or revoke <id or prefix>");
    return withKeys((keys) => create(keys, first, second));
  },
});

type KeyKind = "anon" | "service";

async function create(keys: OperatorKeys, kind: KeyKind, name: string): Promise<string> {
  const refusal = kind === "service" ? await keys.whyNoService() : null;
  if (refusal !== null) throw new CommandError(1, refusal);
  try {
    return `${await keys.create(kind, name)}\n`;
  } catch (error) {
    if ((error as pg.DatabaseError).constraint !== "api_keys_name_length") throw error;
    throw new CommandError(1, "name must have 1 to 100 characters");
  }
}

const list = async (keys: OperatorKeys) =>
  inColumns(["id", "kind", "prefix", "name", "created", "used", "state"], await keys.list());

async function revoke(keys: OperatorKeys, idOrPrefix: string): Promise<string> {
  const found = await keys.revoke(idOrPrefix);
  if (found === 1) return "key revoked\n";
  const reason =
    found === 0
      ? `no active key has the id or prefix ${idOrPrefix}`
      : `several keys have the prefix ${idOrPrefix}; give an id`;
  throw new CommandError(1, `${reason}; list them with ${COMMAND} key list`);
}

/** An anon or service key as an operator sees it. Times are ISO 8601. */
type KeyRow = {
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
class OperatorKeys {
  readonly #client: pg.Client;

  constructor(client: pg.Client) {
    this.#client = client;
  }

  /** Why a service key would be refused; null if it would not. */
  whyNoService(): Promise<string | null> {
    return whyNoServiceKey(this.#client);
  }

  /** Returns the key, which cannot be read again. Rejects with the errors of the database. */
  async create(kind: KeyKind, name: string): Promise<string> {
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
