import { describe, expect, test } from "vitest";
import { useResources } from "../../support/resource-client.ts";

const { api, body, failure } = useResources();

describe("an invalid parameter of a page is 400 BAD_REQUEST with its name", () => {
  const integer = (query: string): Row => [query, query.split("=")[0], "must be an integer of 0 or more"];
  const noText = (query: string): Row => [query, undefined, "parameters must be valid UTF-8 without NUL"];
  type Row = [query: string, field: string | undefined, fault: string];
  test.each<Row>([
    ...["skip=-1", "skip=", "skip=true", "page=-1", "size=-1", "limit=-1", "limit=1e3", "limit=1.0"].map(integer),
    ...["limit=0x10", "limit=+5", "limit=%2B5", "limit=%205", "limit=%EF%BC%95"].map(integer),
    ...["limit=all", "limit=", "limit"].map(integer),
    ["limit=1&limit=2", "limit", "must not be given twice"],
    ["limit=1&limit=1", "limit", "must not be given twice"],
    ["page=0&limit=10", "page", "must be 1 or more when used with limit"],
    ["page=1&limit=0", "limit", "must be 1 or more when used with page"],
    ["size=0", "size", "must be 1 or more when used with page"],
    [`keyword=${"x".repeat(10_001)}`, "keyword", "may have at most 10000 characters"],
    ["skip=0&page=0", undefined, "use either skip and limit, or page"],
    ["skip=0&limit=5&page=1", undefined, "use either skip and limit, or page"],
    ["size=5&limit=5", undefined, "use either page and size, or limit"],
    ["size=5&skip=5", undefined, "use either page and size, or limit"],
    ...["limit=%FF", "keyword=%00", "keyword=a%00b", "keyword=%ff", "keyword=%C3%28", "keyword=%C0%AF"].map(noText),
  ])("?%s", async (query, field, fault) => {
    const { status, json } = await api(`/users?${query}`);
    const message = field ? `${field} ${fault}` : fault;
    expect([status, json.error.code, json.error.message]).toEqual([400, "BAD_REQUEST", message]);
    expect(json.error.fields).toEqual(field && { [field]: message });
  });

  test.each([
    ["skip=0", 'unknown parameter "skip"'],
    ["size=10", 'unknown parameter "size"'],
    ["page=0", "page must be 1 or more"],
    ["page=one", "page must be an integer of 0 or more"],
    ["limit=0", "limit must be 1 or more"],
    ["limit=1.5", "limit must be an integer of 0 or more"],
  ])("?%s in version 2", async (query, message) => {
    const [status, code, received] = await failure(`/api/v2/users?${query}`);
    expect([status, code, received.startsWith(message)]).toEqual([400, "BAD_REQUEST", true]);
  });
});

const STATUS = "status must be one of DRAFT, PUBLISHED, ARCHIVED";
const time = (text: string): [string, string] => [
  `articles?created_after=${text}`,
  "created_after must be a time such as 2026-11-20T08:30:00Z",
];
const TWICE = "must not be given twice";
const noField = (name: string, of = "articles") => `"${name}" is not a field of ${of}: use id, `;

// In both versions, and for fields also of one record.
test.each([
  ["articles?status=draft", STATUS],
  ["articles?status=", STATUS],
  ["articles?author=ada", "author must be a whole number"],
  ["articles?author=", "author must be a whole number"],
  ["articles?author=1.5", "author must be a whole number"],
  ["articles?author=99999999999999999999", "author must be a whole number"],
  ["users?age=99999999999", "age must be a whole number"],
  ["users?age=old", "age must be a whole number"],
  ...["yesterday", "", "1700000000", "2026-13-01", "2026-02-30", "0000-01-01", "infinity"].map(time),
  ...["2026-02-29T00:00:00Z", "2026-11-01T25:00:00Z", "2026-11-01T12:00:00%2B99:00"].map(time),
  time("2026-11-01T12:00:00+01:00"), // the + is a blank
  ["articles?created_after=2020-01-01&createdAfter=2021-01-01", TWICE],
  ["articles?status=DRAFT&status=PUBLISHED", `status ${TWICE}`],
  ["comments?article=x", "article must be a whole number"],
  ["articles?title=x", 'unknown parameter "title"'],
  ["comments?status=DRAFT", 'unknown parameter "status"'],
  ["articles/1?status=DRAFT", 'unknown parameter "status"'],
  ["users?Limit=5", 'unknown parameter "Limit": use fields, sort, order, keyword, '],
  ["users?=1", 'unknown parameter ""'],
  ["users/1?limit=1", 'unknown parameter "limit"'],

  ["users?sort=nope", 'cannot sort users by "nope": use id, name, email, age, created'],
  ["users?sort=", 'cannot sort users by ""'],
  ["users?sort=name,", 'cannot sort users by ""'],
  ["users?sort=avatar_url", 'cannot sort users by "avatar_url"'],
  ["users?sort=name:up", 'the direction in sort must be asc or desc, not "up"'],
  ["users?sort=name:", 'the direction in sort must be asc or desc, not ""'],
  ["users?sort=name:DESC", 'the direction in sort must be asc or desc, not "DESC"'],
  ["users?sort=name:asc:desc", 'cannot sort users by "name:asc:desc"'],
  ["users?sort=name,name:desc", "sort must not name a field twice"],
  ["users?sort=created_at,createdAt", "sort must not name a field twice"],
  ["users?sort=-name", 'cannot sort users by "-name"'],
  ["users?sort=name%20desc", 'cannot sort users by "name desc"'],
  ["users?sort=id;drop table users", "cannot sort users by"],
  ["users?order=up", 'the direction in order must be asc or desc, not "up"'],
  ["users?order=", 'the direction in order must be asc or desc, not ""'],
  ["articles?sort=content", 'cannot sort articles by "content"'],
  ["comments?sort=content", 'cannot sort comments by "content"'],

  ...["articles", "articles/1"].flatMap((path): [string, string][] => [
    [`${path}?fields=nope`, noField("nope")],
    [`${path}?fields=`, noField("")],
    [`${path}?fields=id,`, noField("")],
    [`${path}?fields=,id`, noField("")],
    [`${path}?fields=ID`, noField("ID")],
    [`${path}?fields=author.nope`, noField("nope", "users")],
    [`${path}?fields=author.`, noField("", "users")],
    [`${path}?fields=.name`, noField("")],
    [`${path}?fields=author.name.first`, "name has no fields"],
    [`${path}?fields=title.first`, "title has no fields"],
    [`${path}?fields=_links.self`, "_links has no fields"],
    [`${path}?fields=comments`, noField("comments")],
    [`${path}?fields=author.avatar_url`, noField("avatar_url", "users")],
    [`${path}?fields=constructor`, noField("constructor")],
    [`${path}?fields=__proto__`, noField("__proto__")],
    [`${path}?fields=author.a.b.c.d`, "fields must go through at most 3 relations"],
    [`${path}?fields=author.a.b.c`, noField("a", "users")],
    [`${path}?fields=id" from users--`, "is not a field of articles"],
    [`${path}?fields=*`, noField("*")],
  ]),
])("%s is 400 in both versions", async (path, message) => {
  for (const prefix of ["/", "/api/v2/"]) {
    const [status, code, received] = await failure(prefix + path);
    expect([status, code]).toEqual([400, "BAD_REQUEST"]);
    expect(received).toContain(message);
  }
});

test.each([
  ["/users?sort=nope", /use id, name, email, age, created_at, updated_at, each/],
  ["/api/v2/users?sort=nope", /use id, name, email, age, createdAt, updatedAt, each/],
  ["/articles?nope=1", /tag, created_after, created_before, version/],
  ["/api/v2/articles?nope=1", /tag, createdAfter, createdBefore, version/],
  ["/comments?nope=1", /use fields, sort, order, keyword, skip, limit, page, size, article, author, version, api_key$/],
  ["/articles?fields=nope", /use id, author_id, title, content, status, tags, created_at, updated_at, author, _links$/],
  ["/api/v2/articles?fields=nope", /id, authorId, title, content, status, tags, createdAt, updatedAt, author, _links$/],
  ["/api/v2/comments/1?fields=nope", /use id, articleId, authorId, content, createdAt, article, author, _links$/],
])("the error of %s lists the names in the spelling of the version: %s", async (path, names) =>
  expect((await failure(path))[2]).toMatch(names),
);

test.each<[request: string, body?: unknown]>([
  ["POST /articles?fields=nope", { title: "A new title", content: "…" }],
  ["DELETE /articles/1?fields=id"],
  ["DELETE /users/1?force=true"],
  ["POST /users?upsert=true", { name: "x", email: "x@test.example" }],
  ["GET /users?%FF=1"],
])("%s is 400 before anything is written", async (request, sent) => {
  const totals = async () => [
    (await body("/articles")).pagination.total,
    (await body("/users?page=1&limit=1")).pagination.total,
  ];
  const before = await totals();
  expect((await failure(request, { as: "admin", ...(sent !== undefined && { body: sent }) })).slice(0, 2)).toEqual([
    400,
    "BAD_REQUEST",
  ]);
  expect(await totals()).toEqual(before);
});
