import { beforeAll, beforeEach, expect, test } from "vitest";
import { useService } from "../support/http-client.ts";

const { content, gql, send, service, sql, token } = useService();

/** Refuses a comment when its transaction commits. */
beforeAll(async () => {
  await sql(`
    create function public.refuse_late() returns trigger language plpgsql as $$
    begin
      if new.content = 'late' then raise sqlstate 'PT422' using message = 'too late', detail = 'closed', hint = 'come earlier'; end if;
      return null;
    end $$;
    create constraint trigger refuse_late after insert or update on public.comments deferrable initially deferred
      for each row execute function public.refuse_late();
    grant update (content) on public.comments to authenticated;`);
});

let before: string;
let id: string;
beforeEach(async () => {
  [{ id }] = (await sql(
    "insert into comments (article_id, author_id, content) values (1, 1, 'in time') returning id",
  )) as any;
  before = await content();
});

const LATE = { article_id: 1, content: "late" };
const OBJECT = "application/vnd.pgrst.object+json";
const TABLE: [request: string, body: unknown, headers?: Readonly<Record<string, string>>][] = [
  ["POST /rest/v1/comments", LATE],
  ["POST /rest/v1/comments", LATE, { prefer: "return=representation" }],
  ["POST /rest/v1/comments", LATE, { prefer: "return=headers-only" }],
  ["POST /rest/v1/comments", LATE, { prefer: "return=representation, tx=rollback" }],
  ["POST /rest/v1/comments?select=id,articles(title)", LATE, { prefer: "return=representation", accept: OBJECT }],
  [
    "POST /rest/v1/comments",
    [LATE, { article_id: 1, content: "fine" }],
    { prefer: "return=representation", accept: "text/csv" },
  ],
  ["POST /rest/v1/comments", "article_id,content\n1,late", { "content-type": "text/csv" }],
  ["PATCH /rest/v1/comments?id=eq.ID", { content: "late" }, { prefer: "return=representation" }],
  [
    "PATCH /rest/v1/comments?id=eq.ID",
    { content: "late" },
    { prefer: "return=representation", accept: "application/x-ndjson" },
  ],
  ["POST /rest/v1/rpc/create_comment", LATE],
  ["POST /rest/v1/rpc/create_comment?select=id", LATE],
];

const sent = (request: string, body: unknown, headers: Readonly<Record<string, string>> = {}) => {
  const [method = "", path = ""] = request.replace("ID", id).split(" ");
  const apikey = service().service.tokens.issueKey("anon");
  return send(path, {
    method,
    headers: { apikey, authorization: `Bearer ${token("ada")}`, "content-type": "application/json", ...headers },
    body: typeof body === "string" ? body : JSON.stringify(body),
  });
};

test.each(TABLE)("a commit that fails is the response of %s with %j %j", async (request, body, headers) => {
  const { status, json } = await sent(request, body, headers);
  expect([status, json]).toEqual([
    422,
    { code: "PT422", message: "too late", details: "closed", hint: "come earlier" },
  ]);
  expect(await content()).toBe(before);
});

test.each([
  ["POST /articles/1/comments", { content: "late" }],
  ["POST /api/v2/articles/1/comments", { content: "late" }],
  ["PATCH /comments/ID", { content: "late" }],
])("a commit that fails is the response of %s", async (request, body) => {
  const { status, json } = await sent(request, body);
  expect([status, json.error.message]).toEqual([422, "too late"]);
  expect(await content()).toBe(before);
});

test.each([
  'createComment(articleId: 1, content: "late") { id }',
  'updateComment(id: ID, input: { content: "late" }) { id author { name } }',
])("a commit that fails is the error of %s", async (field) => {
  const { data, errors } = await gql(`mutation { ${field.replace("ID", id)} }`, { as: "ada" });
  expect(data).toBeNull();
  expect(errors).toMatchObject([
    { message: "too late", extensions: { code: "PT422", detail: "closed", hint: "come earlier" } },
  ]);
  expect(await content()).toBe(before);
});

test.each([
  'createComments(input: [{ articleId: 1, content: "fine" }, { articleId: 1, content: "late" }])',
  'updateComments(filter: { id: { equalTo: ID } }, limit: 1, input: { content: "late" })',
])("a commit that fails is the result of %s", async (field) => {
  const query = `mutation { result: ${field.replace("ID", id)} { success count comments { id } errors { message code } } }`;
  const { data, errors } = await gql(query, { as: "ada" });
  expect(errors ?? data.result).toEqual({
    ...{ success: false, count: 0, comments: [] },
    errors: [{ message: "too late", code: "PT422" }],
  });
  expect(await content()).toBe(before);
});
