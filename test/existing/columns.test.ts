import { afterAll, beforeAll, expect, test } from "vitest";
import { projectId, startTrackit, type Trackit, taskId } from "./trackit.ts";

let trackit: Trackit;
beforeAll(async () => {
  trackit = await startTrackit();
});
afterAll(() => trackit.stop());

test("a BigInt may be a string or a number that is exact", async () => {
  const query = (size: string) => `{ attachments(filter: { sizeBytes: { equalTo: ${size} } }) { totalCount } }`;
  const counts = await Promise.all(
    ['"1004"', "1004", "9007199254740993"].map((size) => trackit.gql(query(size), { as: 5 })),
  );
  const [exact, number, none] = counts.map(({ data }) => data.attachments.totalCount);
  expect(exact).toBeGreaterThan(0);
  expect([number, none]).toEqual([exact, 0]);
  const variable = async (size: unknown) =>
    trackit.gql("query ($size: BigInt) { attachments(filter: { sizeBytes: { equalTo: $size } }) { totalCount } }", {
      as: 5,
      variables: { size },
    });
  for (const size of ["1004", 1004]) expect((await variable(size)).data.attachments.totalCount).toBe(exact);
  for (const size of [1.5, 2 ** 53, true, { text: "1" }]) {
    const { errors } = await variable(size);
    expect(errors).toMatchObject([{ extensions: { code: "VALIDATION_ERROR" } }]);
    expect(errors![0]!.message).toContain("a BigInt must be an integer");
  }
});

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
