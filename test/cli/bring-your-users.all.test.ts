import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { JWT_SECRET, startTestService, type TestService } from "../support/service.ts";

const run = promisify(execFile);
const COMMAND = `${process.execPath} ${join(process.cwd(), "cli/content-service.ts")}`;

/** The other system: one user in each table, with a published test vector (password-hashes.test.ts). */
const OLD = `
  create table users (email text, name text, encrypted_password text, confirmed_at timestamp, created_at timestamp);
  insert into users values ('rails@import.example', 'Rails', '$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW',
    '2021-01-01', '2021-01-01 12:00');
  create table auth_user (username text, email text, first_name text, last_name text, password text, is_superuser boolean,
    is_active boolean, date_joined timestamptz);
  insert into auth_user values ('django', 'django@import.example', '', '',
    'pbkdf2_sha256$100000$seasalt2$Tl4GMr+Yt1zzO1sbKoUaDBdds5NkR3RxaDWuQsliFrI=', false, true, '2021-01-01');
  create table "AspNetUsers" ("Email" text, "UserName" text, "PasswordHash" text, "EmailConfirmed" boolean);
  insert into "AspNetUsers" values ('aspnet@import.example', 'aspnet@import.example',
    'AQAAAAIAAYagAAAAEAABAgMEBQYHCAkKCwwNDg/Q8A0WMKbtHQJQ2DHCdoEeeFBrgNlldq6vH4qX/CGqGQ==', true)`;

/** What pg_dump writes, whose version must be that of the old server. */
const DUMP = `--
COPY auth.users (id, email, encrypted_password, raw_user_meta_data, created_at) FROM stdin;
a0000000-0000-4000-8000-000000000001\tsupabase@import.example\t$2a$05$CCCCCCCCCCCCCCCCCCCCC.VGOzA784oUp/Z0DY336zx7pLYAy0lwK\t{"name": "Supabase"}\t2021-01-01 00:00:00+00
\\.
`;

const FIREBASE = {
  users: [
    {
      localId: "a1",
      email: "firebase@import.example",
      emailVerified: true,
      passwordHash: "lSrfV15cpx95/sZS2W9c9Kp6i/LVgQNDNC/qzrCnh1SAyZvqmZqAjTdn3aoItz+VHjoZilo78198JAdRuid5lQ==",
      salt: "42xEC+ixf3L2lw==",
      createdAt: "1620284889000",
    },
  ],
};
const FIREBASE_SIGNER_KEY = "jxspr8Ki0RYycVU8zykbdLGjFQ3McFUH0uiiTvC8pVMXAn210wjLNmdZJzxUECKbm0QsEmYUSDzZvpjeJ9WmXA==";

const PASSWORDS = {
  "rails@import.example": "U*U",
  "django@import.example": "lètmein",
  "aspnet@import.example": "my password",
  "firebase@import.example": "user1password",
  "supabase@import.example": "U*U*",
  "member@import.example": "U*U",
};

let service: TestService;
let old: TestDatabase;
let folder: string;
beforeAll(async () => {
  service = await startTestService({ GRAPHQL_DOCUMENTS: "none" });
  old = await createTestDatabase(undefined, "template1");
  await old.owner.query(OLD);
  folder = await mkdtemp(join(tmpdir(), "content-service-bring-"));
});
afterAll(async () => {
  await rm(folder, { recursive: true, force: true });
  await service.stop();
  await old.drop();
});

test("the examples of docs/existing-database.md import users, who sign in with their passwords", async () => {
  await writeFile(join(folder, "firebase.json"), JSON.stringify(FIREBASE));
  await writeFile(join(folder, "dump.sql"), DUMP);
  await writeFile(join(folder, "pg_dump"), "#!/bin/sh\ncat dump.sql\n", { mode: 0o700 });
  const { owner } = service.database;
  await owner.query(`create table public.members as
    select id, name, email, '$2b$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW' as password_digest, true as is_active,
      now() as email_verified_at from public.users limit 0;
    with added as (insert into public.users (name, email)
      values ('Member', 'member@import.example'), ('Former', 'former@import.example') returning *)
    insert into public.members
    select id, name, email, '$2b$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW', name = 'Member',
      case name when 'Member' then now() end from added`);
  const env = {
    PATH: `${folder}:${process.env.PATH}`,
    OLD_DATABASE: old.url,
    DATABASE_URL: service.database.url,
    JWT_SECRET,
    FIREBASE_SIGNER_KEY,
    APPLICATION: join(process.cwd(), "demo"),
  };
  const page = await readFile("docs/existing-database.md", "utf8");
  const [, text] = page.split("## Bring your users\n");
  const blocks = [...text!.matchAll(/^```(sh|js|sql)\n([\s\S]*?)^```$/gm)].slice(1);
  let output = "";
  for (const [, language, code] of blocks) {
    if (language === "sql") await owner.query(code!);
    else if (language === "js") {
      await writeFile(join(folder, "firebase.mjs"), code!);
      await run(process.execPath, ["firebase.mjs"], { cwd: folder, env });
    } else {
      const script = code!.replaceAll("npx content-service", COMMAND);
      output += (await run("bash", ["-euc", script], { cwd: folder, env })).stdout;
    }
  }
  expect(output).toBe("1 users imported\n".repeat(5));

  const signIn = (username: string, password: string) =>
    fetch(`${service.url}/auth/login`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ username, password }),
    });
  for (const [username, password] of Object.entries(PASSWORDS))
    expect([username, (await signIn(username, password)).status]).toEqual([username, 200]);
  expect((await signIn("former@import.example", "U*U")).ok).toBe(false);
});

test("docs/existing-database.md lists the parameters of auth.add_account", async () => {
  const { rows } = await service.database.owner.query(`
    select a.name, format_type(a.type, null) as type, a.place <= p.pronargs - p.pronargdefaults as "isRequired"
    from pg_proc as p, unnest(p.proargnames, p.proargtypes::oid[]) with ordinality as a (name, type, place)
    where p.oid = 'auth.add_account'::regproc order by a.place`);
  const text = await readFile("docs/existing-database.md", "utf8");
  const [, table] = /^\| Parameter \| Type [^\n]*\n([\s\S]*?)\n\n/m.exec(text)!;
  const listed = table!
    .split("\n")
    .slice(1)
    .flatMap((line) => {
      const [, names, type, meaning] = line.split("|").map((cell) => cell.trim());
      return [...names!.matchAll(/`(\w+)`/g)].map(([, name]) => ({
        name,
        type: type!.replaceAll("`", ""),
        isRequired: meaning!.startsWith("required"),
      }));
    });
  expect(listed).toEqual(rows);
});
