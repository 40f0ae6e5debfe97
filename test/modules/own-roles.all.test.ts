import { readFileSync } from "node:fs";
import { mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { NO_APPLICATION } from "../../app/load.ts";
import { user } from "../../cli/user.ts";
import { sendTo } from "../support/resource-client.ts";
import { startTestService, type TestService } from "../support/service.ts";
import { TokenIssuer } from "../support/token-issuer.ts";
import { POLL } from "../support/until.ts";
import { connected, EMBEDDED, type ForeignServer, startForeignServer } from "./foreign-server.ts";

const PASSWORD = "Correct-Horse-7!";
const SECRET = "a secret of thirty-two bytes or more";
const PAGE = readFileSync("docs/database-application.md", "utf8");
const [, SECTION] = PAGE.split("## Roles of your own, such as support\n");
const [ROLE, PROGRAMS, ADMINISTRATORS, ISSUER, CLAIM, TABLE] = [...SECTION!.matchAll(/```sql\n(.*?)```/gs)].map(
  ([, sql]) => sql!,
);
const [, ISSUERS] = /```json\n(.*?)```/s.exec(SECTION!)!;

/** The members of docs/database-application.md, with the rights of its step 3. */
const GYM = `
  create table public.members (id uuid primary key default gen_random_uuid(), email text not null unique, full_name text);
  create table public.bookings (id bigint generated always as identity primary key, member_id uuid not null references members, class text);
  insert into members (email) values ('ann@gym.example'), ('bea@gym.example'), ('cem@gym.example');
  insert into bookings (member_id, class) select id, email from members where email < 'c'`;
const RIGHTS = `
  select auth.use_users('public.members');
  grant usage on schema public to authenticated, auth_owner;
  alter table public.bookings enable row level security;
  grant select on public.bookings to authenticated;
  create policy "members see their own" on public.bookings to authenticated using (member_id = (select auth.uid()))`;

describe("docs/database-application.md: roles of your own", () => {
  let server: ForeignServer;
  let issuer: TokenIssuer;
  let service: TestService;
  let environment: Record<string, string>;
  beforeAll(async () => {
    [server, issuer] = await Promise.all([startForeignServer(undefined, EMBEDDED), TokenIssuer.start()]);
    const database = await server.makeDatabase("gym", GYM);
    const file = join(await mkdtemp(join(tmpdir(), "issuers-")), "issuers.json");
    await writeFile(file, ISSUERS!.replace("https://id.gym.example", issuer.url));
    const settings = { MIGRATE: "modules", MODULES: "auth", API_KEY_REQUIRED: "off", JWT_SECRET: SECRET };
    const more = { JWT_ISSUERS: file, AUTH_PROVIDERS_NETWORKS: "loopback" };
    service = await startTestService({ ...settings, ...more }, database, undefined, undefined, {
      definition: NO_APPLICATION,
    });
    await database.owner.query(RIGHTS);
    environment = { ...settings, DATABASE_URL: database.url };
    await database.owner.query("select auth.add_account(id, email, email) from members");
    for (const name of ["ann", "bea", "cem"])
      await user(["password", `${name}@gym.example`], environment, () => Readable.from([PASSWORD]));
    await user(["role", "cem@gym.example", "admin"], environment);
    const root = await connected(server.cluster.url("gym"));
    await root.query(ROLE!.replace("gym_owner", "shop_owner"));
    await root.end();
    await database.owner.query(PROGRAMS! + ISSUER!);
  });
  afterAll(async () => {
    await service?.stop();
    issuer?.close();
    await server?.cluster.remove();
  });

  const classes = async (token: string) => {
    const headers = { authorization: `Bearer ${token}` };
    const { json } = await sendTo(service.url, "GET /rest/v1/bookings?select=class&order=class", { headers });
    return Array.isArray(json) ? json.map((row) => row.class) : json.code;
  };
  const signIn = async (name: string) => {
    const body = { username: `${name}@gym.example`, password: PASSWORD };
    return (await sendTo(service.url, "POST /auth/login", { body })).json.accessToken as string;
  };
  const ALL = ["ann@gym.example", "bea@gym.example"];
  const given = async (sql: string) => {
    await service.database.owner.query(sql);
    await service.database.owner.query("notify pgrst, 'reload schema'");
  };

  test("the service key reads what the role may read", async () => {
    await expect.poll(() => classes(service.service.tokens.issueKey("service_role")), POLL).toEqual(ALL);
  });

  test("a token of the own issuer has the role itself, and no other one that is not in the file", async () => {
    const token = (role: string) => issuer.token({ aud: "gym", role });
    await expect.poll(() => classes(token("gym_support")), POLL).toEqual(ALL);
    expect(await classes(token("authenticated"))).toMatch(/^PGRST30/);
  });

  test("an administrator sees all rows with the grant and the policy for the role", async () => {
    const token = await signIn("cem");
    expect(await classes(token)).toEqual([]);
    await given(ADMINISTRATORS!);
    await expect.poll(() => classes(token), POLL).toEqual(ALL);
    expect(await classes(await signIn("ann"))).toEqual(["ann@gym.example"]);
  });

  test("a user in the table of the staff sees all rows after the next sign-in", async () => {
    await given(CLAIM!);
    expect(await classes(await signIn("bea"))).toEqual(["bea@gym.example"]);
    await given("insert into public.support_staff select id from members where email like 'bea%'");
    const token = await signIn("bea");
    expect(await classes(token)).toEqual(ALL);
    expect(await classes(await signIn("ann"))).toEqual(["ann@gym.example"]);
    // As the migration of a changed file runs it.
    await given(CLAIM!);
    await given("delete from public.support_staff");
    expect(await classes(token)).toEqual(ALL);
    await user(["sign-out", "bea@gym.example"], environment);
    await expect.poll(() => classes(token), POLL).toMatch(/^PGRST30/);
    expect(await classes(await signIn("bea"))).toEqual(["bea@gym.example"]);
  });

  test("with a policy that reads the table, a change of the table counts at once", async () => {
    const token = await signIn("bea");
    await given(TABLE!);
    await given("insert into public.support_staff select id from members where email like 'bea%'");
    await expect.poll(() => classes(token), POLL).toEqual(ALL);
    await given("delete from public.support_staff");
    expect(await classes(token)).toEqual(["bea@gym.example"]);
  });
});
