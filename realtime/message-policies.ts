import type { RowPolicy, Setting } from "../db/catalog/catalog.ts";
import { COMMAND, conditionFor } from "../db/catalog/policies.ts";
import type { Database } from "../db/database.ts";
import type { Identity } from "../db/transaction/identity.ts";
import { notPossible } from "./problem.ts";

/** What a role may do with the table realtime.messages. */
type MessageAccess = {
  /** Whether the grants allow it. */
  readonly mayRead: boolean;
  readonly mayWrite: boolean;
  /** Whether row-level security applies to the role. */
  readonly isRestricted: boolean;
  /** Those that apply to the role. */
  readonly policies: readonly Omit<RowPolicy, "name" | "roles">[];
};

/** What a caller may do with messages of each extension. */
export type MessageRights = Readonly<
  Record<"broadcast" | "presence", { readonly read: boolean; readonly write: boolean }>
>;

/** No row if there is no such table. The text of a policy has all names with their schema, because the search path is empty. */
const ACCESS = `
  select json_build_object(
    'mayRead', has_schema_privilege(n.oid, 'usage')
      and has_column_privilege(c.oid, 'topic', 'select') and has_column_privilege(c.oid, 'extension', 'select'),
    'mayWrite', has_schema_privilege(n.oid, 'usage')
      and has_column_privilege(c.oid, 'topic', 'insert') and has_column_privilege(c.oid, 'extension', 'insert'),
    'isRestricted', row_security_active(c.oid),
    'policies', array(
      select json_build_object(
        'command', ${COMMAND}, 'isPermissive', polpermissive, 'isLocked', false,
        'using', pg_get_expr(p.polqual, p.polrelid), 'check', pg_get_expr(p.polwithcheck, p.polrelid)
      )
      from pg_policy as p
      where p.polrelid = c.oid
        and exists (select from unnest(p.polroles) as role where role = 0 or pg_has_role(nullif(role, 0), 'usage'))
    )
  )::text
  from pg_class as c
  join pg_namespace as n on n.oid = c.relnamespace
  where n.nspname = 'realtime' and c.relname = 'messages' and c.relkind in ('r', 'p') and (
    select count(*) from pg_attribute as a
    where a.attrelid = c.oid and a.attname in ('topic', 'extension') and not a.attisdropped
  ) = 2`;

/**
 * Evaluates the policies on a message that is in no table: no partition and no right to insert is needed, and nothing is written.
 * No column has a name that begins with "§".
 */
const evaluation = (read: string, write: string) => `
  select pg_catalog.json_object_agg(
    "§ extension", pg_catalog.json_build_object('read', (${read}) is true, 'write', (${write}) is true)
  )::text
  from pg_catalog.unnest(array['broadcast', 'presence']) as "§ given" ("§ extension")
  cross join lateral pg_catalog.jsonb_populate_record(null::realtime.messages, pg_catalog.jsonb_build_object(
    'topic', $1::text, 'extension', "§ extension", 'private', false, 'inserted_at', now(), 'updated_at', now()
  )) as messages`;

const NONE = { read: false, write: false };

export type MessagePoliciesOptions = {
  readonly database: Pick<Database, "forRole">;
};

/**
 * The policies on the table realtime.messages of a database that another application has created, such as one from Supabase. They
 * are read each time, because the service does not follow this table.
 */
export class MessagePolicies {
  readonly #options: MessagePoliciesOptions;

  constructor(options: MessagePoliciesOptions) {
    this.#options = options;
  }

  /** `topic` is what `realtime.topic()` returns. Rejects with Problem if there is no such table, or as a transaction does. */
  async rightsOn(topic: string, identity: Identity): Promise<MessageRights> {
    const text = await this.#read(identity, ACCESS, [], [["search_path", ""]]);
    if (text === null) throw notPossible(WITHOUT_TABLE);
    const { mayRead, mayWrite, isRestricted, policies } = JSON.parse(text) as MessageAccess;
    if (!mayRead && !mayWrite) return { broadcast: NONE, presence: NONE };
    const condition = (command: "select" | "insert") =>
      isRestricted ? (conditionFor(command, policies) ?? "false") : "true";
    const read = mayRead ? condition("select") : "false";
    const write = mayWrite ? condition("insert") : "false";
    return JSON.parse((await this.#read(identity, evaluation(read, write), [topic], [["realtime.topic", topic]]))!);
  }

  /** The first value, or null without a row. Whatever functions of policies write is rolled back. */
  async #read(identity: Identity, text: string, values: string[], given: readonly Setting[]): Promise<string | null> {
    const transactions = this.#options.database.forRole(identity.caller.role);
    const set = { ...identity, settings: { fixed: [], given } };
    const [result] = await transactions.run(set, [{ text, values }], { rollback: true });
    return result!.rows[0]?.[0]?.toString() ?? null;
  }
}

const WITHOUT_TABLE =
  "this database has no table realtime.messages, whose policies decide who may use private channels";
