import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createClient } from "@supabase/supabase-js";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { outcomeOf } from "../../cli/command.ts";
import { user } from "../../cli/user.ts";
import { continuationOf, oidcEntry, useFederated } from "../parts/federated/support.ts";
import { failureOf, useAuth } from "../parts/supabase-auth/support.ts";
import { JWT_SECRET } from "../support/service.ts";
import { appCode } from "../support/totp.ts";
import { WebClient } from "../support/web-client.ts";

/** Of the password "U*U". */
const BCRYPT = "$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW";
const TOTP = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP";
const PAGE = "https://app.example";

/** The columns that pg_dump writes, in its order: without those that are generated. */
const COLUMNS = {
  users:
    "instance_id, id, aud, role, email, encrypted_password, email_confirmed_at, invited_at, confirmation_token, confirmation_sent_at, recovery_token, recovery_sent_at, email_change_token_new, email_change, email_change_sent_at, last_sign_in_at, raw_app_meta_data, raw_user_meta_data, is_super_admin, created_at, updated_at, phone, phone_confirmed_at, phone_change, phone_change_token, phone_change_sent_at, email_change_token_current, email_change_confirm_status, banned_until, reauthentication_token, reauthentication_sent_at, is_sso_user, deleted_at, is_anonymous",
  identities: "provider_id, user_id, identity_data, provider, last_sign_in_at, created_at, updated_at, id",
  mfa_factors:
    "id, user_id, friendly_name, factor_type, status, created_at, updated_at, secret, phone, last_challenged_at, web_authn_credential, web_authn_aaguid, last_webauthn_challenge_data",
};
type Row = Readonly<Record<string, string | object | null>>;

/** As COPY writes a value. */
const escaped = (value: string | object | null) =>
  value === null
    ? "\\N"
    : (typeof value === "string" ? value : JSON.stringify(value))
        .replaceAll("\\", "\\\\")
        .replaceAll("\t", "\\t")
        .replaceAll("\n", "\\n");

/** What pg_dump writes of a table. */
function copy(table: keyof typeof COLUMNS, rows: readonly Row[], columns = COLUMNS[table]): string {
  const names = columns.split(", ");
  const lines = rows.map((row) => `${names.map((name) => escaped(row[name] ?? null)).join("\t")}\n`);
  const about = `--\n-- Data for Name: ${table}; Type: TABLE DATA; Schema: auth; Owner: supabase_auth_admin\n--\n\n`;
  return `${about}COPY auth.${table} (${columns}) FROM stdin;\n${lines.join("")}\\.\n\n\n`;
}

const dumpOf = (...tables: readonly string[]) =>
  `--\n-- PostgreSQL database dump\n--\n\n\\restrict xyz\n\nSET statement_timeout = 0;\nSET client_encoding = 'UTF8';\n\n${tables.join("")}--\n-- PostgreSQL database dump complete\n--\n\n\\unrestrict xyz\n\n`;

const idOf = (n: number) => `a0000000-0000-4000-8000-${String(n).padStart(12, "0")}`;
const AT = "2023-04-05 06:07:08.123456+00";
const userRow = (n: number, name: string, more: Row = {}): Row => ({
  ...{ instance_id: idOf(0), id: idOf(n), aud: "authenticated", role: "authenticated", email: `${name}@dump.example` },
  ...{ encrypted_password: BCRYPT, email_confirmed_at: AT, confirmation_token: "", created_at: AT, updated_at: AT },
  raw_app_meta_data: { provider: "email", providers: ["email"] },
  ...{ raw_user_meta_data: {}, email_change_confirm_status: "0", is_sso_user: "f", is_anonymous: "f", ...more },
});
const identityRow = (n: number, provider: string, providerId: string, more: Row = {}): Row => ({
  ...{ provider_id: providerId, user_id: idOf(n), provider, last_sign_in_at: AT, created_at: AT, updated_at: AT },
  id: `b${idOf(n).slice(1)}`,
  identity_data: { sub: providerId, email: "Mary@Example.com", full_name: "Mary" },
  ...more,
});
const factorRow = (n: number, more: Row = {}): Row => ({
  ...{ id: `c${idOf(n).slice(1)}`, user_id: idOf(n), friendly_name: "my phone", factor_type: "totp" },
  ...{ status: "verified", created_at: AT, updated_at: AT, secret: TOTP, ...more },
});

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "content-service-dump-"));
});
afterAll(() => rm(folder, { recursive: true, force: true }));
const file = () => join(folder, "dump.sql");
const refused = async () =>
  (await readFile(`${file()}.refused.ndjson`, "utf8"))
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line));

describe("npx content-service user import, with a dump of Supabase", () => {
  const federated = useFederated({
    entries: (idp) => [oidcEntry(idp)],
    settings: { AUTH_RETURN_ORIGINS: PAGE, MAIL_URL: "keep" },
  });
  const { service, sql } = federated;
  const clientOf = () =>
    createClient(service().url, service().service.tokens.issueKey("anon"), {
      auth: { flowType: "pkce", persistSession: false, autoRefreshToken: false, detectSessionInUrl: false },
    });
  const signIn = async (name: string) => {
    const client = clientOf();
    return { client, ...(await client.auth.signInWithPassword({ email: `${name}@dump.example`, password: "U*U" })) };
  };
  async function importDump(text: string, ...options: string[]) {
    await writeFile(file(), text);
    const providers = join(folder, "providers.json");
    await writeFile(providers, JSON.stringify([oidcEntry(federated.idp())]));
    const ofProviders = { AUTH_PROVIDERS: providers, AUTH_PROVIDERS_NETWORKS: "loopback", HOST: "127.0.0.1" };
    return outcomeOf(
      user(["import", file(), ...options], { DATABASE_URL: service().database.url, JWT_SECRET, ...ofProviders }),
    );
  }

  const metadata = { name: "Ann\tA.", bio: 'a \\ and a "\u2028new\nline' };
  const ann = userRow(1, "ann", {
    raw_user_meta_data: metadata,
    raw_app_meta_data: { provider: "email", providers: ["email", "acme"], plan: "gold" },
  });
  const users = copy("users", [
    ann,
    userRow(2, "ben", { banned_until: "2999-01-01 00:00:00+00" }),
    userRow(3, "cay", { encrypted_password: "", email_confirmed_at: null, phone: "15550100" }),
    userRow(4, "dan", { deleted_at: AT }),
    userRow(5, "eve", { email: null, is_anonymous: "t" }),
    userRow(6, "fay", { email: null, phone: "15550101" }),
  ]);
  const all = () =>
    dumpOf(
      users,
      copy("identities", [
        identityRow(1, "email", idOf(1)),
        identityRow(1, "acme", "ann", { identity_data: { iss: federated.idp().url, email: "Mary@Example.com" } }),
        identityRow(3, "acme", "c", { identity_data: { iss: "https://other.example" } }),
        identityRow(3, "github", "7"),
        identityRow(3, "sso:21b0bf8b-5b6b-4a7c-8c7c-4a7c8c7c4a7c", "c"),
      ]),
      copy("mfa_factors", [
        factorRow(1),
        factorRow(2, { status: "unverified" }),
        factorRow(3, { factor_type: "phone", secret: null, phone: "15550100" }),
        factorRow(2, { factor_type: "webauthn", secret: null }),
      ]),
    );
  const LEFT_OUT = [
    "left out: 1 × phone number of a user",
    "left out: 1 × user who is deleted",
    "left out: 1 × anonymous user",
    "left out: 1 × user without an e-mail",
    "left out: 1 × identity of acme, which has another issuer here",
    "left out: 1 × identity of github, which is not a provider here",
    "left out: 1 × identity of SAML",
    "left out: 1 × second factor of the type phone",
    "left out: 1 × second factor of the type webauthn",
    "",
  ].join("\n");

  test("--dry-run counts what can be imported, and changes nothing", async () => {
    expect(await importDump(all(), "--dry-run")).toEqual({
      exitCode: 0,
      stdout: `3 users can be imported, 1 identities, 1 second factors; nothing was changed\n${LEFT_OUT}`,
      stderr: "",
    });
    expect(await sql("select from auth_private.accounts where public_id = $1", idOf(1))).toEqual([]);
  });

  test("users, identities and second factors come along, and what does not is counted by reason", async () => {
    expect(await importDump(all())).toEqual({
      exitCode: 0,
      stdout: `3 users imported, 1 identities, 1 second factors\n${LEFT_OUT}`,
      stderr: "",
    });
    expect((await refused())[1]).toMatchObject({ email: "dan@dump.example", reason: "user who is deleted" });
    expect(await sql("select count(*)::int as mails from auth_private.mails")).toEqual([{ mails: 0 }]);
  });

  test("a user signs in with the old password, and proves the old second factor", async () => {
    const { client, data } = await signIn("ann");
    expect(data.user).toMatchObject({
      ...{ id: idOf(1), created_at: expect.stringMatching(/^2023-04-05T/), user_metadata: metadata },
      email_confirmed_at: expect.stringMatching(/^2023-04-05T/),
      app_metadata: { plan: "gold", provider: "email", providers: ["email", "acme"] },
    });
    const { data: identities } = await client.auth.getUserIdentities();
    expect(identities!.identities).toMatchObject([
      { provider: "email" },
      {
        provider: "acme",
        id: "ann",
        identity_id: `b${idOf(1).slice(1)}`,
        identity_data: { email: "Mary@Example.com" },
      },
    ]);
    const levels = await client.auth.mfa.getAuthenticatorAssuranceLevel();
    expect(levels.data).toMatchObject({ currentLevel: "aal1", nextLevel: "aal2" });
    const { data: factors } = await client.auth.mfa.listFactors();
    expect(factors!.totp).toMatchObject([{ id: `c${idOf(1).slice(1)}`, friendly_name: "my phone" }]);
    const code = appCode(TOTP, Date.now());
    const verified = await client.auth.mfa.challengeAndVerify({ factorId: factors!.totp[0]!.id, code });
    expect([verified.error, verified.data!.user.id]).toEqual([null, idOf(1)]);
    expect(failureOf(await signIn("ben"))).toEqual([400, "user_banned"]);
    expect(failureOf(await signIn("cay"))).toEqual([400, "invalid_credentials"]);
    expect(await sql("select email_confirmed_at from auth_private.accounts where public_id = $1", idOf(3))).toEqual([
      { email_confirmed_at: null },
    ]);
  });

  test("a sign-in at the provider finds the account", async () => {
    federated.idp().people.ann = { name: "Ann", email: "other@example.com", email_verified: true };
    const client = clientOf();
    const { data } = await client.auth.signInWithOAuth({
      provider: "acme" as "github",
      options: { redirectTo: PAGE, skipBrowserRedirect: true },
    });
    const browser = new WebClient();
    const { pathname, search } = new URL(data.url!);
    const page = await browser.request(await federated.respond(browser, `${pathname}${search}`, "ann"));
    const url = new URL(continuationOf(page) ?? page.headers.get("location")!);
    const exchanged = await client.auth.exchangeCodeForSession(url.searchParams.get("code")!);
    expect([exchanged.error, exchanged.data.user?.id]).toEqual([null, idOf(1)]);
  });

  test("each row is imported once: what a user has removed does not come back", async () => {
    expect((await importDump(all())).stdout).toBe(`0 users imported, 5 imported before\n${LEFT_OUT}`);
    await sql("delete from auth_private.factors");
    await sql("delete from auth_private.identities");
    expect((await importDump(all())).stdout).toBe(`0 users imported, 5 imported before\n${LEFT_OUT}`);
    expect(await sql("select from auth_private.factors union all select from auth_private.identities")).toEqual([]);
  });

  test("reads other versions and other tables, and a row that is wrong is refused with its line alone", async () => {
    const text = dumpOf(
      "COPY auth.audit_log_entries (id, payload) FROM stdin;\n1\tCOPY auth.users (id) FROM stdin;\n\\.\n",
      'SELECT pg_catalog.setval(\'"auth"."refresh_tokens_id_seq"\', 1, false);\n',
      copy(
        "users",
        [userRow(11, "gus"), userRow(12, "hal", { created_at: "no time" }), userRow(13, "ivy")],
        "new_column, encrypted_password, email, created_at, id",
      ).replace("COPY auth.users (", 'COPY "auth"."users" ('),
      // Without provider_id, which is the id in older versions.
      copy(
        "identities",
        [identityRow(11, "acme", "gus", { id: "gus" }), identityRow(99, "acme", "nobody")],
        "id, user_id, identity_data, provider, last_sign_in_at, created_at, updated_at",
      ),
      copy("mfa_factors", [
        factorRow(11, { secret: '{"key_id":"1","alg":"aes-gcm-hkdf"}' }),
        factorRow(13, { friendly_name: null }),
        factorRow(13, { friendly_name: null, id: idOf(130) }),
      ]).replace(/\\\.\n/, "cut\toff\n\\.\n"),
    );
    const { exitCode, stdout } = await importDump(text);
    expect([exitCode, stdout]).toEqual([1, "2 users imported, 1 identities, 2 second factors, 4 rows refused\n"]);
    const lineOf = (part: string) => text.split("\n").findIndex((line) => line.includes(part)) + 1;
    expect((await refused()).sort((one, other) => one.line - other.line)).toEqual([
      { line: lineOf("hal@"), email: "hal@dump.example", reason: expect.stringContaining("no time") },
      { line: lineOf("nobody"), email: "Mary@Example.com", reason: `there is no account of the user ${idOf(99)}` },
      { line: lineOf("key_id"), email: null, reason: "the secret is not in base32: it may be encrypted" },
      { line: lineOf("cut\toff"), email: null, reason: "the row has 2 columns in place of 13" },
    ]);
    expect(await sql("select friendly_name from auth_private.factors order by friendly_name")).toEqual([
      { friendly_name: "" },
      { friendly_name: idOf(130) },
    ]);
  });

  test.each([
    ['INSERT INTO "auth"."users" ("id") VALUES\n', /^line 1\d is an INSERT: make the dump with COPY/],
    ["COPY auth.users (id, email) FROM stdin;\n", /^the dump ends within the rows of auth\.users: it is not complete/],
  ])("refuses a dump with %j", async (text, message) => {
    const { exitCode, stderr } = await importDump(dumpOf("").split("--\n-- PostgreSQL database dump c")[0]! + text);
    expect([exitCode, stderr]).toEqual([1, expect.stringMatching(message)]);
  });
});

describe("with uuid ids", () => {
  const { client, service } = useAuth("uuid");

  test("the ids of users stay, also in the database", async () => {
    await writeFile(file(), dumpOf(copy("users", [userRow(1, "ann")]), copy("mfa_factors", [factorRow(1)])));
    const outcome = await outcomeOf(user(["import", file()], { DATABASE_URL: service().database.url, JWT_SECRET }));
    expect(outcome).toEqual({ exitCode: 0, stdout: "1 users imported, 1 second factors\n", stderr: "" });
    const { rows } = await service().database.owner.query("select user_id, public_id from auth_private.accounts");
    expect(rows).toEqual([{ user_id: idOf(1), public_id: idOf(1) }]);
    const own = client();
    await own.auth.signInWithPassword({ email: "ann@dump.example", password: "U*U" });
    const factorId = `c${idOf(1).slice(1)}`;
    const verified = await own.auth.mfa.challengeAndVerify({ factorId, code: appCode(TOTP, Date.now()) });
    expect([verified.error, verified.data!.user.id]).toEqual([null, idOf(1)]);
  });
});
