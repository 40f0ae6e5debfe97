import { execFileSync } from "node:child_process";
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { findFreePort } from "../../db/cluster/embedded.ts";
import { findSystemUser } from "../../db/cluster/system-user.ts";
import { type Command, nodeStart } from "../support/command.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { argumentsOf, kill, processesBelow } from "../support/processes.ts";
import { JWT_SECRET } from "../support/service.ts";
import { POLL } from "../support/until.ts";

const isRoot = process.getuid?.() === 0;
const WARNING = "the service keeps running as root";

/** The users that the processes of the service run as: real, effective, saved and for files, each once. */
const usersOf = ({ child }: Command) => {
  const pids = [child.pid!, ...processesBelow(child.pid!)].filter((pid) => argumentsOf(pid).includes("server.ts"));
  const ids = pids.map((pid) => /^Uid:\t(.*)$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))![1]!);
  return { processes: pids.length, users: [...new Set(ids.flatMap((text) => text.split("\t").map(Number)))] };
};
const warningsOf = (command: Command) => command.logged.filter(({ level }) => !["info", "debug"].includes(level));

describe.skipIf(!isRoot)("a service that root starts", () => {
  let folder: string;
  let uid: number;
  beforeAll(async () => {
    uid = (await findSystemUser()).uid;
    folder = mkdtempSync(join(tmpdir(), "content-service-root-"));
    chmodSync(folder, 0o755);
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }));

  const SETTINGS = { GRAPHQL_DOCUMENTS: "none" };

  describe("with the embedded database, on data of a version that ran as root", () => {
    let command: Command;
    let dataDir: string;
    beforeAll(async () => {
      dataDir = join(folder, "data");
      mkdirSync(dataDir);
      writeFileSync(join(dataDir, "secret"), "s".repeat(40), { mode: 0o600 });
      command = nodeStart({ dataDir, settings: { ...SETTINGS, WORKERS: "2" }, shared: true });
      await command.ready();
    });
    afterAll(() => command?.end());

    test("runs as the system user in every process, and has no way back", () => {
      expect(usersOf(command)).toEqual({ processes: 3, users: [uid] });
      expect(readFileSync(`/proc/${command.child.pid}/status`, "utf8")).toMatch(/^CapEff:\t0+$/m);
      expect(warningsOf(command)).toEqual([]);
    });

    test("gives its data to that user", () => {
      for (const name of ["", "secret", "postgres-password", "postgres", "postgres.lock"])
        expect([name, statSync(join(dataDir, name)).uid]).toEqual([name, uid]);
    });

    test("reloads its settings, and stops with exit code 0", async () => {
      kill(command.child.pid!, "SIGUSR2");
      const messages = () => command.logged.map(({ msg }) => msg);
      await expect.poll(messages, POLL).toContain("the settings have been reloaded");
      command.child.kill("SIGTERM");
      expect(await command.exited()).toBe(0);
      expect(readdirSync(dataDir).sort()).toEqual(["postgres", "postgres-password", "secret"]);
    });

    test("gets a secret that root has written since, but no file that is linked from elsewhere", async () => {
      // A link of the user to a file of root must not make it theirs.
      const other = join(folder, "other");
      writeFileSync(other, "of root");
      rmSync(join(dataDir, "secret"));
      execFileSync("ln", [other, join(dataDir, "secret.0")]);
      writeFileSync(join(dataDir, "secret"), "t".repeat(40), { mode: 0o600 });
      const next = nodeStart({ dataDir, settings: SETTINGS });
      await next.ready();
      expect(usersOf(next)).toEqual({ processes: 1, users: [uid] });
      expect([statSync(other).uid, statSync(join(dataDir, "secret")).uid]).toEqual([0, uid]);
    });
  });

  test("keeps running as root, and says why, if DATA_DIR has files of others", async () => {
    const dataDir = join(folder, "shared");
    mkdirSync(dataDir);
    writeFileSync(join(dataDir, "diary.txt"), "");
    const command = nodeStart({ dataDir, settings: SETTINGS });
    await command.ready();
    expect(usersOf(command)).toEqual({ processes: 1, users: [0] });
    expect(warningsOf(command)).toEqual([
      expect.objectContaining({ level: "warn", msg: WARNING, reason: expect.stringContaining(dataDir) }),
    ]);
    expect([statSync(dataDir).uid, statSync(join(dataDir, "diary.txt")).uid]).toEqual([0, 0]);
  });

  describe("with DATABASE_URL", () => {
    let database: TestDatabase;
    beforeAll(async () => {
      database = await createTestDatabase();
      return () => database.drop();
    });
    const start = async (settings: Record<string, string>) => {
      const given = { ...SETTINGS, DATABASE_URL: database.url, JWT_SECRET, ...settings };
      const command = nodeStart({ dataDir: join(folder, "unused"), settings: given });
      await command.ready();
      return command;
    };

    test("runs as the system user, and hands over to the next one", async () => {
      const sockets = join(folder, "sockets");
      mkdirSync(sockets);
      execFileSync("chown", [String(uid), sockets]);
      const settings = { TAKEOVER: join(sockets, "takeover"), PORT: String(await findFreePort()) };
      const first = await start(settings);
      expect(usersOf(first)).toEqual({ processes: 1, users: [uid] });
      const second = await start(settings);
      expect(await first.exited()).toBe(0);
      expect(usersOf(second)).toEqual({ processes: 1, users: [uid] });
    });

    test.each<[string, () => Record<string, string>, RegExp]>([
      [
        "a settings file that only root may read",
        () => {
          const file = join(folder, "settings.env");
          writeFileSync(file, "LOG_LEVEL=info\n", { mode: 0o600 });
          return { SETTINGS_FILE: file };
        },
        /^the settings are in use, but the system user could not read them again: SETTINGS_FILE cannot be read: EACCES/,
      ],
      ["a TAKEOVER in a directory of root", () => ({ TAKEOVER: join(folder, "takeover") }), /EACCES/],
    ])("keeps running as root, and says why, with %s", async (_, settings, reason) => {
      const command = await start({ PORT: String(await findFreePort()), ...settings() });
      expect(usersOf(command)).toEqual({ processes: 1, users: [0] });
      expect(warningsOf(command)).toContainEqual(
        expect.objectContaining({ level: "warn", msg: WARNING, reason: expect.stringMatching(reason) }),
      );
    });
  });
});
