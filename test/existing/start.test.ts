import { afterAll, beforeAll, expect, test } from "vitest";
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
