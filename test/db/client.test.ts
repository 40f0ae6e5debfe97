import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import pg from "pg";
import { expect, inject, onTestFinished, test } from "vitest";
import { withOwner } from "../../cli/command.ts";
import { withClient } from "../../db/cluster/client.ts";
import { PrimaryClient } from "../../db/wire/primary.ts";

type With = (url: string, work: (client: pg.Client) => Promise<unknown>) => Promise<unknown>;

test.each<[string, With]>([
  ["of the service", withClient],
  ["of a command", (url, work) => withOwner({ databaseUrl: url, dataDir: "" }, work)],
])(
  "a connection %s that the server ends between two queries fails the next one, and does not end the process",
  async (_, withConnection) => {
    const url = inject("clusterUrl");
    const failing = withConnection(url, async (client) => {
      const { rows } = await client.query("select pg_backend_pid() as pid");
      const ended = new Promise((resolve) => client.once("end", resolve));
      await withClient(url, (other) => other.query("select pg_terminate_backend($1)", [rows[0].pid]));
      await ended;
      await client.query("select");
    });
    await expect(failing).rejects.toThrow("not queryable");
  },
);

test("a connection of a pool does not keep the result of the query that it was opened for", async () => {
  const pool = new pg.Pool({ Client: PrimaryClient, connectionString: inject("clusterUrl"), max: 1 });
  onTestFinished(() => pool.end());
  const rows = new WeakRef(await pool.query("select repeat('x', 1000000) as text").then((result) => result.rows));
  await pool.query("select");
  setFlagsFromString("--expose-gc");
  runInNewContext("gc")();
  expect(rows.deref()).toBeUndefined();
});
