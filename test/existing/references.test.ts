import { afterAll, beforeAll, expect, test } from "vitest";
import { startTrackit, type Trackit } from "./trackit.ts";

let trackit: Trackit;
beforeAll(async () => {
  trackit = await startTrackit(
    {},
    undefined,
    `
    create table public.labels (id int primary key, name text);
    create table public.marks (id int primary key, label_id int references public.labels, note text);
    comment on column public.marks.label_id is E'@name used';
    create table public.secrets (label_id int references public.labels);
    create table public.nodes (id int primary key, parent int references public.nodes on delete restrict);
    comment on constraint nodes_parent_fkey on public.nodes is 'no such parent';
    grant all on public.labels, public.marks, public.nodes to trackit_user;
    insert into public.labels (id) values (1), (2), (3);
    insert into public.marks (id, label_id) values (1, 1);
    insert into public.secrets (label_id) values (2);
    insert into public.nodes values (1, null), (2, 1);`,
  );
});
afterAll(() => trackit?.stop());

/** Message and fields of the only error of a mutation, or the result. */
async function gql(mutation: string) {
  const { data, errors } = await trackit.gql(`mutation { ${mutation} }`, { as: 1 });
  if (!errors) return Object.values(data)[0];
  const [{ message, extensions }] = errors as any;
  return [extensions.code, message, ...(extensions.fields ? [extensions.fields] : [])];
}

const conflict = (field: string, message: string, constraint: string) => [
  "RESOURCE_CONFLICT",
  message,
  [{ field, message, code: "RESOURCE_CONFLICT", constraint }],
];
const MISSING = conflict("used", "label_id refers to a record that does not exist", "marks_label_id_fkey");
const USED = ["RESOURCE_CONFLICT", "rows of marks refer to this record"];

test("a row that refers to one that does not exist names its field", async () => {
  expect(await gql("createMark(input: { id: 9, used: 99 }) { id }")).toEqual(MISSING);
  expect(await gql("updateMark(id: 1, input: { used: 99, note: null }) { id }")).toEqual(MISSING);
  const [, message] = MISSING;
  const error = { index: 1, field: "used", message, code: "RESOURCE_CONFLICT" };
  expect(
    await gql("createMarks(input: [{ id: 8, used: 1 }, { id: 9, used: 99 }]) { errors { index field message code } }"),
  ).toEqual({ errors: [error] });
  expect(await gql("updateNode(id: 2, input: { parent: 99 }) { id }")).toEqual(
    conflict("parent", "no such parent", "nodes_parent_fkey"),
  );
});

test("a row to which others refer says so, and names their table if the caller may read it", async () => {
  expect(await gql("deleteLabel(id: 1)")).toEqual(USED);
  expect(await gql("updateLabel(id: 1, input: { id: 5 }) { id }")).toEqual(
    conflict("id", USED[1]!, "marks_label_id_fkey"),
  );
  const error = { index: null, field: null, message: USED[1], code: "RESOURCE_CONFLICT" };
  expect(
    await gql("deleteLabels(filter: { id: { equalTo: 1 } }, limit: 1) { errors { index field message code } }"),
  ).toEqual({ errors: [error] });
  expect(await gql("deleteNode(id: 1)")).toEqual(["RESOURCE_CONFLICT", "rows of nodes refer to this record"]);
  expect(await gql("updateNode(id: 1, input: { id: 5 }) { id }")).toEqual(
    conflict("id", "rows of nodes refer to this record", "nodes_parent_fkey"),
  );
  expect(await gql("deleteLabel(id: 2)")).toEqual(["RESOURCE_CONFLICT", "other data refers to this record"]);
  expect(await gql("deleteLabel(id: 3)")).toBe(true);
});

test("the table interface has the text of Postgres, and the comment of the foreign key only where it applies", async () => {
  expect(
    await trackit.rest("nodes", {
      body: [
        { id: 7, parent: null },
        { id: 8, parent: 99 },
      ],
      as: 1,
    }),
  ).toMatchObject({
    status: 409,
    json: { code: "23503", details: expect.stringMatching(/^in \[1\]\.parent: /), hint: "no such parent" },
  });
  const update = { method: "PATCH", body: { id: 5 }, as: 1 };
  for (const sent of [{ method: "DELETE", as: 1 }, update]) {
    const { status, json } = await trackit.rest("nodes?id=eq.1", sent);
    expect([status, json.message, json.hint]).toEqual([409, expect.stringContaining('on table "nodes"'), null]);
  }
  expect((await trackit.rest("marks?id=eq.1", { ...update, body: { label_id: 99 } })).json.details).toContain(
    "(label_id)=(99)",
  );
});
