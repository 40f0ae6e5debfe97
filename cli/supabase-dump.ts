import type pg from "pg";
import type { Configured } from "../app/configured.ts";
import type { ProviderSettings } from "../config/provider-entry.ts";
import { secretOf } from "../identity/keys.ts";
import { normalizedEmail } from "../rest-gateway/auth/login-names.ts";
import { factorKeys } from "../rest-gateway/auth/second-factor.ts";
import type { SecretBox } from "../rest-gateway/auth/secret-box.ts";
import { isUuid } from "../rest-gateway/conventions/parameters.ts";
import { CommandError } from "./command.ts";
import { readProviders } from "./open-parts.ts";
import { type Entry, keyOf, parseObject, type Refused, readUser } from "./user-rows.ts";

/** What the rows of a dump need. */
export type DumpContext = {
  /** The identity providers by their names. */
  readonly providers: ReadonlyMap<string, ProviderSettings>;
  /** Whether ids of users are numbers: then only /auth/v1 shows the ids of the dump. */
  readonly hasNumbers: boolean;
  /** Encrypts second factors; null without a key. */
  readonly box: SecretBox | null;
};

export async function readDumpContext(client: pg.Client, configured: Configured): Promise<DumpContext> {
  type Row = {
    readonly type: string;
    readonly providers: readonly { readonly name: string; readonly definition: Readonly<Record<string, unknown>> }[];
  };
  const { rows } = await client.query<Row>(
    "select auth_private.base_type('auth.user_id'::regtype) as type, auth_api.list_providers() as providers",
  );
  const { type, providers } = rows[0]!;
  const { reader } = await readProviders(configured);
  // As in the service, one of the file replaces that of the table.
  const all = [...providers.map(({ name, definition }) => reader.readRow(name, definition)), ...reader.readFile()];
  const { config } = configured;
  const secret = config.mfaKey || (await secretOf(config));
  return {
    providers: new Map(all.map((each) => [each.name, each])),
    hasNumbers: type === "bigint" || type === "integer",
    box: secret === "" ? null : factorKeys(config, secret).box,
  };
}

/** Whether a file that begins with this line is a dump. */
export const isDump = (line: string): boolean => /^(--|\\restrict |SET |COPY )/.test(line);

/** The columns of a row as texts. A column that a version does not have is missing. */
type Row = Readonly<Record<string, string | null | undefined>>;
type Read = readonly (Entry | Refused)[];

/**
 * Reads what `pg_dump --data-only` writes of Supabase's `auth.users`, `auth.identities` and `auth.mfa_factors`, line by line: rows in
 * COPY blocks, with columns in any order. Other tables and columns are skipped.
 */
export class SupabaseDump {
  readonly #context: DumpContext;
  /** The table whose rows follow; null between tables. */
  #copied: { readonly table: string; readonly columns: readonly string[] } | null = null;

  constructor(context: DumpContext) {
    this.#context = context;
  }

  /** Throws CommandError for a dump without COPY. */
  read(text: string, line: number): Read {
    const copied = this.#copied;
    if (copied === null) return this.#statement(text, line);
    if (text === "\\.") this.#copied = null;
    const readTable = Object.hasOwn(TABLES, copied.table) ? TABLES[copied.table] : undefined;
    if (this.#copied === null || readTable === undefined) return [];
    const values = text.split("\t");
    if (values.length !== copied.columns.length)
      return [refused(line, null, `the row has ${values.length} columns in place of ${copied.columns.length}`)];
    const row = Object.fromEntries(values.map((value, i) => [copied.columns[i]!, unescaped(value)]));
    const owner = (copied.table === "auth.users" ? row.id : row.user_id) ?? "";
    return isUuid(owner)
      ? readTable(row, line, this.#context)
      : [refused(line, null, "the id of the user is not a UUID")];
  }

  /** Throws CommandError if the dump is cut off. */
  end(): void {
    if (this.#copied !== null)
      throw new CommandError(1, `the dump ends within the rows of ${this.#copied.table}: it is not complete`);
  }

  #statement(text: string, line: number): Read {
    // Their values may contain lines that look like statements.
    if (/^INSERT /i.test(text))
      throw new CommandError(1, `line ${line} is an INSERT: make the dump with COPY (supabase db dump --use-copy)`);
    const [, table, columns] = /^COPY (.+?) \((.*)\) FROM stdin;$/.exec(text) ?? [];
    if (table !== undefined)
      this.#copied = { table: withoutQuotes(table), columns: withoutQuotes(columns!).split(", ") };
    return [];
  }
}

const withoutQuotes = (names: string) => names.replaceAll('"', "");

const ESCAPES: Readonly<Record<string, string>> = { b: "\b", f: "\f", n: "\n", r: "\r", t: "\t", v: "\v" };

/** A value of COPY. Source: PostgreSQL, "COPY", Text Format. */
const unescaped = (value: string): string | null =>
  value === "\\N" ? null : value.replace(/\\(.)/g, (_, sign: string) => ESCAPES[sign] ?? sign);

const refused = (line: number, email: string | null, reason: string): Refused => ({ line, email, reason });
const leftOut = (line: number, email: string | null, reason: string): Refused => ({
  ...refused(line, email, reason),
  isLeftOut: true,
});

function readUserRow(row: Row, line: number, { hasNumbers }: DumpContext): Read {
  const { id, email } = row;
  if (row.deleted_at) return [leftOut(line, email ?? null, "user who is deleted")];
  if (row.is_anonymous === "t") return [leftOut(line, null, "anonymous user")];
  if (!email) return [leftOut(line, null, "user without an e-mail")];
  const [userMetadata, ofOperators] = [row.raw_user_meta_data, row.raw_app_meta_data].map((text) =>
    text == null || text === "null" ? {} : parseObject(text),
  );
  if (!userMetadata || !ofOperators)
    return [refused(line, email, "raw_user_meta_data or raw_app_meta_data is not a JSON object")];
  // /auth/v1 shows both as they follow from the identities.
  const { provider: _, providers: __, ...appMetadata } = ofOperators;
  const names = [userMetadata.name, userMetadata.full_name, email];
  const name = names.find((each): each is string => typeof each === "string" && each.trim() !== "")!;
  const data = Object.keys(userMetadata).length > 0 ? { data: userMetadata } : {};
  const fields = { email, name: [...name].slice(0, 200).join(""), password_hash: row.encrypted_password, ...data };
  const user = readUser(hasNumbers ? fields : { id, ...fields }, line, id!);
  if ("reason" in user) return [user];
  const account = {
    ...{ ...user.account, publicId: id, userMetadata, appMetadata },
    ...{ createdAt: row.created_at, emailConfirmedAt: row.email_confirmed_at, disabledUntil: row.banned_until },
  };
  return [{ ...user, account }, ...(row.phone ? [leftOut(line, email, "phone number of a user")] : [])];
}

function readIdentity(row: Row, line: number, { providers }: DumpContext): Read {
  // The e-mail of the account.
  if (row.provider === "email") return [];
  const data = parseObject(row.identity_data ?? "") ?? {};
  const email = typeof data.email === "string" ? normalizedEmail(data.email) : null;
  // Versions without provider_id have it as the id.
  const subject = row.provider_id ?? row.id;
  const provider = row.provider ?? "";
  if (provider.startsWith("sso:")) return [leftOut(line, email, "identity of SAML")];
  // Supabase has "custom:acme" and "linkedin_oidc".
  const settings = providers.get(provider.replace(/^custom:/, "").replaceAll("_", "-"));
  if (!settings?.issuer) return [leftOut(line, email, `identity of ${provider}, which is not a provider here`)];
  if (!isOf(settings, data.iss))
    return [leftOut(line, email, `identity of ${provider}, which has another issuer here`)];
  return [
    {
      ...{ kind: "identities", line, owner: row.user_id, email, subject },
      id: row.provider_id && isUuid(row.id ?? "") ? row.id : keyOf(`${provider} ${subject}`),
      ...{ provider: settings.name, issuer: settings.issuer },
      ...{ createdAt: row.created_at, usedAt: row.last_sign_in_at },
    },
  ];
}

/** Issuers that older versions of Supabase have stored. */
const OLD_ISSUERS: Readonly<Record<string, string>> = {
  "https://www.googleapis.com/userinfo/v2/me": "https://accounts.google.com",
};

/**
 * Whether an identity, if it names its issuer, is one of this provider: the subject of another could be another person's. Without
 * OpenID Connect only the domains are comparable: `https://api.github.com` and `https://github.com/login/oauth/access_token`.
 */
function isOf({ kind, issuer }: ProviderSettings, named: unknown): boolean {
  if (typeof named !== "string" || named === "") return true;
  const [one, other] = [OLD_ISSUERS[named] ?? named, issuer!].map((each) => each.replace(/\/$/, ""));
  return one === other || (kind === "oauth2" && domainOf(one!) === domainOf(other!));
}

const domainOf = (url: string): string => URL.parse(url)?.hostname.split(".").slice(-2).join(".") ?? url;

function readFactor(row: Row, line: number, { box }: DumpContext): Read {
  // An enrolment that was not completed.
  if (row.status !== "verified") return [];
  if (row.factor_type !== "totp") return [leftOut(line, null, `second factor of the type ${row.factor_type}`)];
  if (box === null) return [leftOut(line, null, "second factor: set MFA_KEY or JWT_SECRET as the service has it")];
  const secret = (row.secret ?? "").replace(/=+$/, "");
  if (!/^[A-Z2-7]{16,}$/.test(secret)) return [refused(line, null, "the secret is not in base32: it may be encrypted")];
  const name = [...(row.friendly_name ?? "")].slice(0, 100).join("");
  const seal = (userId: string) => box.seal(secret, userId).toString("hex");
  return [{ kind: "factors", line, owner: row.user_id, id: row.id, name, createdAt: row.created_at, seal }];
}

const TABLES: Readonly<Record<string, typeof readUserRow>> = {
  "auth.users": readUserRow,
  "auth.identities": readIdentity,
  "auth.mfa_factors": readFactor,
};

/** Second factors with their secrets encrypted for their users; without an account, which the database refuses, the secret is empty. */
export async function sealFactors(client: pg.Client, entries: readonly Entry[]): Promise<readonly Entry[]> {
  const { rows } = await client.query<{ readonly owner: string; readonly id: string | null }>(
    "select each.id as owner, auth_api.find_public_user(each.id) ->> 'id' as id from unnest($1::uuid[]) as each (id)",
    [[...new Set(entries.map(({ owner }) => owner))]],
  );
  const ids = new Map(rows.map(({ owner, id }) => [owner, id]));
  return entries.map(({ seal, ...entry }) => {
    const id = ids.get(String(entry.owner).toLowerCase()) ?? null;
    return { ...entry, secret: id === null ? "" : (seal as (userId: string) => string)(id) };
  });
}
