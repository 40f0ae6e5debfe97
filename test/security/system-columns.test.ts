import { expect, test } from "vitest";
import { EventStreamClient } from "../support/event-stream.ts";
import { observing, useRealtime } from "../support/realtime.ts";

const COLUMNS = ["xmin", "tableoid", "ctid"] as const;

const { client, service, sql } = useRealtime(
  { GRAPHQL_DOCUMENTS: "none" },
  COLUMNS.map(
    (column) => `
      create table public.by_${column} (id int primary key);
      alter table public.by_${column} enable row level security;
      grant select on public.by_${column} to anon;
      create policy "hidden rule" on public.by_${column} using (${column} is not null and id > 0);`,
  ).join("\n"),
);

test.each(COLUMNS)("a policy that reads %s hides changes, and its text from subscribers", async (column) => {
  const table = `by_${column}`;
  const channel = await observing(client(), table, [{ event: "*", schema: "public", table }]);
  const headers = { apikey: service().service.tokens.issueKey("anon") };
  const stream = new EventStreamClient(`${service().url}/rest/v1/${table}`, { headers });
  await stream.take(1, "snapshot");
  await sql(`insert into public.${table} values (1)`);
  const message = "the policy cannot be decided for changes";
  await expect
    .poll(() => channel.system.at(-1)?.message)
    .toBe(`a policy of public.${table} failed, so changes are not sent: ${message}`);
  expect((await stream.take(1, "problem"))[0]!.data).toEqual({ message });
  // Requests see the row.
  const rows = await fetch(`${service().url}/rest/v1/${table}`, { headers });
  expect(await rows.json()).toEqual([{ id: 1 }]);
});
