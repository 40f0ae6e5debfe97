import { execFileSync, spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { findFreePort } from "../../db/cluster/embedded.ts";
import { PARTS } from "../../parts/list.ts";
import { splitKey } from "../../rest-gateway/auth/route.ts";
import { PROJECT } from "../support/command.ts";
import { createTestDatabase } from "../support/database.ts";
import { Program } from "../support/program.ts";
import { JWT_SECRET } from "../support/service.ts";

/** The part, and those that need it. */
async function withDependents(name: string): Promise<readonly string[]> {
  const parts = await Promise.all(PARTS.map(({ load }) => load()));
  return [name, ...parts.filter(({ needs = [] }) => needs.includes(name)).map((part) => part.name)];
}

/** A copy of the product without these parts: their folders and their entries in the list are deleted, and nothing else. */
function copyWithout(names: readonly string[]): string {
  const folder = mkdtempSync(join(tmpdir(), "content-service-part-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }));
  const files = execFileSync("git", ["ls-files", "--cached", "--others", "--exclude-standard"], { cwd: PROJECT });
  for (const file of files.toString().trimEnd().split("\n")) {
    if (
      /^((test|bench|build|demo\/pages)\/|vitest\.)/.test(file) ||
      names.some((name) => file.startsWith(`parts/${name}/`))
    )
      continue;
    mkdirSync(dirname(join(folder, file)), { recursive: true });
    cpSync(join(PROJECT, file), join(folder, file), { recursive: true, verbatimSymlinks: true });
  }
  symlinkSync(join(PROJECT, "node_modules"), join(folder, "node_modules"));
  const list = join(folder, "parts/list.ts");
  let text = readFileSync(list, "utf8");
  for (const name of names) {
    const left = text.replace(new RegExp(`^  \\{\\s+name: "${name}",.*?\\},\n(?=  \\{|\\];)`, "ms"), "");
    expect(left).not.toBe(text);
    text = left.replace(new RegExp(`^.*"\\./${name}/commands\\.ts".*\n`, "m"), "");
  }
  writeFileSync(list, text);
  return folder;
}

test.each(PARTS.map(({ name }) => name))("without the part %s, the rest compiles, starts and serves", async (name) => {
  const gone = await withDependents(name);
  const folder = copyWithout(gone);
  const compiled = spawnSync(process.execPath, ["node_modules/typescript/bin/tsc", "--noEmit"], { cwd: folder });
  expect(compiled.stdout.toString()).toBe("");

  const database = await createTestDatabase();
  onTestFinished(database.drop);
  const part = await PARTS.find((each) => each.name === name)!.load();
  const url = `http://127.0.0.1:${await findFreePort()}`;
  const others = PARTS.filter((each) => !gone.includes(each.name)).map((each) => each.name);
  const program = await Program.start({
    command: [process.execPath, "cli/content-service.ts", "start", "demo"],
    folder,
    environment: {
      ...{ PATH: process.env.PATH!, HOME: folder, PORT: new URL(url).port, JWT_SECRET },
      ...{ DATABASE_URL: database.url, PARTS: others.join(), API_KEY_REQUIRED: "off" },
    },
    log: join(folder, "log"),
    isReady: async () => (await fetch(`${url}/ready`).catch(() => null))?.status === 200,
  });
  onTestFinished(() => program.kill());
  const statusOf = async (path: string) => (await fetch(url + path)).status;
  expect(await statusOf("/rest/v1/articles?limit=1")).toBe(200);
  const query = async (text: string) => (await fetch(`${url}/graphql?query=${encodeURIComponent(text)}`)).json();
  expect(await query("{ articles { totalCount } }")).toEqual({
    data: { articles: { totalCount: expect.any(Number) } },
  });
  const aggregates = await query("{ articles { aggregates { count } } }");
  expect(aggregates).toHaveProperty(name === "graphql-extras" ? "errors" : "data");
  expect(await statusOf("/tasks")).toBe(name === "tasks" ? 404 : 401);
  expect(await statusOf("/openapi.json")).toBe(name === "openapi" ? 404 : 200);
  for (const path of part.paths ?? []) expect([path, await statusOf(path.replace("/*", ""))]).toEqual([path, 404]);
  for (const key of Object.keys(part.authRoutes ?? {})) {
    const path = splitKey(key)[1].replace(/\{\w+\}/g, "x");
    expect([path, (await fetch(url + path, { method: "OPTIONS" })).status]).toEqual([path, 404]);
  }
  expect(readFileSync(join(folder, "log"), "utf8")).not.toMatch(/"level":"(error|fatal)"/);
});
