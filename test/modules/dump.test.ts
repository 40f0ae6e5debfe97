import { execFile } from "node:child_process";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { outcomeOf } from "../../cli/command.ts";
import { doctor } from "../../cli/doctor.ts";
import { type ScratchCluster, startScratchCluster } from "../../db/cluster/embedded.ts";
import { JWT_SECRET, startTestService } from "../support/service.ts";
import { connected, DEBIAN_15, hasServer } from "./foreign-server.ts";

const run = promisify(execFile);

describe.skipIf(!hasServer)("a dump of the whole database", () => {
  let cluster: ScratchCluster;
  beforeAll(async () => {
    cluster = await startScratchCluster(DEBIAN_15);
  });
  afterAll(() => cluster?.remove());

  const start = async (name: string) => {
    const owner = await connected(cluster.url(name));
    return startTestService({ SEED: "demo" }, { name, url: cluster.url(name), owner, drop: () => owner.end() });
  };
  const psql = (...args: string[]) =>
    run(`${DEBIAN_15}/psql`, ["--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", ...args]);

  test("in the plain format is restored by psql, and the service starts on it", async () => {
    await psql("--command=create database made", "--command=create database restored", cluster.url("postgres"));
    await (await start("made")).stop();
    const file = join(mkdtempSync(join(tmpdir(), "content-service-dump-")), "content.sql");
    await run(`${DEBIAN_15}/pg_dump`, ["--format=plain", `--file=${file}`, cluster.url("made")]);
    await psql("--single-transaction", `--file=${file}`, cluster.url("restored"));

    // Logins belong to the server, and their names begin with that of the database.
    const environment = { DATABASE_URL: cluster.url("restored"), JWT_SECRET };
    const restored = await outcomeOf(doctor([], environment));
    expect(restored.stdout).toContain(
      "\nnote      roles: the modules are here, and not the logins restored_data, restored_admin, as after a restore ",
    );
    expect([restored.exitCode, restored.stdout.match(/^error .*/gm)]).toEqual([0, null]);
    const checked = await outcomeOf(doctor([], { ...environment, MIGRATE: "check" }));
    expect(checked.stdout.match(/^error .*/gm)).toEqual([
      expect.stringMatching(/: a start with MIGRATE=on makes them;/),
    ]);

    const { url, database, stop } = await start("restored");
    onTestFinished(stop);
    expect(await (await fetch(`${url}/users/1`)).json()).toMatchObject({ name: "Ada Lovelace" });
    // All of them: psql must end each statement where it ends.
    const routines =
      "select oid::regprocedure::text from pg_proc where pronamespace = 'tasks'::regnamespace order by 1";
    const made = await connected(cluster.url("made"));
    const expected = (await made.query(routines)).rows;
    await made.end();
    expect((await database.owner.query(routines)).rows).toEqual(expected);
  });
});
