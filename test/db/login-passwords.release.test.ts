import { beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { NO_APPLICATION } from "../../app/load.ts";
import { outcomeOf } from "../../cli/command.ts";
import { upgrade } from "../../cli/upgrade.ts";
import { doctor } from "../../parts/advisor/doctor/doctor.ts";
import { connected, type ForeignServer, SERVERS, startForeignServer } from "../modules/foreign-server.ts";
import { JWT_SECRET, startTestService } from "../support/service.ts";

const NEW_SECRET = "another secret of thirty-two bytes or more";
const KINDS = ["data", "admin", "service", "auth", "tasks", "changes"];

describe.each(SERVERS)("on PostgreSQL $version, with a new JWT_SECRET", (version) => {
  let server: ForeignServer;
  beforeAll(async () => {
    server = await startForeignServer(undefined, version);
    return () => server.cluster.remove();
  });

  /** A database that was started with JWT_SECRET, and its superuser. */
  async function databaseOf(name: string) {
    const superuser = await connected(server.cluster.url("postgres"));
    onTestFinished(() => superuser.end());
    await superuser.query("alter role shop_owner createrole");
    const database = await server.makeDatabase(name, "grant usage on schema public to public");
    onTestFinished(database.drop);
    const settings = { MODULES: "auth,tasks,feed,channels", API_KEY_REQUIRED: "off" };
    const start = async (given: Readonly<Record<string, string>>) => {
      const kept = { ...database, drop: async () => {} };
      const all = { ...settings, ...given };
      await (await startTestService(all, kept, undefined, undefined, { definition: NO_APPLICATION })).stop();
    };
    await start({ MIGRATE: "modules", JWT_SECRET });
    await superuser.query(`alter role ${name}_changes replication`);
    const environment = (given: object) => ({ ...settings, DATABASE_URL: database.url, ...given });
    const step = `the passwords of the logins ${KINDS.map((kind) => `${name}_${kind}`).join(", ")}: those that follow from JWT_SECRET (or JWT_PRIVATE_KEY) do not fit, as after a restore or with a new secret`;
    const passwords = async () =>
      (await superuser.query("select rolname, rolpassword from pg_authid where starts_with(rolname, $1)", [name])).rows;
    return { start, superuser, environment, step, passwords };
  }

  const lineOf = (stdout: string, subject: string) =>
    stdout.split("\n").find((line) => line.includes(`${subject}: `)) ?? "";

  test("a start with MIGRATE=check, doctor and upgrade say why the logins cannot sign in, and what a superuser must run before upgrade --yes sets their passwords", async () => {
    const { start, superuser, environment, step, passwords } = await databaseOf("rotated");
    await superuser.query("alter role shop_owner nocreaterole");
    const changed = { MIGRATE: "check", JWT_SECRET: NEW_SECRET };
    const is15 = version.version === 15;
    const before = `alter role shop_owner createrole;${is15 ? " alter role rotated_changes noreplication;" : ""}`;
    const after = "alter role rotated_changes replication;";
    const cure = `shop_owner may not set them: as a superuser of the server, run: ${before} Then run npx content-service upgrade --yes${is15 ? `, and then let a superuser run: ${after}` : ""}`;
    await expect(start(changed)).rejects.toThrow(
      `MIGRATE=check changes nothing, and the database is not up to date: ${step}. ${cure}`,
    );
    const found = await outcomeOf(doctor([], environment(changed)));
    expect([found.exitCode, lineOf(found.stdout, "passwords")]).toEqual([1, `error     passwords: ${step}: ${cure}`]);
    const preview = await outcomeOf(upgrade([], environment(changed)));
    expect(preview).toMatchObject({ exitCode: 0, stdout: expect.stringContaining(`\n  ${step}\n`) });
    expect(preview.stdout).toMatch(`Nothing has been changed. ${cure}\n`);
    const unchanged = await passwords();
    expect(await outcomeOf(upgrade(["--yes"], environment(changed)))).toEqual({
      ...{ exitCode: 1, stdout: "", stderr: `${cure}\n` },
    });
    expect(await passwords()).toEqual(unchanged);

    await superuser.query(before);
    const done = await outcomeOf(upgrade(["--yes"], environment(changed)));
    expect(done).toMatchObject({ exitCode: 0, stdout: expect.stringContaining("\nDone. Start the instances") });
    await superuser.query(`${after} alter role shop_owner nocreaterole`);
    await start(changed);
    expect((await outcomeOf(upgrade([], environment(changed)))).stdout).toContain("there is nothing to do");
    const cured = await outcomeOf(doctor([], environment(changed)));
    expect(lineOf(cured.stdout, "passwords")).toBe("ok        passwords: the logins of the service can sign in");
  });

  test("doctor says that a start sets the passwords, unless MIGRATE=check, and what stops a login for another reason", async () => {
    const { superuser, environment, step } = await databaseOf("other");
    await superuser.query("alter role other_changes noreplication");
    const run = async (given: object) => lineOf((await outcomeOf(doctor([], environment(given)))).stdout, "passwords");
    const upgradeIt = "run npx content-service upgrade --yes";
    expect(await run({ MIGRATE: "modules", JWT_SECRET: NEW_SECRET })).toBe(
      `note      passwords: ${step}: a start sets them, or ${upgradeIt}`,
    );
    expect(await run({ MIGRATE: "check", JWT_SECRET: NEW_SECRET })).toBe(`error     passwords: ${step}: ${upgradeIt}`);
    expect(await run({ MIGRATE: "check" })).toBe(
      "note      passwords: no login of the service was tried: JWT_SECRET (or JWT_PRIVATE_KEY) is not set here",
    );
    expect((await outcomeOf(upgrade([], environment({ MIGRATE: "check" })))).stdout).toContain("nothing to do");
    // As pg_dumpall --no-role-passwords restores it.
    await superuser.query("alter role other_data password null");
    expect(await run({ MIGRATE: "check", JWT_SECRET })).toMatch("passwords of the logins other_data: those");
    const restored = environment({ MIGRATE: "check", JWT_SECRET });
    expect(await outcomeOf(upgrade(["--yes"], restored))).toMatchObject({ exitCode: 0 });
    expect(await run({ MIGRATE: "check", JWT_SECRET })).toMatch(/^ok /);
    await superuser.query(
      "alter role other_auth nologin; alter role other_data in database other reset all; comment on role other_data is null",
    );
    expect(
      await outcomeOf(upgrade(["--yes"], environment({ MIGRATE: "check", JWT_SECRET: NEW_SECRET }))),
    ).toMatchObject({
      exitCode: 1,
      stderr: expect.stringMatching(/does not take over those that it has not made: other_data\. /),
    });
    expect(await run({ MIGRATE: "check", JWT_SECRET })).toBe(
      'error     passwords: role "other_auth" is not permitted to log in',
    );
  });
});
