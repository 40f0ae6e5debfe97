import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { outcomeOf } from "../../cli/command.ts";
import { reset, url } from "../../cli/embedded-database.ts";
import { image } from "../../cli/image.ts";
import { key } from "../../cli/key.ts";
import { upgrade } from "../../cli/upgrade.ts";
import { user } from "../../cli/user.ts";
import { adviseCommand } from "../../parts/advisor/advise.ts";
import { doctor } from "../../parts/advisor/doctor/doctor.ts";
import { example } from "../../parts/development/example.ts";
import { init } from "../../parts/development/init/init.ts";
import { migrationCommand } from "../../parts/development/migrations/migrate.ts";
import { types } from "../../parts/openapi/types.ts";
import { JWT_SECRET } from "../support/service.ts";

type Settings = Readonly<Record<string, string>>;

/** The commands without their processes, with these settings alone. */
const COMMANDS: Readonly<Record<string, (args: string[], environment: Settings) => Promise<string>>> = {
  ...{ advise: adviseCommand, doctor, key, reset, types, upgrade, url, user },
  ...{ example: (args) => example(args), image: (args) => image(args), init: (args) => init(args) },
  migrate: (args, environment) => migrationCommand(args, { environment }),
};

let dataDir: string;
beforeAll(async () => {
  dataDir = await mkdtemp(join(tmpdir(), "arguments-"));
  return () => rm(dataDir, { recursive: true });
});

const NOWHERE = { DATABASE_URL: "postgres://owner:secret-password@127.0.0.1:1/content", JWT_SECRET };
const UNREACHABLE = /^cannot use the database: connect ECONNREFUSED 127\.0\.0\.1:1\n$/;
const NO_SERVER =
  /^no embedded database is running in .*arguments-\w+ \(DATA_DIR\); start it with npx content-service start, or set DATABASE_URL\n$/;
const OF_KEY = /^.+; see npx content-service key --help\n$/;

test.each<[args: [command: string, ...string[]], exitCode: 1 | 2, line: RegExp, settings?: Settings]>([
  [["advise", "--levels"], 2, /^Unknown option '--levels'.*see npx content-service advise --help\n$/],
  [["advise", "--level", "info"], 2, /^--level must be error, warning, note; see npx content-service advise --help\n$/],
  [["doctor", "database"], 2, /^the topic must be federated or absent; see npx content-service doctor --help\n$/],
  [["example", "vue", "x"], 2, /^there is no example vue; there are apollo, cookie.*\n$/],
  [["example", "plain"], 2, /^name a folder: .* example plain my-page\n$/],
  [["image"], 2, /^expected one directory; see npx content-service image --help\n$/],
  [["image", "a", "b"], 2, /^Unexpected argument 'b'; see npx content-service image --help\n$/],
  [["image", "--tag", "a"], 2, /^Unknown option '--tag'.*\n$/],
  [["image", "a"], 2, /^there is no application with a package\.json here: run the command in its folder\n$/],
  [["init"], 2, /^expected one folder; see npx content-service init --help\n$/],
  [["init", "a", "b"], 2, /^Unexpected argument 'b'; .*\n$/],
  [["init", "--bear", "a"], 2, /^Unknown option '--bear'.*\n$/],
  [["init", import.meta.filename], 1, /arguments\.test\.ts is a file: name a folder, which may be new\n$/],
  [["init", "/dev/null/a"], 1, /^cannot write \/dev\/null\/a\/.*: ENOTDIR.*\n$/],
  [["init", "/proc/a"], 1, /^cannot write \/proc\/a\/.*: ENOENT.*\n$/],
  [["key"], 2, OF_KEY],
  [["key", "create", "user", "x"], 2, OF_KEY],
  [["key", "create", "anon"], 2, OF_KEY],
  [["key", "create", "anon", " "], 2, OF_KEY],
  [["key", "create", "anon", "two", "words"], 2, OF_KEY],
  [["key", "revoke"], 2, OF_KEY],
  [["key", "list", "all"], 2, OF_KEY],
  [["key", "--all"], 2, OF_KEY],
  [["migrate"], 2, /^expected apply, commit, uncommit, check, status; see npx content-service migrate --help\n$/],
  [["migrate", "aply"], 2, /^expected apply, .*\n$/],
  [["migrate", "commit"], 2, /^say what the migration does; see npx content-service migrate --help\n$/],
  [["migrate", "commit", "a", "b"], 2, /^Unexpected argument 'b'; .*\n$/],
  [["migrate", "commit", "a", "--breaking", " "], 2, /^--breaking needs a reason; .*\n$/],
  [["migrate", "commit", "a", "--force"], 2, /^Unknown option '--force'.*\n$/],
  [["migrate", "check", "--json"], 2, /^Unknown option '--json'; see npx content-service migrate --help\n$/],
  [["migrate", "check", "--database", "--current"], 2, /^Unknown option '--current'; .*\n$/],
  [["migrate", "status", "now"], 2, /^Unexpected argument 'now'.*\n$/],
  [
    ["reset"],
    2,
    /^to delete the database in .*arguments-\w+ with all its data, run npx content-service reset --yes\n$/,
  ],
  [["reset", "--yes", "now"], 2, /^Unexpected argument 'now'.*\n$/],
  [["reset", "--yes"], 1, /^reset deletes only the embedded database, but DATABASE_URL is set\n$/, NOWHERE],
  [["types", "--schemas", "public"], 2, /^Unknown option '--schemas'.*see npx content-service types --help\n$/],
  [["types", "public"], 2, /^Unexpected argument 'public'.*see npx content-service types --help\n$/],
  [["types", "--schema", "public,"], 2, /^--schema must be names separated by commas; .*types --help\n$/],
  [["types"], 2, /^DB_POOL must be a whole number.*\n$/, { DB_POOL: "many" }],
  [["types"], 1, NO_SERVER],
  [["types"], 1, UNREACHABLE, NOWHERE],
  [["upgrade", "1.1.0"], 2, /^Unexpected argument '1\.1\.0'.*\n$/],
  [["url", "now"], 2, /^Unexpected argument 'now'.*; see npx content-service url --help\n$/],
  [["url"], 1, NO_SERVER],
  [["user"], 2, /^an action is required; see .*--help\n$/],
  [["user", "remove", "ada"], 2, /^unknown action remove; .*\n$/],
  [["user", "delete", "ada"], 2, /^delete requires either --with-data or --hand-over-to <login>; .*\n$/],
  [
    ["user", "delete", "ada", "--with-data", "--hand-over-to", "bob"],
    2,
    /^delete requires either --with-data or .*\n$/,
  ],
  [["user", "delete", "--with-data"], 2, /^delete requires <login>; .*\n$/],
  [["user", "disable", "ada", "--with-data"], 2, /^--with-data and --hand-over-to are allowed only with delete; .*\n$/],
  [["user", "list", "a", "b"], 2, /^list takes at most one argument; .*\n$/],
  [["user", "disable"], 2, /^disable requires <login>; .*\n$/],
  [["user", "password", "ada", "Correct-Horse-7!"], 2, /^password requires <login>; .*\n$/],
  [["user", "role", "ada", "root"], 2, /^role must be authenticated or admin; .*\n$/],
  [["user", "list", "--role", "admin"], 2, /^--username and --role are allowed only with create; .*\n$/],
  [["user", "list", "--all"], 2, /^Unknown option '--all'.*\n$/],
  [["user", "list"], 1, NO_SERVER],
])("%j is one line on stderr, with exit code %i", async ([command, ...args], exitCode, line, settings = {}) => {
  const outcome = await outcomeOf(COMMANDS[command]!(args, { DATA_DIR: dataDir, ...settings }));
  expect(outcome).toEqual({ exitCode, stdout: "", stderr: expect.stringMatching(/^[^\n]+\n$/) });
  expect(outcome.stderr).toMatch(line);
});

test.each([
  ["advise", /^ {2}npx content-service advise --level warning /m],
  ["doctor", /^ {2}npx content-service doctor federated /m],
  ["migrate", /^ {2}loses-data +error: it drops or empties /m],
  ["types", /^ {2}npx content-service types > database\.types\.ts /m],
  ["user", /^ {2}npx content-service user disable <login> /m],
])("%s --help has what is particular to it", async (command, line) => {
  const outcome = { exitCode: 0, stdout: expect.stringMatching(line), stderr: "" };
  expect(await outcomeOf(COMMANDS[command]!(["--help"], {}))).toEqual(outcome);
});
