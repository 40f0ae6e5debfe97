import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { parseEnv } from "node:util";
import pg from "pg";
import { CommandError } from "../../../cli/command.ts";
import { COMMAND } from "../../../config/command.ts";
import { ConfigError } from "../../../config/config-error.ts";
import { postgresUrl } from "../../../config/postgres-url.ts";
import { parseValue } from "../../../config/setting-types.ts";
import { refuseOldServer } from "../../../db/cluster/open.ts";
import { type Choice, isSupabase } from "../existing/choice.ts";
import { otherLogin, whoRuns } from "../existing/preparation.ts";
import { readSurvey, type Survey } from "../existing/survey.ts";
import { installCommands, writeFiles } from "../new-files.ts";
import { filesFor } from "./database-files.ts";
import { describeChoice, describeSurvey } from "./database-report.ts";
import { dumpArguments } from "./dump.ts";
import { type Plan, planFor } from "./plan.ts";
import type { SignIn } from "./sign-in.ts";

const CONNECT_MILLISECONDS = 10_000;
const SECRET_BYTES = 48;

type Options = {
  readonly folder: string;
  /** The folder as the user has written it. */
  readonly given: string;
  readonly replaces: boolean;
};

/** Makes an application for the database at `url`, which is only read. Throws CommandError. */
export async function initDatabase(given: string, options: Options): Promise<string> {
  const url = readUrl(given);
  const survey = await readDatabase(url);
  const plan = await planFor(url, survey);
  const { folder, replaces } = options;
  const environment = `${aboutUrl(plan.choice)}${await environmentIn(folder, url, plan)}`;
  const files = await filesFor(plan, { folder, replaces, environment });
  await writeFiles(folder, files, options);
  const written = files.map(({ file }) => `  ${file}\n`).join("");
  return `${describeSurvey(survey, plan.choice)}\n${describeChoice(plan.choice, survey)}\n${written}\n${nextSteps(plan, options)}`;
}

/** Throws CommandError. */
function readUrl(given: string): string {
  try {
    return parseValue("--database", postgresUrl, given);
  } catch (error) {
    throw error instanceof ConfigError ? new CommandError(2, error.message) : error;
  }
}

/** Rejects with CommandError, whose message says how to cure it. */
async function readDatabase(url: string): Promise<Survey> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: CONNECT_MILLISECONDS });
  try {
    await client.connect();
    await refuseOldServer(client);
    const survey = await readSurvey(client);
    refuseWithoutRights(survey);
    refuseUnsafeNames(survey);
    return survey;
  } catch (error) {
    throw error instanceof CommandError ? error : new CommandError(1, sentenceFor(error as Error, new URL(url)));
  } finally {
    await client.end();
  }
}

function refuseWithoutRights({ login, roles, tables, database }: Survey): void {
  const isUsable = login.isSuperuser || tables.length === 0 || tables.some(({ isOwned }) => isOwned);
  if (isUsable || roles.some(({ isMine, name }) => isMine && name !== login.name)) return;
  throw new CommandError(
    1,
    `${login.name} owns no table in ${database} and is a member of no role: use the URL of the owner, or grant it the roles of your callers`,
  );
}

/** In a comment of the SQL that init writes, a line break begins a statement, which runs as the owner; `$$` ends a body. */
const UNSAFE_NAME = /\p{Cc}|\$\$/u;

/** Any role that may create a table, or roles, chooses such names. */
function refuseUnsafeNames({ roles, tables }: Survey): void {
  const names = [
    ...roles.map(({ name }) => ["role", name] as const),
    ...tables.flatMap(({ schema, name, columns }) => [
      ["schema", schema] as const,
      ["table", name] as const,
      ...columns.map((column) => ["column", column.name] as const),
    ]),
  ];
  const found = names.find(([, name]) => UNSAFE_NAME.test(name));
  if (found === undefined) return;
  const [kind, name] = found;
  throw new CommandError(
    1,
    `the name of the ${kind} ${JSON.stringify(name)} has a line break, another control character, or $$: rename it first`,
  );
}

/** `/` in the name of a host separates the folder of a socket. */
function sentenceFor(error: Error & { code?: string }, { hostname, port, username, pathname }: URL): string {
  const server = `${decodeURIComponent(hostname)}:${port || 5432}`;
  const login = decodeURIComponent(username);
  const database = decodeURIComponent(pathname.slice(1)) || login;
  const reason =
    error instanceof AggregateError ? error.errors.map(({ message }) => message).join("; ") : error.message;
  switch (error.code) {
    case "28P01":
      return `${server} refuses the password of ${login}: correct it in the URL, where special characters are written as %23`;
    case "28000":
      return `${server} does not let ${login} log in: ${reason}`;
    case "3D000":
      return `there is no database ${database} at ${server}: correct the name at the end of the URL`;
    case "42501":
      return `${login} may not read ${database}: ${reason}; grant it, or use the URL of the owner`;
  }
  if (error instanceof pg.DatabaseError) return `the database cannot be read: ${reason}`;
  if (/ is too old: /.test(reason)) return `${reason}; upgrade the server first`;
  return `no PostgreSQL answers at ${server} (${reason}): start the server, or correct host and port in the URL`;
}

/** A comment in `.env`: its URL may be that of production. */
const aboutUrl = ({ migrate }: Choice): string =>
  migrate === "off"
    ? "# The database that init has read. Callers of npm run dev change rows in it: name a copy here for development.\n"
    : `# The database that init has read. npm run dev installs the modules of the service in it${migrate === "on" ? ", and runs your migrations on it" : ""}.
# If others use it, make a copy as init has printed, and name the copy here. Production has settings of its own, not this file.
`;

/** The variables of `.env`. Those that a file has stay: with another secret, tokens would be invalid. */
async function environmentIn(folder: string, url: string, plan: Plan): Promise<string> {
  const file = join(folder, ".env");
  const existing = existsSync(file) ? parseEnv(await readFile(file, "utf8")) : {};
  const generated = {
    DATABASE_URL: url,
    JWT_SECRET: secretOf(plan) ?? randomBytes(SECRET_BYTES).toString("base64url"),
  };
  const variables = { ...generated, ...existing, DATABASE_URL: url };
  return Object.entries(variables)
    .map(([name, value]) => `${name}=${value?.includes("'") ? `"${value}"` : `'${value}'`}\n`)
    .join("");
}

/** The secret of the tokens that callers have already; null if the database does not have it. */
const secretOf = ({ choice, survey }: Pick<Plan, "choice" | "survey">): string | null =>
  choice.migrate === "off" && isSupabase(survey) ? survey.jwtSecret : null;

function nextSteps({ choice, dump, preparation, signIn, survey }: Plan, { folder, given }: Options): string {
  const first = [
    ...(preparation.length > 0
      ? [`${whoRuns(preparation)}, run:\n${indented(preparation.map(({ sql }) => sql).join("\n"))}`]
      : []),
    ...(choice.migrate === "off" ? [] : [copyOf(survey, choice)]),
  ];
  const steps = [
    // Who needs a DBA asks once.
    ...(first.length > 0 ? [first.join("\n   ")] : []),
    `Install the packages:\n${indented(installCommands(folder, given).join("\n"))}`,
    ...(choice.migrate === "off"
      ? [environmentStep(survey, choice)]
      : [`Read db/schema/sign-in.sql: ${aboutSignIn(signIn, choice)}`]),
    ...(choice.migrate !== "off" && choice.roles.signedIn === null && signIn.roles.length === 0 ? [NO_RIGHTS] : []),
    ...("reason" in dump
      ? [
          `Write the structure of your tables, which tests begin with (${dump.reason}):\n${indented(dumpCommand(survey))}`,
        ]
      : []),
    `Try what callers may do: test/access.md has it then.\n${indented("npm test")}`,
    ...accountsOf(choice),
    ...(choice.migrate !== "off" && survey.login.isSuperuser ? [OWNER] : []),
    `Start the service:\n${indented("npm run dev")}`,
  ];
  return `Nothing in the database was changed. Next:\n\n${steps.map((step, i) => `${i + 1}. ${step}\n`).join("\n")}`;
}

/** What `.env` needs for a database that is served as it is. */
function environmentStep(survey: Survey, choice: Choice): string {
  const login = otherLogin(survey, choice);
  const url = login && `let DATABASE_URL name ${login} with its password, the login of PostgREST; `;
  return `In .env, ${url ?? ""}${aboutSecret(survey, choice)}`;
}

function aboutSecret(survey: Survey, choice: Choice): string {
  if (!isSupabase(survey))
    return "set JWT_SECRET to the secret of your issuer, or JWT_ISSUERS; tokens name the role of the caller.";
  return secretOf({ choice, survey }) === null
    ? `set JWT_SECRET to the secret of the project, which its own .env has: ${VALID} With another secret, all of them get 401.`
    : `JWT_SECRET is the secret of the project (app.settings.jwt_secret): ${VALID}`;
}

const VALID = "its anon and service keys and the tokens of its users are then valid.";
const OWNER =
  'The login is a superuser, and the service needs only the owner of the database. For production, give it one before the first start: node_modules/content-service/docs/configuration.md, "Change the owner".';

/** `dev` changes the database that `.env` names. A copy belongs to who makes it, unless the command says otherwise. */
function copyOf({ database, login }: Survey, { migrate }: Choice): string {
  const copy = copyName(database);
  const owner = login.isSuperuser ? "" : `--owner=${login.sql} `;
  const maker = login.copiesDatabase ? login.name : `a superuser of the server (${login.name} may not)`;
  return `.env names the database ${database}. npm run dev installs the modules of the service in it${
    migrate === "on" ? ", and runs your migrations on it, at each change of db/migrations/current.sql too" : ""
  }. If it is not for development, make a copy, as ${maker}, and name the copy in .env. The first command needs a database that is not in use, the others one that is:
${indented(`createdb ${owner}--template=${database} ${copy}\ncreatedb ${owner}${copy} && pg_dump ${database} | psql ${copy}`)}`;
}

/** `shop` → `shop_dev`; `shop_dev` → `shop_dev2`; `"My shop"` → `"My shop_dev"` */
const copyName = (database: string): string => database.replace(/("?)$/, /_dev"?$/.test(database) ? "2$1" : "_dev$1");

/** Users who are there already. */
const accountsOf = ({ users, migrate }: Choice): readonly string[] =>
  users === null || migrate === "off"
    ? []
    : [
        `Give the users in ${users.table.sql} accounts, with the hashes of their passwords, in another migration: read db/accounts.sql, and do what it says. Users without a hash set a password by e-mail, at POST /auth/forgot: set MAIL_URL in .env (docs/mail.md); MAIL_URL=keep and PARTS=+console show the e-mails at /console/mail.`,
      ];

const NO_RIGHTS =
  "Grant signed-in users rights on your tables, as the end of db/schema/sign-in.sql shows: write the statements into a new file, db/schema/rights.sql, add the line --!include rights.sql to db/schema/schema.sql and to db/migrations/current.sql, and run npx content-service migrate commit rights. Until then, the service has no GraphQL schema, and is not ready.";

function aboutSignIn({ unknown, roles }: SignIn, { users, migrate }: Choice): string {
  const runs =
    migrate === "on"
      ? "a start runs it as a migration."
      : "put it into a migration of your tool; tests run it, and a start does not.";
  const questions = [
    ...(unknown.length > 0 ? [`${unknown.join(", ")} of a new user`] : []),
    ...(roles.length > 0 ? [`the role of signed-in users: ${roles.join(" or ")}`] : []),
  ];
  if (questions.length > 0) {
    const question = `it needs an answer (${questions.join("; ")})`;
    return migrate === "on"
      ? `${question}. Write it, add the line --!include sign-in.sql to db/migrations/current.sql, and run ${COMMAND} migrate commit sign-in.`
      : `${question}, and ${runs}`;
  }
  return `it ${users === null ? "has the rights of callers" : `makes rows of ${users.table.sql} for new users, and changes their ${users.email} with that of the account`}; ${runs}`;
}

/** For the reader's shell, without the password. */
const dumpCommand = (survey: Survey): string =>
  `pg_dump ${dumpArguments(survey).join(" ")} "\${DATABASE_URL:?}" > db/base/schema.sql`;

const indented = (text: string): string => text.replace(/^/gm, "     ");
