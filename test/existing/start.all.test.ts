import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { nodeStart } from "../support/command.ts";
import { POLL } from "../support/until.ts";
import { projectId, startTrackit, type Trackit } from "./trackit.ts";

let trackit: Trackit;
beforeAll(async () => {
  trackit = await startTrackit();
});
afterAll(() => trackit.stop());

test("a user reads the rows of their organisation over REST and GraphQL", async () => {
  const { json } = await trackit.rest("projects?select=id", { as: 1 });
  expect(json).toEqual([1, 6].map((n) => ({ id: projectId(n) })));
  const { data } = await trackit.gql("{ projects { edges { node { id } } } }", { as: 1 });
  expect(data.projects.edges.map(({ node }: any) => node)).toEqual(json);
});

test("an anonymous caller reads only what the application grants to everyone", async () => {
  expect(await trackit.rest("plans?select=code")).toMatchObject({ status: 200, json: { length: 3 } });
  expect((await trackit.rest("projects")).status).toBe(401);
});

test.each([
  ["one process", {}],
  ["worker processes", { WORKERS: "2" }],
])(
  "npm start prints the URLs when it is ready, and then the warnings about the database, with %s",
  async (_what, settings) => {
    const dataDir = await mkdtemp(join(tmpdir(), "start-"));
    onTestFinished(() => rm(dataDir, { recursive: true, force: true }));
    const { loginUrl, secret, role } = trackit;
    const command = nodeStart({
      dataDir,
      settings: {
        ...{ DATABASE_URL: loginUrl, MIGRATE: "off", DB_ANON_ROLE: role("anon"), JWT_SECRET: secret, ...settings },
      },
    });
    await command.ready();
    expect((await fetch(`${command.url}/health`)).status).toBe(200);
    await expect.poll(async () => (await fetch(`${command.url}/ready`)).status, POLL).toBe(200);
    for (const warning of ["the advisor has findings", "changes cannot be read"])
      await expect.poll(() => command.stdout, POLL).toContain(warning);
    expect(command.stdout.indexOf("  Tables")).toBeLessThan(command.stdout.indexOf("the advisor has findings"));
    const advising = command.logged.filter(({ msg }) => msg.startsWith("the advisor has findings"));
    expect(new Set(advising.map(({ pid }) => pid)).size).toBe(1);
  },
);
