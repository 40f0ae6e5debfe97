import { expect, inject, test } from "vitest";
import { withClient } from "../../db/cluster/client.ts";

test("a connection that the server ends between two queries fails the next one, and does not end the process", async () => {
  const url = inject("clusterUrl");
  const failing = withClient(url, async (client) => {
    const { rows } = await client.query("select pg_backend_pid() as pid");
    const ended = new Promise((resolve) => client.once("end", resolve));
    await withClient(url, (other) => other.query("select pg_terminate_backend($1)", [rows[0].pid]));
    await ended;
    await client.query("select");
  });
  await expect(failing).rejects.toThrow("not queryable");
});
