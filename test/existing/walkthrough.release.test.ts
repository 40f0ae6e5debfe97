import { execFile, type SpawnOptions, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { chmod, chown, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir, userInfo } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { promisify } from "node:util";
import { expect, onTestFinished, test } from "vitest";
import { findFreePort } from "../../db/cluster/embedded.ts";
import { findSystemUser } from "../../db/cluster/system-user.ts";
import { PROJECT } from "../support/command.ts";
import { kill } from "../support/processes.ts";

const DEBIAN_15 = "/usr/lib/postgresql/15/bin";
const installed = existsSync(DEBIAN_15);
if (!installed)
  console.warn(`skipped: docs/existing-database.md, because ${DEBIAN_15} is missing: apt-get install postgresql-15`);

const run = promisify(execFile);
/** It starts the commands of npm six times. */
const TIME_LIMIT = 600_000;

/** A server as Debian installs it, whose `wal_level` is `replica`, and a folder of commands that reach it. */
async function startDebianServer(): Promise<{ readonly port: number; readonly commands: string }> {
  const folder = await mkdtemp(join(tmpdir(), "debian-"));
  await chmod(folder, 0o711);
  const isRoot = userInfo().uid === 0;
  // PostgreSQL does not run as root.
  const user = isRoot ? await findSystemUser() : undefined;
  const home = join(folder, "postgres");
  await mkdir(home);
  if (user) await chown(home, user.uid, user.gid);
  const [data, port] = [join(home, "data"), await findFreePort()];
  const server = async (program: string, ...args: string[]) =>
    void (await run(join(DEBIAN_15, program), args, { cwd: home, ...user }));
  // Stops the server when this process ends, however it does: it waits at a pipe that only this process holds open.
  const stop = `read -r _; exec ${DEBIAN_15}/pg_ctl -D ${data} -m immediate stop`;
  const guard = spawn("sh", ["-c", stop], { cwd: home, ...user, detached: true, stdio: ["pipe", "ignore", "ignore"] });
  onTestFinished(async () => {
    const ended = once(guard, "exit");
    guard.stdin!.end();
    await ended;
    await rm(folder, { recursive: true, force: true });
  });
  await server("initdb", "-D", data, "-U", "postgres", "--auth-local=trust", "--auth-host=scram-sha-256", "--no-sync");
  await server(
    "pg_ctl",
    "-D",
    data,
    "-w",
    "-l",
    join(home, "log"),
    "-o",
    `-p ${port} -k ${home} -c fsync=off`,
    "start",
  );
  const commands = join(folder, "commands");
  await mkdir(commands);
  const restart = `${DEBIAN_15}/pg_ctl -D ${data} -w -l ${join(home, "log")} restart`;
  const scripts = {
    // runuser -u postgres -- psql …
    runuser: `shift 3\nexec env PGHOST=${home} PGPORT=${port} PGUSER=postgres PATH="${DEBIAN_15}:$PATH" "$@"`,
    pg_ctlcluster: user
      ? `cd ${home} && exec setpriv --reuid=${user.uid} --regid=${user.gid} --clear-groups ${restart}`
      : `exec ${restart}`,
  };
  for (const [name, text] of Object.entries(scripts))
    await writeFile(join(commands, name), `#!/bin/sh\n${text}\n`, { mode: 0o755 });
  return { port, commands };
}

/** Rejects with the output if it fails. What it has started ends with the test. */
async function runScript(script: string, options: SpawnOptions): Promise<{ readonly stdout: string }> {
  const child = spawn("bash", ["-euc", script], { ...options, detached: true, stdio: ["ignore", "pipe", "pipe"] });
  onTestFinished(() => kill(-child.pid!, "SIGKILL"));
  const [[code], stdout, stderr] = await Promise.all([once(child, "exit"), text(child.stdout!), text(child.stderr!)]);
  if (code !== 0) throw new Error(stdout + stderr);
  return { stdout };
}

/** A folder with the files of a clone, in which the reader may write. */
async function createClone(): Promise<string> {
  const clone = await mkdtemp(join(tmpdir(), "clone-"));
  await chmod(clone, 0o755);
  for (const name of await readdir(PROJECT)) await symlink(join(PROJECT, name), join(clone, name));
  onTestFinished(() => rm(clone, { recursive: true, force: true }));
  return clone;
}

const START = "SETTINGS_FILE=shop.env npm start\n";

/** The commands of the page as one script. What the reader runs in a second terminal runs in the background. */
function scriptOf(page: string): string {
  const blocks = [...page.matchAll(/^```(sh|js)\n([\s\S]*?)^```$|^## 9/gm)];
  const steps = blocks.map(([heading, language, code = ""]) => {
    if (heading.startsWith("## 9")) return "kill $SERVICE; wait $SERVICE || true; SERVICE=\n";
    if (language === "js") {
      return `cat > listen.mjs <<'END'\n${code}END
ANON_KEY=$ANON_KEY TOKEN=$TOKEN node listen.mjs > listened 2>&1 & LISTENER=$!
until grep -q SUBSCRIBED listened; do ! grep ERROR listened; kill -0 $LISTENER; sleep 0.1; done\n`;
    }
    if (code !== START) return code;
    return `${START.trim()} > service.log 2>&1 & SERVICE=$!
trap 'test -z "$SERVICE" || kill $SERVICE' EXIT
until curl -sf http://127.0.0.1:3000/ready > /dev/null; do kill -0 $SERVICE; sleep 0.1; done\n`;
  });
  return steps
    .join("")
    .replace(/^npm ci$/m, "")
    .replace(/^admin -c "update store\.orders.*$/m, "$&\nwait $LISTENER; cat listened");
}

test.skipIf(!installed)(
  "the steps of docs/existing-database.md lead from a database to its API, and back",
  async () => {
    const [{ port, commands }, clone] = await Promise.all([startDebianServer(), createClone()]);
    const page = await readFile(join(PROJECT, "docs/existing-database.md"), "utf8");
    const [steps] = page.split("## Modules of the service\n");
    const script = scriptOf(steps!)
      .replaceAll("127.0.0.1:5432", `127.0.0.1:${port}`)
      .replace(/(?<=127\.0\.0\.1:|PORT=)3000/g, String(await findFreePort()));
    const env = {
      PATH: `${commands}:${process.env.PATH}`,
      HOME: clone,
      npm_config_update_notifier: "false",
      NODE_COMPILE_CACHE: join(PROJECT, "node_modules/.cache/compiled"),
    };
    const { stdout } = await runScript(script, { cwd: clone, env }).catch(async (error) => {
      const [listened, log] = await Promise.all(
        ["listened", "service.log"].map((file) => readFile(join(clone, file), "utf8").catch(() => "")),
      );
      throw new Error(`${error.message}\n${listened}\n${log}`);
    });
    const doctors = [...stdout.matchAll(/^(\w+) +changes: (.*)$/gm)].map(([, level, text]) => `${level} ${text}`);
    expect(doctors).toEqual([
      expect.stringMatching(/^warning .*wal_level.*create publication content_changes for table store\./),
      "ok publication content_changes",
    ]);
    expect(stdout).not.toMatch(/^error /m);
    expect(stdout).toContain('[{"name":"Product 1","variants":[{"sku":');
    expect(stdout).toContain('[{"number":"O00012","status":"paid"}');
    expect(stdout).toContain('"customer":{"fullName":"Customer 1"},"store":{"name":"North"}');
    expect(stdout).toContain('"updateOrder":{"number":"O00012","note":"Please ring twice."}');
    expect(stdout).toMatch(/SUBSCRIBED.*\nO000\d\d Leave it at the door\.$/m);
    expect(stdout).toMatch(/^unchanged$/m);
  },
  TIME_LIMIT,
);
