import pino from "pino";
import { expect, onTestFinished, test } from "vitest";
import { startTrackit } from "./trackit.ts";

// The columns that the resource /users reads.
const AS_OURS = `
  alter table public.users add name text, add age int;
  grant select on public.users to trackit_anon;
  create policy "everyone sees users" on public.users for select to trackit_anon using (true)`;

const PATHS = ["users", "articles", "comments", "api/v2/users", "openapi.json", "api/v2/openapi.json", "tasks"];

test.each([
  ["that do not match", ""],
  ["that match", AS_OURS],
])(
  "tables with the names of resources, and columns %s, are no resources, and the log has no error",
  async (_what, change) => {
    const errors: string[] = [];
    const log = pino({ level: "error" }, { write: (line: string) => errors.push(line) });
    const trackit = await startTrackit({ GRAPHQL_MAX_TABLES: "0", DOCS: "on" }, log, change);
    onTestFinished(() => trackit.stop());
    const answerAt = async (path: string) => {
      const response = await fetch(`${trackit.url}/${path}`);
      const { error } = (await response.json()) as any;
      return [response.status, error.code, error.message];
    };
    const unknown = await answerAt("no/such/path");
    expect(unknown[0]).toBe(404);
    for (const path of PATHS) expect([path, ...(await answerAt(path))]).toEqual([path, ...unknown]);
    expect(await (await fetch(`${trackit.url}/docs`)).text()).toContain('data-versions=""');
    expect((await trackit.rest("users?select=id", { as: 1 })).status).toBe(200);
    expect(errors).toEqual([]);
  },
);
