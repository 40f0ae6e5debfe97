import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { nodeStart } from "./support/command.ts";
import { createTestDatabase } from "./support/database.ts";
import { processesNamed } from "./support/processes.ts";
import { JWT_SECRET } from "./support/service.ts";

test("npm start serves GraphQL and REST to a user who signs in, and stops on SIGTERM without leaving a process", async () => {
  const dataDir = mkdtempSync(join(tmpdir(), "content-service-start-"));
  onTestFinished(() => rmSync(dataDir, { recursive: true, force: true }));
  const database = await createTestDatabase();
  onTestFinished(() => database.drop());
  const command = nodeStart({ dataDir, settings: { DATABASE_URL: database.url, JWT_SECRET, API_KEY_REQUIRED: "off" } });
  await command.ready();
  const token = await command.login();
  expect((await command.gql("{ me { id name } }", { token })).data).toEqual({ me: { id: "1", name: "Ada Lovelace" } });
  const headers = { authorization: `Bearer ${token}` };
  const read = async (path: string) => (await fetch(command.url + path, { headers })).json();
  expect(await read("/users/1")).toMatchObject({ id: 1, name: "Ada Lovelace" });
  expect(await read("/rest/v1/users?id=eq.1&select=name")).toEqual([{ name: "Ada Lovelace" }]);
  command.child.kill("SIGTERM");
  expect(await command.exited()).toBe(0);
  expect(processesNamed("server.ts", command.child.pid!)).toEqual([]);
});
