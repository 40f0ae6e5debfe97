import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { chmod, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { type AddressInfo, connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { parseEnv, promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { outcomeOf } from "../../cli/command.ts";
import { findFreePort } from "../../db/cluster/embedded.ts";
import { init } from "../../parts/development/init/init.ts";
import { connected, DEBIAN_15, type ForeignServer, hasServer, startForeignServer } from "../modules/foreign-server.ts";
import { PROJECT } from "../support/command.ts";
import { linkPackages, makePackage, PACKAGE_LIMIT, PROGRAM } from "../support/package.ts";
import { sendTo } from "../support/resource-client.ts";
import { POLL } from "../support/until.ts";

const run = promisify(execFile);
const PASSWORD = "Correct-Horse-7!";
/** Of `U*U`. */
const HASH = "$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW";
const MANIFEST = JSON.parse(await readFile(join(PROJECT, "package.json"), "utf8"));
const EXISTING = join(PROJECT, "test/existing");

/** Each application: what init finds, what it chooses, and what is read afterwards, anonymously or by a new user. */
const APPLICATIONS = {
  shop: {
    files: ["applications/shop.sql"],
    found: [/^users +store\.customers, id bigint, email/m, /^roles +.*market_customer/m],
    settings: { MIGRATE: "on", AUTH_USER_ID: "bigint", SIGNUP: "off", DB_SCHEMAS: "store" },
    access: null,
    reads: "products?select=id&limit=1",
  },
  planner: {
    files: ["applications/planner.sql"],
    found: [/^users +no table with an e-mail and one key/m],
    settings: { MIGRATE: "on", AUTH_USER_ID: "uuid", DB_SCHEMAS: "planner,reports" },
    access: null,
    reads: "tenants?select=id&limit=1",
  },
  rental: {
    files: ["applications/rental.sql"],
    found: [/^users +public\.customer, customer_id integer, email/m, /^authenticated: .* the rights of all_anon$/m],
    settings: { MIGRATE: "on", AUTH_USER_ID: "integer", DB_SCHEMAS: "public,loyalty" },
    access: "| anon, ada, bob | granted | a row of defaults | granted | granted |",
    reads: "films?select=title&limit=1",
  },
  starter: {
    files: ["applications/starter.sql"],
    found: [
      /^users +no table with an e-mail and one key was found$/m,
      /^MODULES=auth,channels: without those that need graphile_worker, of something else$/m,
    ],
    settings: { MIGRATE: "on", MODULES: "auth,channels", AUTH_USER_ID: "uuid", DB_SCHEMAS: "app_public" },
    access: "## app_public.users: no rows",
    reads: "users?select=username&limit=1",
  },
  project: {
    files: ["applications/supabase.sql"],
    found: [
      /^roles +anon, authenticated, service_role \(bypasses policies\)/m,
      /^migrations +supabase_migrations\.schema_migrations, of another tool$/m,
      /^1\. Install/m,
      /^2\. In \.env, let DATABASE_URL name authenticator with its password, the login of PostgREST; JWT_SECRET is the secret of the project/m,
    ],
    settings: {
      MIGRATE: "off",
      DB_SCHEMAS: "public",
      DB_ANON_ROLE: "anon",
    },
    access: "| anonymous, authenticated | granted | granted | granted | granted |",
    reads: "rooms?select=name&limit=1",
  },
} as const;

const hasPostgis = existsSync("/usr/share/postgresql/15/extension/postgis.control");
if (!hasPostgis) console.warn("skipped: PostGIS, which is not installed: apt-get install postgresql-15-postgis-3");

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "init database "));
  await chmod(folder, 0o755);
});
afterAll(() => rm(folder, { recursive: true, maxRetries: 5 }));

describe.skipIf(!hasServer)("for a database that exists", () => {
  let server: ForeignServer;
  beforeAll(async () => {
    await makePackage();
    server = await startForeignServer();
  }, PACKAGE_LIMIT);
  afterAll(() => server?.cluster.remove());

  /** A database that belongs to a superuser. */
  async function make(name: string, sql: string): Promise<string> {
    const root = await connected(server.cluster.url("postgres"));
    await root.query(`create database ${name}`);
    await root.end();
    const owner = await connected(server.cluster.url(name));
    await owner.query(sql);
    await owner.end();
    return server.cluster.url(name);
  }

  /** The same with packages, as npm install would link them. */
  async function initialize(name: string, url: string, ...args: string[]) {
    const app = join(folder, name);
    const outcome = await outcomeOf(init(["--database", url, app, ...args]));
    await linkPackages(app);
    return { ...outcome, app };
  }

  const environment = {
    NODE_COMPILE_CACHE: join(PROJECT, "node_modules/.cache/compiled"),
    PATH: `${dirname(process.execPath)}:${process.env.PATH}`,
    NO_COLOR: "1",
  };
  const COMMAND = join("node_modules/content-service", PROGRAM);

  /** Calls back while the application is served, with the settings of its `.env`. */
  async function whileServed(app: string, work: (url: string, output: () => string) => Promise<void>): Promise<void> {
    const port = String(await findFreePort());
    const env = { ...environment, SETTINGS_FILE: ".env", PORT: port };
    const service = spawn(process.execPath, [COMMAND, "start"], { cwd: app, env, stdio: ["ignore", "pipe", "pipe"] });
    const exited = once(service, "exit");
    let output = "";
    for (const stream of [service.stdout, service.stderr])
      stream.on("data", (chunk) => {
        output += chunk;
      });
    const url = `http://127.0.0.1:${port}`;
    const isReady = () =>
      fetch(`${url}/ready`).then(
        ({ status }) => status,
        () => output,
      );
    try {
      await expect.poll(isReady, { ...POLL, timeout: 120_000 }).toBe(200);
      await work(url, () => output);
    } finally {
      service.kill();
      await exited;
    }
  }

  /** The access token of a user whom the command adds. */
  async function signIn(app: string, served: string): Promise<string> {
    const env = { ...environment, SETTINGS_FILE: ".env" };
    const created = run(process.execPath, [COMMAND, "user", "create", "Ada", "ada@example.com"], { cwd: app, env });
    created.child.stdin!.end(`${PASSWORD}\n`);
    await created;
    const login = await sendTo(served, "POST /auth/login", {
      body: { username: "ada@example.com", password: PASSWORD },
    });
    expect(login.status).toBe(200);
    return login.json.accessToken;
  }

  test.each(Object.entries(APPLICATIONS))("%s: init, test, start, and a first sign-in", async (name, application) => {
    const texts = await Promise.all(application.files.map((file) => readFile(join(EXISTING, file), "utf8")));
    // The server has a role shop_owner.
    const url = await make(name, texts.join("\n").replaceAll("shop_", "market_"));
    const before = await server.dump(name);
    const { exitCode, stdout, app } = await initialize(name, url);
    expect(exitCode).toBe(0);
    for (const line of application.found) expect(stdout).toMatch(line);
    expect(await server.dump(name)).toBe(before);

    const { devDependencies } = JSON.parse(await readFile(join(app, "package.json"), "utf8"));
    expect(devDependencies.vitest).toBe(MANIFEST.devDependencies.vitest);
    const config = await readFile(join(app, "content-service.config.ts"), "utf8");
    for (const [setting, value] of Object.entries(application.settings))
      expect(config).toContain(`${setting}: "${value}"`);
    expect((await stat(join(app, ".env"))).mode & 0o777).toBe(0o600);
    expect(parseEnv(await readFile(join(app, ".env"), "utf8"))).toEqual({
      DATABASE_URL: url,
      JWT_SECRET: name === "project" ? "super-secret-jwt-token-".repeat(3) : expect.stringMatching(/.{64}/),
    });
    const files = (await readdir(app, { recursive: true, withFileTypes: true })).filter(
      (file) => file.isFile() && file.name !== ".env",
    );
    for (const file of files) expect(await readFile(join(file.parentPath, file.name), "utf8")).not.toContain("scratch");

    if (application.access !== null) {
      const tested = await run(process.execPath, [COMMAND, "test"], { cwd: app, env: environment });
      expect(tested.stdout).toMatch(/Test Files +\d passed/);
      expect(await readFile(join(app, "test/access.md"), "utf8")).toContain(application.access);
    }

    await whileServed(app, async (served) => {
      const isOff = application.settings.MIGRATE === "off";
      let headers: Record<string, string> = {};
      if (!isOff) {
        const accessToken = await signIn(app, served);
        const key = await sendTo(served, "POST /auth/keys", {
          body: { name: "reads" },
          headers: { authorization: `Bearer ${accessToken}` },
        });
        headers = { apikey: key.json.key };
      }
      const { status, json } = await sendTo(served, `GET /rest/v1/${application.reads}`, { headers });
      expect([status, json]).toEqual([200, expect.any(Array)]);
      if (name !== "planner") expect(json.length).toBeGreaterThan(0);
    });
  });

  test.skipIf(!hasPostgis)(
    "with PostGIS, geometries are GeoJSON, and nothing is said about its own views",
    async () => {
      const url = await make(
        "city",
        `create extension postgis;
      create table users (id uuid primary key default gen_random_uuid(), email text not null unique, name text);
      create table places (id int primary key, name text, spot geometry(Point, 4326), area geography(Polygon));
      create index on places using gist (spot);
      insert into places values (1, 'Oslo', 'SRID=4326;POINT(10.75 59.91)', 'POLYGON((10 59, 11 59, 11 60, 10 59))');
      create role city_user; grant usage on schema public to city_user; grant select, insert, update on places to city_user;`,
      );
      const { exitCode, stdout, app } = await initialize("city", url);
      expect(exitCode).toBe(0);
      expect(stdout).toMatch(/^tables +public \(2\)\nviews +none$/m);
      expect(stdout).toMatch(/^extensions +postgis in public$/m);
      const env = { ...environment, TEST_POSTGRES: DEBIAN_15 };
      const tested = await run(process.execPath, [COMMAND, "test"], { cwd: app, env });
      expect(tested.stdout).toMatch(/Test Files +\d passed/);
      await whileServed(app, async (served, output) => {
        const token = await signIn(app, served);
        const headers = { authorization: `Bearer ${token}` };
        const key = await sendTo(served, "POST /auth/keys", { body: { name: "reads" }, headers });
        const asKey = { apikey: key.json.key };
        const point = { type: "Point", coordinates: [10.75, 59.91] };
        const { json: rows } = await sendTo(served, "GET /rest/v1/places", { headers: asKey });
        expect(rows).toMatchObject([{ id: 1, name: "Oslo", spot: point, area: expect.stringMatching(/^0103/) }]);
        const document = await sendTo(served, "GET /rest/v1/openapi.json", { headers: asKey });
        expect(document.json.components.schemas.places.properties).toMatchObject({
          spot: { type: ["object", "null"] },
          area: { type: ["string", "null"] },
        });
        const created = await sendTo(served, "POST /rest/v1/places?select=spot", {
          body: { id: 2, spot: point },
          headers: { ...asKey, prefer: "return=representation" },
        });
        expect([created.status, created.json]).toMatchObject([201, [{ spot: point }]]);
        const collection = await sendTo(served, "GET /rest/v1/places?id=eq.1", {
          headers: { ...asKey, accept: "application/geo+json" },
        });
        expect(collection.json).toMatchObject({ type: "FeatureCollection", features: [{ geometry: point }] });
        const query = "{ places { edges { node { id name } } } __schema { queryType { fields { name } } } }";
        const { json } = await sendTo(served, "POST /graphql", { body: { query }, headers: asKey });
        expect([json.errors, json.data?.places.edges[0]]).toEqual([undefined, { node: { id: "1", name: "Oslo" } }]);
        expect(output()).not.toMatch(
          /geometry_columns|geography_columns|spatial_ref_sys|GraphQL has no type for integer/,
        );
      });
    },
    240_000,
  );

  test("an owner who lacks rights gets the SQL that a superuser runs, and the service then starts", async () => {
    const root = await connected(server.cluster.url("postgres"));
    await root.query("create role small login password 'small'");
    await root.query("create database small owner small");
    const url = Object.assign(new URL(server.cluster.url("small")), { username: "small", password: "small" }).href;
    const owner = await connected(url);
    await root.query("create role small_user");
    await owner.query(`create table users (id uuid primary key default gen_random_uuid(), email text not null unique, name text,
        password_digest text, is_active boolean not null default true, email_verified_at timestamptz);
      insert into users (email, is_active, email_verified_at) values ('eva@example.com', false, null), ('ivo@example.com', true, '2020-01-01');
      grant select on users to small_user`);
    await owner.end();
    const { stdout, app } = await initialize("small", url);
    expect(stdout).toMatch(/^login +small, may not create roles, may create schemas$/m);
    const [, statements] = /As a superuser of the server, run:\n((?: {5}.*\n)+)/.exec(stdout)!;
    await root.query(statements!);
    await root.end();
    await whileServed(app, async (served) => {
      const body = { name: "Eve", email: "eve@example.com", password: PASSWORD };
      expect((await sendTo(served, "POST /auth/register", { body })).status).toBe(403);
      const accessToken = await signIn(app, served);
      const headers = { authorization: `Bearer ${accessToken}` };
      const moved = await sendTo(served, "POST /auth/email", { body: { email: "moved@example.com" }, headers });
      expect(moved.status).toBe(200);
    });
    const moved = await connected(url);
    expect((await moved.query("select email from users where name = 'Ada'")).rows).toEqual([
      { email: "moved@example.com" },
    ]);
    for (const file of ["db/accounts.sql", "db/later-accounts.sql"])
      await moved.query(await readFile(join(app, file), "utf8"));
    await moved.query(`update users set is_active = not is_active where name is null;
      insert into users (email, name, is_active) values ('oda@example.com', 'Oda', true), ('ute@example.com', 'Ute', false)`);
    await moved.query(`select public.new_user('{"email": "udo@example.com", "name": "Udo"}')`);
    await moved.end();
    const reader = await connected(server.cluster.url("small"));
    const accounts =
      await reader.query(`select name, disabled_at is not null as disabled, email_confirmed_at is not null as confirmed
      from auth_private.accounts order by name`);
    expect(accounts.rows.map((row) => Object.values(row))).toEqual([
      ["Ada", false, false],
      ["Oda", false, false],
      ["Udo", false, false],
      ["Ute", true, false],
      ["eva@example.com", false, false],
      ["ivo@example.com", true, true],
    ]);
    await reader.end();
  });

  test("no row stops the accounts, an INSERT or an UPDATE: without a hash there is no password, without a usable e-mail no account, and names follow", async () => {
    const ODD = `('', 'none@example.com', ''), ('  ', 'blank@example.com', 'invited'), (repeat('x', 300), 'long@example.com', null),
      ('No e-mail', null, '${HASH}'), ('Bad e-mail', 'nowhere', '${HASH}'), ('Ivo', 'ivo@example.com', '${HASH}')`;
    const url = await make(
      "odd",
      `create table users (id integer primary key generated always as identity, full_name text, email text unique, bcrypt text);
      create role odd_user; grant select on users to odd_user;
      insert into users (full_name, email, bcrypt) values ${ODD}, ('Twin', 'IVO@example.com', '!')`,
    );
    const { app } = await initialize("odd", url);
    await whileServed(app, async () => {});
    const owner = await connected(url);
    const warnings: (string | undefined)[] = [];
    owner.on("notice", ({ severity, message, detail, hint }) => {
      if (severity === "WARNING") warnings.push(message, detail, hint);
    });
    for (const file of ["accounts.sql", "later-accounts.sql"])
      await owner.query(await readFile(join(app, "db", file), "utf8"));
    await owner.query(`insert into users (full_name, email, bcrypt)
      select full_name, 'later.' || email, bcrypt from users order by id`);
    const accounts = async () =>
      (
        await owner.query(`select user_id as id, left(a.name, 20) as name, a.password_hash from auth_private.accounts as a
        order by user_id`)
      ).rows.map((row) => Object.values(row));
    const made = [
      [1, "none@example.com", null],
      [2, "blank@example.com", null],
      [3, "x".repeat(20), null],
      [6, "Ivo", HASH],
      [8, "later.none@example.c", null],
      [9, "later.blank@example.", null],
      [10, "x".repeat(20), null],
      [13, "Ivo", HASH],
    ];
    expect(await accounts()).toEqual(made);
    const reasons = (first: number) => [
      `user ${first + 4} has no account: email must be a valid address`,
      `user ${first + 6} has no account: email already registered`,
    ];
    expect(warnings.filter((text) => text !== undefined)).toEqual([...reasons(1), ...reasons(8)]);
    await owner.query("update users set email = 'somewhere@example.com' where id = 5");
    expect(await accounts()).toContainEqual([5, "Bad e-mail", HASH]);

    await owner.query(`update users set email = 'nowhere' where id = 6; update users set bcrypt = '!' where id = 13;
      update users set bcrypt = '${HASH}' where id = 1`);
    expect(await accounts()).toEqual(
      expect.arrayContaining([
        [6, "Ivo", HASH],
        [13, "Ivo", null],
        [1, "none@example.com", HASH],
      ]),
    );
    expect(warnings).toContain("user 6 signs in with the previous e-mail: the new one is malformed, missing or taken");

    await owner.query(`update users set full_name = repeat('y', 300) where id = 1; update users set full_name = 'Ivana' where id = 6;
      update users set full_name = ' ' where id = 13`);
    expect((await accounts()).filter(([id]) => [1, 6, 13].includes(id as number))).toEqual([
      [1, "y".repeat(20), HASH],
      [6, "Ivana", HASH],
      [13, "Ivo", null],
    ]);
    await owner.end();
  });

  test("which role signed-in users have is a question if no name says it, and no role gets more rights", async () => {
    const sql = `create role bee_guest; create role bee_keeper; create role "Bee_Inspector"; create role bee_boss bypassrls;
      create table hives (id integer primary key); grant select on hives to bee_guest, bee_keeper, "Bee_Inspector", bee_boss;`;
    const { stdout, app } = await initialize("apiary", await make("apiary", sql));
    expect(stdout).toMatch(
      /^3\. Read db\/schema\/sign-in\.sql: it needs an answer \(the role of signed-in users: "Bee_Inspector" or bee_keeper\)/m,
    );
    const text = await readFile(join(app, "db/schema/sign-in.sql"), "utf8");
    expect(text.match(/^(-- +)?grant .*/gm)).toEqual([
      "grant bee_guest to anon;",
      '--   grant "Bee_Inspector" to authenticated;',
      "--   grant bee_keeper to authenticated;",
    ]);
    expect(text).toContain("-- No account has a role that bypasses policies (bee_boss).");
    // Signed-in users may not read the example yet.
    expect(await readFile(join(app, "resources/hives.ts"), "utf8")).toContain('table: "public.hives"');
    expect(await readFile(join(app, "test/sign-in.test.ts"), "utf8")).not.toContain("/hives");
    const { stdout: known, app: townApp } = await initialize(
      "town",
      await make(
        "town",
        "create table t (id int primary key); create view v as select id from t; grant select on t to bee_guest",
      ),
    );
    expect(known).toMatch(/^tables +public \(1\)\nviews +public \(1\)$/m);
    expect(known).toMatch(/^no access +public\.v$/m);
    // The role of anonymous callers is the only one: without it, signed-in users could do less than they.
    expect(known).toMatch(/^authenticated: signed-in users have the rights of bee_guest$/m);
    expect(await readFile(join(townApp, "db/schema/sign-in.sql"), "utf8")).toMatch(
      /^grant bee_guest to authenticated;\ngrant bee_guest to anon;\n$/m,
    );
    expect(known).not.toContain("Grant signed-in users rights");
    expect(known).toMatch(/ The login is a superuser, and the service needs only the owner of the database\./);
    expect(known).toMatch(/ \.env names the database town\. npm run dev installs .* make a copy, as [a-z]+, and name/);
    expect(known).toMatch(/^ +createdb --template=town town_dev$/m);
  });

  test("a table with hashes of passwords is that of users, whatever its name; the first schema has the most tables; … stands for an answer", async () => {
    const { stdout, app } = await initialize(
      "mill",
      await make(
        "mill",
        // Roles of other tests may say that they serve public.
        `drop schema public; create schema archive; create table archive.deliveries (id int primary key);
        create schema plant; create table plant.mills (id int primary key);
        create table plant.staff (id bigint primary key generated always as identity, login_email text, pass_hash char(60) not null, mill int not null);
        create table plant.customers (id bigint primary key, email text);`,
      ),
    );
    expect(stdout).toMatch(/^users +plant\.staff, id bigint, login_email, pass_hash$/m);
    expect(stdout).toMatch(/^DB_SCHEMAS=plant,archive: /m);
    expect(stdout).toMatch(/^3\. Read db\/schema\/sign-in\.sql: it needs an answer \(mill of a new user\)/m);
    const text = await readFile(join(app, "db/schema/sign-in.sql"), "utf8");
    expect(text).toContain(`
--     values (
--       fields ->> 'email',
--       'no password',
--       -- mill
--       …::integer
--     )`);
    expect(await readFile(join(app, "db/accounts.sql"), "utf8")).toContain("password_hash => u.pass_hash)");
  });

  test("a login that owns nothing serves the database as it is, with the roles that it may become", async () => {
    const sql = `create role lib_reader; create role lib_web; create role lib_api login noinherit password 'api'; grant lib_web to lib_api;
      create table books (id integer primary key); insert into books values (1); grant select on books to lib_web;`;
    const url = Object.assign(new URL(await make("library", sql)), { username: "lib_api", password: "api" }).href;
    const { stdout, app } = await initialize("library", url);
    expect(stdout).toContain(
      "MIGRATE=off: the service creates nothing, and serves the database as it is, because lib_api owns no table here",
    );
    expect(stdout).not.toContain("superuser");
    // The owner may read the structure, and this login may not.
    expect(stdout).toMatch(/tests begin with \(.*permission denied for table books/);
    await whileServed(app, async (served) =>
      expect((await sendTo(served, "GET /rest/v1/books", {})).json).toEqual([{ id: 1 }]),
    );
  });

  test("beside a schema auth of something else, the database is served as it is, by a login that may not change it", async () => {
    const sql = `create schema auth; create role wiki_reader; create table pages (id int primary key);
      grant select on pages to wiki_reader`;
    const { stdout, app } = await initialize("wiki", await make("wiki", sql));
    expect(stdout).toMatch(/^schema auth +auth: of something else$/m);
    expect(stdout).toMatch(/^ +create role content_api login noinherit password '…';$/m);
    expect(await readFile(join(app, "content-service.config.ts"), "utf8")).toContain('MIGRATE: "off"');
  });

  test("beside the migrations of another tool, only the modules are installed", async () => {
    const url = await make(
      "rails",
      "create table schema_migrations (version text primary key); create table posts (id bigint primary key)",
    );
    const { stdout, app } = await initialize("rails", url);
    expect(stdout).toContain(
      "MIGRATE=modules: a start installs the modules of the service in schemas of their own, because public.schema_migrations is of another tool",
    );
    expect(stdout).toMatch(
      /^4\. Grant signed-in users rights on your tables, as the end of db\/schema\/sign-in\.sql shows/m,
    );
    expect(await readFile(join(app, "README.md"), "utf8")).toContain("Another tool migrates the tables.");
  });

  test("existing files stay, unless --force replaces them; the secret stays in any case", async () => {
    const url = await make("kept", "");
    const { app } = await initialize("kept", url);
    const env = await readFile(join(app, ".env"), "utf8");
    expect(env).toMatch(
      /^# The database that init has read\. npm run dev installs .*\n# If others use it, make a copy .*\nDATABASE_URL=/,
    );
    await writeFile(join(app, "README.md"), "mine");
    expect(await outcomeOf(init(["--database", url, app]))).toMatchObject({
      exitCode: 1,
      stderr: expect.stringMatching(/has these files already, and nothing was written: content-service\.config\.ts, /),
    });
    expect(await readFile(join(app, "README.md"), "utf8")).toBe("mine");
    expect((await outcomeOf(init(["--database", url, app, "--force"]))).exitCode).toBe(0);
    expect(await readFile(join(app, "README.md"), "utf8")).toContain("# Content Service for the database kept");
    expect(await readFile(join(app, ".env"), "utf8")).toBe(env);
  });

  test("what is wrong with the URL or the rights is one sentence with the cure", async () => {
    const url = await make("faults", "create role nobody_here login password 'x'; create table t (id integer)");
    const failed = async (change: Partial<URL> | string) => {
      const changed = typeof change === "string" ? change : Object.assign(new URL(url), change).href;
      const { exitCode, stderr } = await outcomeOf(init(["--database", changed, join(folder, "faults")]));
      expect(stderr).not.toContain("scratch");
      return [exitCode, stderr.trim()];
    };
    const free = String(await findFreePort());
    expect(await failed({ port: free })).toEqual([
      1,
      `no PostgreSQL answers at 127.0.0.1:${free} (connect ECONNREFUSED 127.0.0.1:${free}): start the server, or correct host and port in the URL`,
    ]);
    expect(await failed({ password: "wrong" })).toEqual([
      1,
      expect.stringMatching(/^127\.0\.0\.1:\d+ refuses the password of postgres: correct it in the URL/),
    ]);
    expect(await failed({ pathname: "/none" })).toEqual([
      1,
      expect.stringMatching(/^there is no database none at 127/),
    ]);
    expect(await failed({ username: "nobody_here", password: "x" })).toEqual([
      1,
      "nobody_here owns no table in faults and is a member of no role: use the URL of the owner, or grant it the roles of your callers",
    ]);
    expect(await failed("mysql://localhost/faults")).toEqual([
      2,
      expect.stringMatching(/^--database must look like postgres:\/\//),
    ]);
  });

  test("a server that is too old is named with its version", async () => {
    const url = new URL(server.cluster.url("postgres"));
    // The version is in the answer to `show server_version`, and as long as that of an older one.
    const proxy = createServer((socket) => {
      const upstream = connect(Number(url.port), url.hostname);
      socket.pipe(upstream);
      upstream.on("data", (chunk: Buffer) =>
        socket.write(Buffer.from(chunk.toString("latin1").replaceAll("15.", "14."), "latin1")),
      );
      socket.on("error", () => {}).on("close", () => upstream.destroy());
      upstream.on("error", () => {}).on("close", () => socket.destroy());
    }).listen(0, "127.0.0.1");
    await once(proxy, "listening");
    const port = String((proxy.address() as AddressInfo).port);
    const old = Object.assign(new URL(url), { port }).href;
    expect(await outcomeOf(init(["--database", old, join(folder, "old")]))).toMatchObject({
      exitCode: 1,
      stderr: expect.stringMatching(
        /^PostgreSQL 14\.\d+.* is too old: 15 or later is required; upgrade the server first\n$/,
      ),
    });
    proxy.close();
  });
});
