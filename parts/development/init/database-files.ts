import { readFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { calculateHash } from "graphile-migrate/dist/hash.js";
import { DUMP_ARGUMENTS } from "../../../cli/base.ts";
import { rolesOfCallers } from "../existing/preparation.ts";
import { FIXTURES, manifestFor, type NewFile } from "../new-files.ts";
import { NAME } from "./account-columns.ts";
import { accountsFor, LATER } from "./database-accounts.ts";
import { type ResourceFile, resourcesFor } from "./database-resource.ts";
import { seedFor } from "./database-seed.ts";
import { DUMP_WITHOUT_SERVICE, writeRoles, writeSettings } from "./dump.ts";
import type { Plan } from "./plan.ts";

const TEMPLATE = fileURLToPath(new URL("../../../template/", import.meta.url));
const VITEST = "5.1.0";

type Options = {
  readonly folder: string;
  /** The text of `.env`. */
  readonly environment: string;
  /** Whether files that exist are replaced. */
  readonly replaces: boolean;
};

/** The files of an application for a database. */
export async function filesFor(plan: Plan, { folder, environment, replaces }: Options): Promise<readonly NewFile[]> {
  const { survey, dump, choice } = plan;
  const template = (file: string) => readFile(join(TEMPLATE, file), "utf8");
  const resources = resourcesFor(plan);
  const seed = seedFor(plan);
  const accounts = accountsFor(plan);
  const manifest = await manifestFor(folder, await template("package.template.json"), {
    replaces,
    scripts: { test: "content-service test" },
    devDependencies: { vitest: VITEST },
  });
  return [
    { file: "content-service.config.ts", text: configuration(plan, resources) },
    manifest,
    { file: "tsconfig.json", text: await template("tsconfig.json") },
    { file: "vitest.config.ts", text: VITEST_CONFIG },
    { file: ".env", text: environment, isSecret: true },
    { file: ".env.example", text: await template("env.example") },
    { file: ".gitignore", text: await template("gitignore") },
    { file: ".npmrc", text: await template("npmrc") },
    { file: "pnpm-workspace.yaml", text: await template("pnpm-workspace.yaml") },
    { file: "README.md", text: readme(plan) },
    ...resources.map(({ name, text }) => ({ file: `resources/${name}.ts`, text })),
    { file: "db/base/roles.sql", text: writeRoles(survey.roles) },
    ...(survey.settings.length > 0 ? [{ file: "db/base/settings.sql", text: writeSettings(survey.settings) }] : []),
    ...("text" in dump ? [{ file: "db/base/schema.sql", text: dump.text }] : []),
    ...(choice.migrate === "off" ? [] : migrations(plan.signIn.text)),
    ...(accounts === null
      ? []
      : [
          { file: "db/accounts.sql", text: accounts.existing },
          { file: `db/${LATER}`, text: accounts.later },
        ]),
    ...(seed === null ? [] : [{ file: "db/seed.sql", text: seed }]),
    { file: "test/access.test.ts", text: choice.migrate === "off" ? accessAsIs(plan) : access(seed !== null) },
    ...(choice.migrate === "off" ? [] : [{ file: "test/sign-in.test.ts", text: signInTest(plan, resources) }]),
  ];
}

function configuration({ choice }: Plan, resources: readonly ResourceFile[]): string {
  const { migrate, modules, schemas, roles, userId } = choice;
  const settings: Readonly<Record<string, string>> = {
    MIGRATE: migrate,
    ...(migrate === "off" ? {} : { MODULES: modules.join(), AUTH_USER_ID: userId, SIGNUP: "off" }),
    DB_SCHEMAS: schemas.join(","),
    ...(migrate === "off" ? { DB_ANON_ROLE: roles.anonymous?.name ?? "none", API_KEY_REQUIRED: "off" } : {}),
  };
  const lines = Object.entries(settings).map(
    ([name, value]) => `${name === "SIGNUP" ? ABOUT_SIGNUP : ""}    ${name}: ${JSON.stringify(value)},\n`,
  );
  const imports = resources.map(({ name, variable }) => `import { ${variable} } from "./resources/${name}.ts";\n`);
  return `\
import { defineConfig } from "content-service";
${imports.join("")}
export default defineConfig({
  settings: {
${lines.join("")}  },
  resources: [${resources.map(({ variable }) => variable).join(", ")}],
});
`;
}

const ABOUT_SIGNUP = `\
    // Only administrators, the service key and "npx content-service user" add users. "open" lets everyone sign up, which inserts rows into
    // your table of users. "invite" lets those sign up who have an invitation.
`;

/** The first migration is committed: a start runs it. */
function migrations(signIn: string): readonly NewFile[] {
  return [
    { file: "db/schema/schema.sql", text: SCHEMA },
    { file: "db/schema/sign-in.sql", text: signIn },
    ...committed([{ file: "sign-in.sql", text: signIn }]),
    { file: "db/migrations/current.sql", text: CURRENT },
    FIXTURES,
  ];
}

/** The committed migrations of an application, each of which includes one of these files of `db/schema/`. */
export function committed(included: readonly { readonly file: string; readonly text: string }[]): readonly NewFile[] {
  let previous: string | null = null;
  return included.map(({ file, text }, i) => {
    const name = basename(file, ".sql").replace(/[^\w-]+/g, "-");
    const body = `--! Included ${file}\n${text.trim()}\n--! EndIncluded ${file}`;
    const hash = calculateHash(body, previous);
    const header = `--! Previous: ${previous ?? "-"}\n--! Hash: ${hash}\n--! Message: ${name}`;
    previous = hash;
    const path = `db/migrations/committed/${String(i + 1).padStart(6, "0")}-${name}.sql`;
    return { file: path, text: `${header}\n\n${body}\n` };
  });
}

const SCHEMA = `\
-- What the migrations of this application have made, in order of creation. db/base has what was there before.
--!include sign-in.sql
`;
const CURRENT = `\
-- Change tables here, with statements that may run twice, and include the files of db/schema/ that changed:
--   --!include sign-in.sql
`;
const VITEST_CONFIG = `\
import { defineConfig } from "vitest/config";

// The first requests of a service load code, which takes seconds on a busy machine.
export default defineConfig({ test: { globalSetup: ["content-service/test/setup"], testTimeout: 60_000 } });
`;

const access = (hasSeed: boolean): string => `\
import { testDatabase } from "content-service/test";
import { expect, test } from "vitest";

const db = await testDatabase();
const callers = {
  anon: "anon",
  ada: await ${hasSeed ? 'db.account("ada")' : 'db.user({ name: "Ada", email: "ada@example.com" })'},
  bob: await ${hasSeed ? 'db.account("bob")' : 'db.user({ name: "Bob", email: "bob@example.com" })'},
  service_role: "service_role",
} as const;

// With rows in db/seed.sql, the file also says which of them each caller may see and change.
test("rights have not changed", async () => {
  await expect(await db.accessMatrix({ callers })).toMatchFileSnapshot("access.md");
});
`;

/** Tokens of the application's issuer name the role. */
function accessAsIs({ survey, choice }: Plan): string {
  const { anonymous } = choice.roles;
  const sub = choice.users?.id === "uuid" ? "00000000-0000-4000-8000-000000000001" : "1";
  const callers = rolesOfCallers(survey, choice)
    .filter(({ name }) => name !== anonymous?.name)
    .map(({ name }) => {
      const role = JSON.stringify(name);
      return `  ${role}: { role: ${role}, claims: { role: ${role}, sub: "${sub}" } },\n`;
    });
  return `\
import { testDatabase } from "content-service/test";
import { expect, test } from "vitest";

const db = await testDatabase();
// The claims are those that your issuer writes into tokens.
const callers = {
${anonymous ? '  anonymous: "anon",\n' : ""}${callers.join("")}} as const;

// With rows in db/seed.sql, the file also says which of them each caller may see and change.
test("rights have not changed", async () => {
  await expect(await db.accessMatrix({ callers })).toMatchFileSnapshot("access.md");
});
`;
}

/** New users sign in. They do not register over HTTP, where they could if SIGNUP were open. */
function signInTest({ choice }: Plan, resources: readonly ResourceFile[]): string {
  const hasName = choice.users?.table.columns.some(({ name }) => NAME.test(name));
  const fields = `{ ${hasName ? 'name: "Eve", ' : ""}email: "eve@example.com", password: PASSWORD }`;
  const registers = resources.some(({ hasAccount }) => hasAccount);
  const refused = `  // SIGNUP is off.\n  expect((await post("/auth/register", ${fields})).status).toBe(403);\n`;
  const reads = resources
    .filter(({ isReadable }) => isReadable)
    .map(({ name }) => `  expect((await fetch(\`\${url}/${name}\`, { headers })).status).toBe(200);\n`);
  return `\
import { PASSWORD, testDatabase } from "content-service/test";
import { expect, test } from "vitest";

const db = await testDatabase();
const { url } = await db.start();
const post = (path: string, body: object) =>
  fetch(url + path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });

test("users sign in${reads.length > 0 ? ", and read" : ""}", async () => {
${registers ? refused : ""}\
  await db.user({ name: "Grace", email: "grace@example.com" });
  const response = await post("/auth/login", { username: "grace@example.com", password: PASSWORD });
  const { accessToken } = (await response.json()) as { accessToken: string };
  const headers = { authorization: \`Bearer \${accessToken}\` };
  expect((await fetch(\`\${url}/auth/keys\`, { headers })).status).toBe(200);
${reads.join("")}});
`;
}

function readme(plan: Plan): string {
  const { survey } = plan;
  const { migrate } = plan.choice;
  return `\
# Content Service for the database ${survey.database}

\`\`\`sh
npm install       # once
npm test          # types, migrations, and what callers may do with each table, on a database with the same structure
npm run dev       # start it with the settings of .env, and follow the files; the URLs are printed
SETTINGS_FILE=../production.env npm start
\`\`\`

| Where | What |
|---|---|
| \`content-service.config.ts\` | the settings of every deployment, and what the application consists of |
| \`.env\` | \`DATABASE_URL\` and \`JWT_SECRET\`: secrets, which git ignores. \`npm run dev\` and \`npx content-service\` read it. \`.env.example\` has what production sets |
| \`db/base/\` | the structure of the database before this application, without data; tests begin with it |
${migrate === "off" ? "" : "| `db/schema/`, `db/migrations/` | what this application adds: `npx content-service migrate --help` |\n"}\
${accountsFor(plan) === null ? "" : "| `db/accounts.sql`, `db/later-accounts.sql` | give accounts to the users who are there already, and to those whom another application adds, when you make them a migration |\n"}\
| \`db/seed.sql\` | rows for the tests: write some of your tables. It runs after everything else |
| \`test/access.md\` | what callers may do, after the first \`npm test\`: commit it, and review its changes |

${migrate === "off" ? "" : DEVELOPMENT}${migrate === "on" ? BASE : refresh(migrate)}\
${migrate === "modules" ? `\n${OTHER_TOOL}` : ""}`;
}

const DEVELOPMENT = `\
\`npm run dev\` changes the database that \`.env\` names: it installs the modules of the service, and runs migrations while you write them.
Name a copy of your database there, not the one that others use.

Users are added by \`npx content-service user create\`, administrators and the service key: \`SIGNUP\` in \`content-service.config.ts\` is \`off\`.
\`/rest/v1\` needs a key for browsers: \`npx content-service key create anon web\`. Without \`MAIL_URL\` no e-mails are sent, so users cannot reset
their passwords. The whole way to production is in \`node_modules/content-service/docs/database-application.md\`.

`;

/** The database also has what the migrations of this application have made, which tests make again. */
const BASE = `\
When another application has changed its tables, \`npx content-service migrate check --database\` names what \`db/base/\` lacks. Append the
statements of that change to \`db/base/schema.sql\`, with the schema before each name. They run before your migrations. Or write the structure
again, from a database that only the other application has made and changed, such as that of its own tests: this service and your migrations
have never run on it.

\`\`\`sh
pg_dump ${DUMP_ARGUMENTS.join(" ")} "$URL_OF_THAT_DATABASE" > db/base/schema.sql
\`\`\`
`;

/** No migration of this application runs on the database. */
const refresh = (migrate: "off" | "modules"): string => `\
When your tables have changed, write their structure again:

\`\`\`sh
URL=$(npx content-service url) && pg_dump ${(migrate === "off" ? DUMP_ARGUMENTS : DUMP_WITHOUT_SERVICE).join(" ")} "$URL" > db/base/schema.sql
\`\`\`
`;

const OTHER_TOOL = `\
Another tool migrates the tables. A start runs no file of \`db/migrations\`: put \`db/schema/sign-in.sql\` into a migration of that tool.
Tests run it.
`;
