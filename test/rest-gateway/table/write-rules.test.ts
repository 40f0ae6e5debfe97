import { beforeEach, describe, expect, test } from "vitest";
import { type RestSent, useRest } from "../../support/rest-client.ts";

const { failure, rest, rows, service, sql } = useRest(
  { GRAPHQL_DOCUMENTS: "any" },
  `create table public.diaries (id integer primary key, owner text default auth.uid()::text, note text);
   alter table public.diaries enable row level security;
   create policy "read" on public.diaries for select using (note <> 'secret');
   create policy "write" on public.diaries for insert with check (owner = auth.uid()::text);
   create policy "change" on public.diaries for update using (owner = auth.uid()::text);
   create policy "remove" on public.diaries for delete using (owner = auth.uid()::text);
   create table public.bookings (
     id integer primary key, seats integer not null, span int4range, article_id bigint references public.articles,
     constraint bookings_seats_check check (seats between 1 and 8),
     constraint bookings_span_excl exclude using gist (span with &&)
   );
   comment on constraint bookings_seats_check on public.bookings is E'@name seats\\nat most 8 seats can be booked';
   create function public.refuse() returns trigger language plpgsql as $$
   begin
     if new.seats = 7 then raise exception 'seven is taken' using hint = 'Take six.', detail = 'It always is.'; end if;
     if new.seats = 6 then raise sqlstate 'PT402' using message = 'Payment required'; end if;
     return new;
   end $$;
   create trigger _100_refuse before insert on public.bookings for each row execute function public.refuse();
   create table public.parcels (id integer primary key, weight integer, secret_code text, weight_limit integer);
   grant select (id, weight), insert (id, weight_limit) on public.parcels to anon;
   grant all on public.parcels to authenticated;
   grant all on public.diaries, public.bookings to anon, authenticated, service_role`,
);

const REPRESENTATION = "return=representation";

/** The rows of all tables that the tests write to. */
const content = () =>
  sql(`select 'user' as kind, u::text as row from users as u union all select 'article', a::text from articles as a
       union all select 'comment', c::text from comments as c union all select 'diary', d::text from diaries as d
       union all select 'booking', b::text from bookings as b order by 1, 2`);

/** The status and code with which a request is refused; nothing may be written. */
async function refused(path: string, sent: RestSent): Promise<[status: number, code: string]> {
  const before = await content();
  const answer = await failure(path, sent);
  expect(await content()).toEqual(before);
  return answer;
}

const ARTICLE = { title: "A new title", content: "Some content." };

test.each([
  ["POST", "articles", { ...ARTICLE, author_id: 2 }, "authenticated may not insert author_id"],
  ["PATCH", "articles?id=eq.1", { author_id: 2, tags: [] }, "authenticated may not update author_id"],
  ["DELETE", "users?id=eq.2", undefined, null],
])("%s %s with %j: a missing permission names the column if the body does", async (method, path, body, hint) => {
  const { json } = await rest(path, { method, body, as: "ada" });
  expect([json?.code ?? null, json?.hint ?? null]).toEqual([hint && "42501", hint]);
});

test("a missing permission names no column to a caller who may not write the table, nor one that is not in the body", async () => {
  const { json } = await rest("articles", { body: ARTICLE });
  expect([json.code, json.hint]).toEqual(["42501", null]);
  const upsert = { body: { article_id: 1, language: "de", title: "Ein Titel" }, prefer: "resolution=merge-duplicates" };
  const { json: merged } = await rest("article_translations", { ...upsert, as: "ada" });
  expect([merged.code, merged.hint]).toEqual(["42501", "authenticated may not update article_id, language"]);
});

test("a comment of another user is refused on each interface as docs/errors.md says", async () => {
  const before = await content();
  const { url, token } = service();
  const send = async (method: string, path: string, body?: unknown) => {
    const headers = { authorization: `Bearer ${token("bob")}`, "content-type": "application/json" };
    const response = await fetch(`${url}${path}`, { method, headers, ...(body ? { body: JSON.stringify(body) } : {}) });
    return { status: response.status, json: (await response.json()) as any };
  };
  const graphql = async (query: string) => (await send("POST", "/graphql", { query: `mutation { ${query} }` })).json;
  const [{ id }] = await sql("select id from comments where author_id = 1");
  const { errors } = await graphql(`updateComment(id: ${id}, input: { content: "Mine" }) { id }`);
  expect(errors[0].extensions.code).toBe("RESOURCE_NOT_FOUND");
  expect(await graphql(`deleteComment(id: ${id})`)).toEqual({ data: { deleteComment: false } });
  const many = await graphql(`deleteComments(filter: { id: { equalTo: ${id} } }, limit: 1) { success count }`);
  expect(many.data.deleteComments).toEqual({ success: true, count: 0 });
  for (const [method, body] of [["PATCH", { content: "Mine" }], ["DELETE"]] as const) {
    const { status, json } = await send(method, `/comments/${id}`, body);
    expect([method, status, json.error.code]).toEqual([method, 403, "PERMISSION_DENIED"]);
    const sent = { method, body, as: "bob" } as const;
    expect((await rest(`comments?id=eq.${id}`, sent)).status).toBe(204);
    expect(await rows(`comments?id=eq.${id}`, { ...sent, prefer: REPRESENTATION })).toEqual([]);
    const headers = { accept: "application/vnd.pgrst.object+json" };
    expect(await failure(`comments?id=eq.${id}`, { ...sent, prefer: REPRESENTATION, headers })).toEqual([
      406,
      "PGRST116",
    ]);
  }
  expect(await content()).toEqual(before);
});

describe("a misspelt name", () => {
  const hint = async (path: string, sent: RestSent = {}) => (await rest(path, sent)).json.hint;
  const merge = { prefer: "resolution=merge-duplicates" };

  test.each<[path: string, sent: RestSent, meant: string]>([
    ["articles?select=titel", {}, "Perhaps you meant the column 'title'."],
    ["articles?select=createdAt", {}, "Perhaps you meant the column 'created_at'."],
    ["articles?order=created", {}, "Perhaps you meant the column 'created_at'."],
    ["articles?titel=eq.x", {}, "Perhaps you meant the column 'title'."],
    ["articles?or=(statsu.eq.DRAFT,id.eq.1)", {}, "Perhaps you meant the column 'status'."],
    ["articles?select=id,users!author_id(nmae)", {}, "Perhaps you meant the column 'name'."],
    ["articles?select=autor(name)", {}, "Perhaps you meant 'users!author_id' instead of 'autor'."],
    ["articles?select=coments(id)", {}, "Perhaps you meant 'comments' instead of 'coments'."],
    ["articles", { body: { titel: "x" } }, "Perhaps you meant the column 'title'."],
    ["articles?columns=titel", { body: { titel: "x" } }, "Perhaps you meant the column 'title'."],
    ["articles?id=eq.1", { method: "PATCH", body: { staus: "DRAFT" } }, "Perhaps you meant the column 'status'."],
    ["articles?on_conflict=idd", { body: { title: "x" }, ...merge }, "Perhaps you meant the column 'id'."],
    [
      "articles",
      { body: { titel: "x", contnet: "y" } },
      "Perhaps you meant 'content' instead of 'contnet', 'title' instead of 'titel'.",
    ],
  ])("in %s %j is answered with the one that was meant", async (path, sent, meant) => {
    expect(await hint(path, { as: "ada", ...sent })).toBe(meant);
  });

  test("of several columns of a body is named with the others", async () => {
    const { json } = await rest("articles", { body: { titel: "x", contnet: "y", tags: [] }, as: "ada" });
    expect(json).toMatchObject({
      message: "Could not find the 'contnet' column of 'articles' in the schema cache",
      details: "Unknown columns: contnet, titel",
    });
  });

  test("is answered only with what the caller may use", async () => {
    // A refusal is kept from its second time on, with a hint for each role.
    for (let i = 0; i < 3; i++) {
      const own = await hint("parcels?select=secret_cod", { as: "ada" });
      expect(own).toBe("Perhaps you meant the column 'secret_code'.");
      expect(await hint("parcels?select=secret_cod")).toBeNull();
    }
    expect(await hint("parcels", { body: { weihgt: 1 }, as: "ada" })).toBe("Perhaps you meant the column 'weight'.");
    expect(await hint("parcels", { body: { weihgt: 1 } })).toBeNull();
    expect(await hint("parcels", { body: { weight_limt: 1 } })).toBe("Perhaps you meant the column 'weight_limit'.");
  });

  test("of a relationship without a similar one is answered with all that the caller may read", async () => {
    expect(await hint("articles?select=publisher(id)")).toBe(
      "'articles' has relationships with article_translations, articles_related_articles, bookings, comments, users.",
    );
  });
});

test("JSON that is sent as a form is refused with the Content-Type to send", async () => {
  const form = { headers: { "content-type": "application/x-www-form-urlencoded" } };
  const hint =
    "The body is JSON, but its Content-Type is application/x-www-form-urlencoded: send Content-Type: application/json.";
  for (const path of ["articles", "rpc/search"]) {
    const { json } = await rest(path, { body: '{"title": "A new title", "tags": ["a=b&c"]}', as: "ada", ...form });
    expect([path, json.code, json.hint]).toEqual([path, path === "articles" ? "PGRST204" : "PGRST202", hint]);
  }
});

describe("row-level security", () => {
  beforeEach(() =>
    sql("truncate diaries; insert into diaries values (1, '1', 'mine'), (2, '2', 'yours'), (3, '2', 'secret')"),
  );

  test.each([
    ["a new row of another owner", "diaries", { body: { id: 4, owner: "2" } }],
    [
      "several new rows of which one has another owner",
      "diaries",
      {
        body: [
          { id: 4, owner: "1" },
          { id: 5, owner: "2" },
        ],
      },
    ],
    ["a change of the owner", "diaries?id=eq.1", { method: "PATCH", body: { owner: "2" } }],
    [
      "a merge with a row of another owner",
      "diaries",
      { body: { id: 2, owner: "1" }, prefer: "resolution=merge-duplicates" },
    ],
    ["a merge with a hidden row", "diaries", { body: { id: 3, owner: "1" }, prefer: "resolution=merge-duplicates" }],
    ["PUT of a row of another owner", "diaries?id=eq.2", { method: "PUT", body: { id: 2, owner: "1" } }],
    [
      "a row that the caller may not read if it must be returned",
      "diaries",
      { body: { id: 4, owner: "1", note: "secret" }, prefer: REPRESENTATION },
    ],
  ])("refuses %s with 403", async (_, path, sent) => {
    expect(await refused(path, { ...sent, as: "ada" })).toEqual([403, "42501"]);
  });

  test("refuses anonymous callers with 401", async () => {
    expect(await refused("diaries", { body: { id: 4, owner: "1" } })).toEqual([401, "42501"]);
  });

  test("allows inserting a row that the caller cannot see if it is not returned", async () => {
    expect((await rest("diaries", { body: { id: 4, owner: "1", note: "secret" }, as: "ada" })).status).toBe(201);
  });

  test("hides rows from PATCH and DELETE, which find none", async () => {
    for (const sent of [{ method: "PATCH", body: { note: "new" } }, { method: "DELETE" }] as const) {
      const prefer = `${REPRESENTATION}, count=exact`;
      const { status, json, headers } = await rest("diaries?id=gte.2", { ...sent, as: "ada", prefer });
      expect([status, json, headers.get("content-range")]).toEqual([200, [], "*/0"]);
      expect((await rest("diaries?id=gte.2", { ...sent, as: "ada" })).status).toBe(204);
    }
    expect(await sql("select from diaries where note in ('yours', 'secret')")).toHaveLength(2);
  });

  test("does not apply to the service key", async () => {
    expect((await rest("diaries?id=gte.1", { method: "DELETE", as: "service" })).status).toBe(204);
    expect(await sql("select from diaries")).toEqual([]);
  });
});

describe("a database error", () => {
  beforeEach(() => sql("truncate bookings; insert into bookings values (1, 2, '[1,5)', null)"));

  test.each([
    [
      { id: 1, seats: 1 },
      409,
      ["23505", 'duplicate key value violates unique constraint "bookings_pkey"', "Key (id)=(1) already exists.", null],
    ],
    [
      { id: 2, seats: 1, article_id: 99 },
      409,
      [
        "23503",
        'insert or update on table "bookings" violates foreign key constraint "bookings_article_id_fkey"',
        'Key (article_id)=(99) is not present in table "articles".',
        null,
      ],
    ],
    [{ id: 2, seats: 7 }, 400, ["P0001", "seven is taken", "It always is.", "Take six."]],
    [{ id: 2, seats: 6 }, 402, ["PT402", "Payment required", null, null]],
  ])("for %j is %i %j", async (body, status, [code, message, details, hint]: any) => {
    const answer = await rest("bookings", { body });
    const { fields: _fields, ...error } = answer.json;
    expect([answer.status, error]).toEqual([status, { code, message, details, hint }]);
    expect(answer.headers.get("content-type")).toBe("application/json; charset=utf-8");
    expect(answer.headers.get("proxy-status")).toContain(`error=${code}`);
  });

  test("of an exclusion constraint is 409", async () => {
    expect(await refused("bookings", { body: { id: 2, seats: 1, span: "[4,6)" } })).toEqual([409, "23P01"]);
  });
});
