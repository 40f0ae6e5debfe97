import { mkdir, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, inject, onTestFinished, test } from "vitest";
import { outcomeOf } from "../cli/command.ts";
import { doctor } from "../cli/doctor.ts";
import { migrationCommand } from "../cli/migration.ts";
import { upgrade } from "../cli/upgrade.ts";
import { readConfig } from "../config/config.ts";
import { describeSettings } from "../config/settings.ts";
import { findFreePort } from "../db/cluster/embedded.ts";
import { createLog } from "../http/pipeline/log.ts";
import { startService } from "../server.ts";
import { applicationStart, devStart, nodeRun, npmStart, type Settings } from "./support/command.ts";
import { createTestDatabase } from "./support/database.ts";
import { processesNamed } from "./support/processes.ts";
import { JWT_SECRET } from "./support/service.ts";

let dataDir: string;
beforeAll(async () => {
  dataDir = join(await mkdtemp(join(tmpdir(), "content-service-refused-")), "data");
});
afterAll(() => rm(dirname(dataDir), { recursive: true, force: true, maxRetries: 5 }));

describe("a start that fails", () => {
  const attempt = (settings: Settings) => startService(readConfig({ PORT: "0", ...settings }), createLog("silent"));

  test("reports that its port is in use, and leaves no PostgreSQL", async () => {
    const port = await findFreePort();
    const other = createServer().listen(port, "127.0.0.1");
    onTestFinished(() => void other.close());
    const message = `another program listens on port ${port} of 127.0.0.1: set PORT to another port, or stop that program, which ss -ltnp 'sport = :${port}' names`;
    await expect(attempt({ PORT: String(port), DATA_DIR: dataDir })).rejects.toMatchObject({ message });
    expect(processesNamed(dataDir)).toEqual([]);
  });

  test("reports that the database of DATABASE_URL does not accept connections", async () => {
    const port = await findFreePort();
    const DATABASE_URL = `postgres://owner:secret-password@127.0.0.1:${port}/content`;
    const message = `cannot connect to the database: connect ECONNREFUSED 127.0.0.1:${port}`;
    await expect(attempt({ DATABASE_URL, JWT_SECRET })).rejects.toMatchObject({ message });
  });

  test("reports every IP address of a host with several", async () => {
    const DATABASE_URL = `postgres://owner@localhost:${await findFreePort()}/content`;
    await expect(attempt({ DATABASE_URL, JWT_SECRET })).rejects.toThrow(
      /^cannot connect to the database: connect ECONNREFUSED \S+:\d+/,
    );
  });

  test("is one clear line and exit code 1, without the password that the database refuses", async () => {
    const url = new URL(inject("clusterUrl"));
    url.password = "secret-password";
    const command = nodeRun("start", { dataDir, settings: { DATABASE_URL: url.href, JWT_SECRET } });
    expect(await command.exited()).toBe(1);
    expect(command.logged.map(({ level, msg }) => [level, msg])).toEqual([
      [
        "fatal",
        'the service cannot start: cannot connect to the database: password authentication failed for user "postgres"',
      ],
    ]);
    expect(command.stdout + command.stderr).not.toContain("secret-password");
  });
});

describe("the command line", () => {
  test("npm start -- --help lists all settings and ends with 0", async () => {
    const command = npmStart({ dataDir, args: ["--help"] });
    expect(await command.exited()).toBe(0);
    for (const { name } of describeSettings()) expect(command.stdout).toMatch(new RegExp(`^ {2}${name} `, "m"));
    expect(command.stdout).toMatch(/^Settings of the application:\n {2}USERS_WRITE +Who may change/m);
    expect(command.stderr).toBe("");
  });

  test("an unknown option is one line on stderr and exit code 2", async () => {
    const command = nodeRun("start", { dataDir, args: ["--port=80"] });
    expect(await command.exited()).toBe(2);
    expect(command.stderr).toBe(
      "--port=80 is not an option of this service: npx content-service start --help lists the settings\n",
    );
    expect(command.stdout).toBe("");
  });

  test("an invalid setting is one line on stderr and exit code 2", async () => {
    const command = nodeRun("start", { dataDir, settings: { PORT: "http" } });
    expect(await command.exited()).toBe(2);
    expect(command.stderr).toBe('PORT must be a whole number (is "http")\n');
    expect(command.stdout).toBe("");
  });

  test("settings that contradict each other end start, doctor, upgrade and migrate with exit code 2, and the database stays as it was", async () => {
    const database = await createTestDatabase(undefined, "template1");
    onTestFinished(() => database.drop());
    const settings = { DATABASE_URL: database.url, JWT_SECRET, SIGNUP: "invite", EMAIL_CONFIRM: "required" };
    const message = "EMAIL_CONFIRM=required requires MAIL_URL and the module tasks, which send the e-mails";
    const command = nodeRun("start", { dataDir, settings });
    expect(await command.exited()).toBe(2);
    expect(command.stderr).toBe(`${message}\n`);
    const environment = { ...settings, APPLICATION: "demo" };
    for (const work of [doctor([], environment), upgrade(["--yes"], environment)])
      expect(await outcomeOf(work)).toEqual({ exitCode: 2, stdout: "", stderr: `${message}\n` });
    await expect(migrationCommand(["status"], { environment })).rejects.toMatchObject({ exitCode: 2, message });
    const { rows } = await database.owner.query("select nspname from pg_namespace where nspname !~ '^pg_' order by 1");
    expect(rows.map(({ nspname }) => nspname)).toEqual(["information_schema", "public"]);
  });

  test.each([
    [devStart, (home: string) => `Set it in ${join(home, ".env")}, or in the environment\n`, {}],
    [
      applicationStart,
      () =>
        "Set it in a file, and name the file in SETTINGS_FILE, or in the environment. npx content-service start does not read .env; npx content-service dev does\n",
      {},
    ],
    [
      applicationStart,
      (home: string) => `Set it in ${home}/empty.env, or in the environment\n`,
      { SETTINGS_FILE: "empty.env" },
    ],
  ])("an application for an existing database needs DATABASE_URL: nothing is made", async (startIt, cure, settings) => {
    const home = await mkdtemp(join(dirname(dataDir), "existing-"));
    await mkdir(join(home, "db/base"), { recursive: true });
    await writeFile(join(home, "content-service.config.ts"), "export default {};\n");
    await writeFile(join(home, "empty.env"), "");
    const files = Object.fromEntries(Object.entries(settings).map(([name, file]) => [name, join(home, file)]));
    const command = startIt({ folder: home, dataDir: join(home, ".data"), settings: files });
    expect(await command.exited()).toBe(2);
    expect(command.stderr).toBe(
      `DATABASE_URL is not set; this application was made for an existing database (it has db/base). ${cure(home)}`,
    );
    expect((await readdir(home)).sort()).toEqual(["content-service.config.ts", "db", "empty.env"]);
  });
});
