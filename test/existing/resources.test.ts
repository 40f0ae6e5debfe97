import pino from "pino";
import { expect, onTestFinished, test } from "vitest";
import { defineResource, defineRoute } from "../../app/index.ts";
import { startApplication } from "./application.ts";
import { claimsOf, startTrackit, TRACKIT } from "./trackit.ts";

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
    const trackit = await startTrackit({ GRAPHQL_DOCUMENTS: "none", PARTS: "+site,+reference" }, log, change);
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

test("an application has resources and routes without accounts, with the rules of the database", async () => {
  const projects = defineResource({
    name: "projects",
    singular: "project",
    about: "What is worked on.",
    table: "public.projects",
    fields: { id: {}, name: {} },
    order: [{ field: "name", direction: "asc" }],
    hasAccount: true,
  });
  const count = defineRoute({
    path: "/count",
    methods: { GET: async (_request, _response, { db }) => (await db.query("select count(*) from projects"))[0] },
  });
  const definition = { folder: null, config: { resources: [projects], routes: [count] } };
  const trackit = await startApplication(TRACKIT, { definition });
  onTestFinished(() => trackit.stop());
  const get = async (path: string, as?: number) => {
    const headers = as === undefined ? {} : { authorization: `Bearer ${trackit.token(claimsOf(as))}` };
    const response = await fetch(`${trackit.url}${path}`, { headers });
    return { status: response.status, json: (await response.json()) as any };
  };

  const { total } = (await get("/projects", 1)).json.pagination;
  expect(total).toBeGreaterThan(0);
  expect((await get("/count", 1)).json).toEqual({ count: String(total) });
  expect((await get("/projects")).status).toBe(401);
  expect((await get("/count")).status).toBe(401);
  const { paths, tags } = (await get("/openapi.json")).json;
  expect(Object.keys(paths)).toEqual(["/projects", "/projects/{projectId}", "/count"]);
  expect(tags.map(({ name }: { name: string }) => name)).toEqual(["projects", "application"]);
  expect((await get("/auth/login")).status).toBe(404);
});
