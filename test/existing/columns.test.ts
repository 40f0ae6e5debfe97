import { afterAll, beforeAll, expect, test } from "vitest";
import { projectId, startTrackit, type Trackit, taskId } from "./trackit.ts";

let trackit: Trackit;
beforeAll(async () => {
  trackit = await startTrackit();
});
afterAll(() => trackit.stop());

test("a foreign key is a field beside the row that it refers to", async () => {
  const query = `{ task(id: "${taskId(10)}") { projectId project { id } assigneeId }
    members(first: 1) { edges { node { organisationId userId role } } } }`;
  const { data, errors } = await trackit.gql(query, { as: 5 });
  expect(errors).toBeUndefined();
  // A policy hides the project.
  expect(data.task).toEqual({ projectId: projectId(10), project: null, assigneeId: expect.any(String) });
  const { json } = await trackit.rest("members?limit=1&select=organisationId:organisation_id,userId:user_id", {
    as: 5,
  });
  expect(data.members.edges[0].node).toEqual({ ...json[0], role: "owner" });
});
