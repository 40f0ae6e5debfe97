import jwt from "jsonwebtoken";
import pg from "pg";
import { afterAll, beforeAll, beforeEach, describe, expect, inject, onTestFinished, test, vi } from "vitest";
import { connect } from "../support/graphql-client.ts";
import { JWT_SECRET, startTestService, type TestService } from "../support/service.ts";
import { POLL } from "../support/until.ts";

let service: TestService;
beforeAll(async () => {
  service = await startTestService({ wsMessageRate: 10_000, wsMaxBufferedBytes: 65_536, INSTANCE_ID: "test" });
});
afterAll(() => service.stop());
// The next test must not count subscriptions that this one has left open.
beforeEach(() =>
  expect.poll(() => service.service.open(), POLL).toEqual({ sockets: 0, addresses: 0, subscriptions: 0 }),
);

/** Executes statements as a DBA does in psql. */
const dba = async (sql: string, ...values: unknown[]) => (await service.database.owner.query(sql, values)).rows;

/** Another session of the DBA, which may keep a transaction open. */
async function psql(url = service.database.url): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  onTestFinished(() => client.end());
  return client;
}

const addArticle = async (title: string, authorId = 1): Promise<string> => {
  const sql = "insert into articles (author_id, title, content) values ($1, $2, 'Some text.') returning id";
  return (await dba(sql, authorId, title))[0].id;
};

const addComment = (articleId: number, content: string) =>
  dba("insert into comments (article_id, author_id, content) values ($1, 2, $2)", articleId, content);

const CREATE_ARTICLE = `mutation ($title: String!) {
  createArticle(input: { title: $title, content: "Some text." }) { success article { id } }
}`;

describe("onArticleCreated", () => {
  test("sends every article, created over GraphQL or by the DBA, with its author", async () => {
    const client = connect(service);
    const created = await client.subscribe("subscription { onArticleCreated { title status author { name } } }");
    await service.gql(CREATE_ARTICLE, { as: "ada", variables: { title: "Over HTTP" } });
    await connect(service, { as: "bob" }).run(CREATE_ARTICLE, { title: "Over a socket" });
    await addArticle("Typed into psql");
    const event = (title: string, name: string) => ({ onArticleCreated: { title, status: "DRAFT", author: { name } } });
    await created.expect(
      event("Over HTTP", "Ada Lovelace"),
      event("Over a socket", "Bob Kahn"),
      event("Typed into psql", "Ada Lovelace"),
    );
    expect(created.faults).toEqual([]);
  });

  test("sends nothing for an update, a publication or a deletion", async () => {
    const created = await connect(service).subscribe("subscription { onArticleCreated { title } }");
    await service.gql('mutation { updateArticle(id: 1, input: { content: "New" }) { id } }', { as: "ada" });
    await service.gql("mutation { publishArticle(id: 3) { id } }", { as: "ada" });
    await dba("delete from articles where id = $1", await addArticle("Short-lived"));
    await addArticle("The marker");
    // The first row may be read before or after its deletion.
    await expect.poll(() => created.events.at(-1), POLL).toEqual({ onArticleCreated: { title: "The marker" } });
    expect(
      created.events.filter((event) => !["Short-lived", "The marker"].includes(event.onArticleCreated.title)),
    ).toEqual([]);
    expect(created.faults).toEqual([]);
  });

  test("skips an article that is deleted before the event is read, without an error", async () => {
    const created = await connect(service).subscribe("subscription { onArticleCreated { title } }");
    await dba("begin");
    await dba("delete from articles where id = $1", await addArticle("Never seen"));
    await dba("commit");
    await addArticle("The marker");
    await created.expect({ onArticleCreated: { title: "The marker" } });
    expect(created).toMatchObject({ faults: [], error: null });
  });

  test("ignores a forged notification, without an error", async () => {
    const created = await connect(service).subscribe("subscription { onArticleCreated { title } }");
    const notify = (payload: unknown) =>
      dba("select pg_notify('changes', $1)", typeof payload === "string" ? payload : JSON.stringify(payload));
    const made = { schema: "public", table: "articles", operation: "INSERT" };
    for (const keys of [{ id: "abc" }, { id: 987654321 }, { id: null }, { id: { a: 1 } }, {}, null, [], "x"])
      await notify({ ...made, keys });
    await notify(made);
    for (const payload of ["", "null", "[]", "42", "{", '{"table":null}']) await notify(payload);
    await addArticle("The marker");
    await created.expect({ onArticleCreated: { title: "The marker" } });
    expect(created).toMatchObject({ faults: [], error: null });
  });
});

describe("onCommentAdded", () => {
  test("sends only the comments on this article, created over GraphQL or by the DBA", async () => {
    const client = connect(service);
    const onFirst = await client.subscribe(
      "subscription { onCommentAdded(articleId: 1) { content author { name } article { id } } }",
    );
    const onSecond = await client.subscribe("subscription ($id: ID!) { onCommentAdded(articleId: $id) { content } }", {
      id: "2",
    });
    await addComment(2, "On the second");
    await service.gql('mutation { createComment(articleId: 1, content: "On the first") { id } }', { as: "ada" });
    await addComment(1, "On the first, by psql");
    await addComment(2, "On the second again");
    const event = (content: string, name: string) => ({
      onCommentAdded: { content, author: { name }, article: { id: "1" } },
    });
    await onFirst.expect(event("On the first", "Ada Lovelace"), event("On the first, by psql", "Bob Kahn"));
    await onSecond.expect(
      { onCommentAdded: { content: "On the second" } },
      { onCommentAdded: { content: "On the second again" } },
    );
  });

  test("sends nothing for a changed comment", async () => {
    const added = await connect(service).subscribe("subscription { onCommentAdded(articleId: 1) { content } }");
    await dba("update comments set content = 'Changed' where id = 1");
    await addComment(1, "The marker");
    await added.expect({ onCommentAdded: { content: "The marker" } });
  });
});

describe("onArticleUpdated", () => {
  test("sends the updates of one article, or without an id of all", async () => {
    const client = connect(service);
    const first = await client.subscribe('subscription { onArticleUpdated(id: "1") { id title } }');
    const any = await client.subscribe("subscription { onArticleUpdated { id title } }");
    const anyToo = await client.subscribe("subscription ($id: ID) { onArticleUpdated(id: $id) { id title } }", {
      id: null,
    });
    await service.gql('mutation { updateArticle(id: 2, input: { title: "The second" }) { id } }', { as: "bob" });
    await service.gql('mutation { updateArticle(id: 1, input: { title: "The first" }) { id } }', { as: "ada" });
    const event = (id: string, title: string) => ({ onArticleUpdated: { id, title } });
    await first.expect(event("1", "The first"));
    await any.expect(event("2", "The second"), event("1", "The first"));
    await anyToo.expect(event("2", "The second"), event("1", "The first"));
  });

  test("sends a publication, and current data with every update", async () => {
    const id = await addArticle("First title");
    const updated = await connect(service).subscribe(
      "subscription ($id: ID) { onArticleUpdated(id: $id) { title status updatedAt } }",
      { id },
    );
    await service.gql("mutation ($id: ID!) { publishArticle(id: $id) { id } }", { as: "ada", variables: { id } });
    await expect.poll(() => updated.events.length, POLL).toBe(1);
    await dba("update articles set title = 'Second title' where id = $1", id);
    await expect.poll(() => updated.events.length, POLL).toBe(2);
    await dba("update articles set title = 'Third title', status = 'ARCHIVED' where id = $1", id);
    const event = (title: string, status: string) => ({
      onArticleUpdated: { title, status, updatedAt: expect.any(String) },
    });
    await updated.expect(
      event("First title", "PUBLISHED"),
      event("Second title", "PUBLISHED"),
      event("Third title", "ARCHIVED"),
    );
    expect(new Set(updated.events.map((event) => event.onArticleUpdated.updatedAt)).size).toBe(3);
  });
});

test.each([
  'subscription { onArticleUpdated(id: "abc") { id } }',
  'subscription { onArticleUpdated(id: "") { id } }',
  'subscription { onArticleUpdated(id: "1\'; drop table articles") { id } }',
  "subscription { onArticleUpdated(id: 99999999999999999999) { id } }",
  'subscription { onCommentAdded(articleId: "abc") { id } }',
  "subscription { onCommentAdded(articleId: 4711) { id } }",
])("a subscription to an article that does not exist is refused: %s", async (query) => {
  const { errors } = await connect(service).run(query);
  expect(errors).toMatchObject([{ message: "article not found", extensions: { code: "RESOURCE_NOT_FOUND" } }]);
});

test("a subscription to an article that a policy hides is refused", async () => {
  await dba('create policy "not the second" on articles as restrictive for select using (id <> 2)');
  onTestFinished(async () => void (await dba('drop policy "not the second" on articles')));
  const { errors } = await connect(service).run("subscription { onCommentAdded(articleId: 2) { id } }");
  expect(errors).toMatchObject([{ extensions: { code: "RESOURCE_NOT_FOUND" } }]);
});

test("an alias, a fragment and variables work in a subscription", async () => {
  const created = await connect(service).subscribe(
    `subscription News($short: Boolean!) { news: onArticleCreated { ...Parts content @skip(if: $short) } }
     fragment Parts on Article { headline: title }`,
    { short: true },
  );
  await addArticle("With an alias");
  await created.expect({ news: { headline: "With an alias" } });
});

describe("the caller of a subscription", () => {
  test("receives no event for an article that a policy hides from them, although its author does", async () => {
    await dba(
      "create policy \"drafts are secret\" on articles as restrictive for select using (status <> 'DRAFT' or author_id = (select auth.uid()))",
    );
    onTestFinished(async () => void (await dba('drop policy "drafts are secret" on articles')));
    const query = "subscription { onArticleCreated { title } }";
    const anonymous = await connect(service).subscribe(query);
    const ada = await connect(service, { as: "ada" }).subscribe(query);
    const bob = await connect(service, { as: "bob" }).subscribe(query);
    await addArticle("A secret of Ada's", 1);
    await addArticle("A secret of Bob's", 2);
    await dba(
      "insert into articles (author_id, title, content, status) values (1, 'For everyone', 'Some text.', 'PUBLISHED')",
    );
    const event = (title: string) => ({ onArticleCreated: { title } });
    await anonymous.expect(event("For everyone"));
    await ada.expect(event("A secret of Ada's"), event("For everyone"));
    await bob.expect(event("A secret of Bob's"), event("For everyone"));
    for (const subscription of [anonymous, ada, bob]) expect(subscription).toMatchObject({ faults: [], error: null });
  });

  test.each([
    ["Authorization of connection_init", (bearer: string) => ({ params: { Authorization: bearer } })],
    ["authorization of connection_init", (bearer: string) => ({ params: { authorization: bearer } })],
    ["the header of the upgrade", (bearer: string) => ({ headers: { authorization: bearer } })],
    [
      "connection_init rather than the header",
      (bearer: string) => ({
        params: { Authorization: bearer },
        headers: { authorization: `Bearer ${service.token("bob")}` },
      }),
    ],
  ])("is identified by %s", async (_where, options) => {
    const client = connect(service, options(`Bearer ${service.token("ada")}`));
    expect(await client.run("{ me { name } }")).toEqual({ data: { me: { name: "Ada Lovelace" } } });
  });

  test("is anonymous without a token, and may read and subscribe", async () => {
    const client = connect(service, { params: { locale: "de" } });
    const errors = [{ extensions: { code: "AUTH_REQUIRED" } }];
    expect(await client.run("{ me { name } }")).toMatchObject({ data: null, errors });
    expect(await client.run("{ article(id: 1) { id } }")).toEqual({ data: { article: { id: "1" } } });
    const updated = await client.subscribe("subscription { onArticleUpdated(id: 1) { id } }");
    await dba("update articles set content = content || '.' where id = 1");
    await updated.expect({ onArticleUpdated: { id: "1" } });
  });

  test.each([
    ["a malformed token", { Authorization: "Bearer abc" }, /the access token is not valid: sign in again/],
    ["another scheme", { Authorization: "Basic YWRhOmFkYQ==" }, /wrong username or password/],
    ["an authorization that is not a string", { Authorization: 42 }, /must be a string/],
    ["a token signed with another secret", { Authorization: `Bearer ${sign({}, "x".repeat(32))}` }, /not valid/],
    ["a refresh token", { Authorization: `Bearer ${sign({ type: "refresh" })}` }, /not valid/],
    ["a token that has expired", { Authorization: `Bearer ${sign({ exp: 1_600_000_000 })}` }, /expired/],
    ["a misspelt name", { authToken: "abc" }, /connectionParams has no authToken: send Authorization: Bearer/],
    ["headers in headers", { headers: { Authorization: "Bearer abc" } }, /connectionParams has no headers/],
  ])("is refused with 4403 and the reason for %s in connection_init", async (_what, payload, reason) => {
    const socket = new WebSocket(`${service.url.replace("http", "ws")}/graphql`, "graphql-transport-ws");
    socket.addEventListener("open", () => socket.send(JSON.stringify({ type: "connection_init", payload })));
    const closed = await new Promise<CloseEvent>((resolve) => socket.addEventListener("close", resolve));
    expect(closed.code).toBe(4403);
    expect(closed.reason).toMatch(reason);
  });
});

function sign(claims: object, secret = JWT_SECRET): string {
  const exp = Math.floor(Date.now() / 1000) + 3600;
  return jwt.sign({ sub: "1", role: "authenticated", type: "access", iss: "content-service", exp, ...claims }, secret);
}

describe("queries and mutations over the socket", () => {
  test("give the same results as over HTTP", async () => {
    const client = connect(service, { as: "ada" });
    const query = "query ($id: ID!) { article(id: $id) { title author { name } } users(limit: 2) { name } }";
    const { data } = await service.gql(query, { variables: { id: "2" } });
    expect(await client.run(query, { id: "2" })).toEqual({ data });
    const { data: created } = await client.run(CREATE_ARTICLE, { title: "By mutation" });
    expect(created.createArticle).toEqual({ success: true, article: { id: expect.stringMatching(/^\d+$/) } });
    expect(await client.run(CREATE_ARTICLE, { title: "Tiny" })).toEqual({
      data: { createArticle: { success: false, article: null } },
    });
  });

  test.each([
    ["a missing login", "{ me { id } }", "AUTH_REQUIRED", "login required"],
    ["an unknown field", "{ nonsense }", "VALIDATION_ERROR", 'Cannot query field "nonsense" on type "Query".'],
    ["a malformed document", "{ articles( }", "VALIDATION_ERROR", /^Syntax Error/],
    ["an unknown subscription", "subscription { onNothing { id } }", "VALIDATION_ERROR", /onNothing/],
    ["a missing argument", "subscription { onCommentAdded { id } }", "VALIDATION_ERROR", /articleId/],
    [
      "two subscriptions in one",
      "subscription { onArticleCreated { id } onArticleUpdated { id } }",
      "VALIDATION_ERROR",
      /only one/,
    ],
    [
      "a page that is too large",
      "{ articles(first: 1001) { totalCount } }",
      "VALIDATION_ERROR",
      "first must be from 0 to 1000",
    ],
    ["levels of fields above 15", nested(16), "VALIDATION_ERROR", "the operation has depth 16; the maximum is 15"],
    ["fields above 1000", fields(1001), "VALIDATION_ERROR", "the operation has complexity 1001; the maximum is 1000"],
    [
      "a subscription with levels above 15",
      `subscription { onArticleCreated { author ${nested(14, "articles")} } }`,
      "VALIDATION_ERROR",
      "the operation has depth 16; the maximum is 15",
    ],
    ["a missing article", "mutation { publishArticle(id: 4711) { id } }", "AUTH_REQUIRED", "login required"],
  ])("report %s with a code", async (_what, query, code, message) => {
    const { errors } = await connect(service).run(query);
    expect(errors).toHaveLength(1);
    expect(errors![0]).toMatchObject({ extensions: { code } });
    expect(errors![0]!.message).toMatch(message);
  });
});

/** A query with this depth: `{ users { articles { author { … id } } } }`. */
function nested(levels: number, first = "users"): string {
  if (levels === 1) return "{ id }";
  const next = first.startsWith("articles") ? "author" : "articles(limit: 1)";
  return `{ ${first} ${nested(levels - 1, next)} }`;
}

const fields = (count: number) => `{ ${Array.from({ length: count }, (_, i) => `a${i}: __typename`).join(" ")} }`;

describe("the end of a subscription", () => {
  test("is reached by unsubscribing, and the socket stays open", async () => {
    const client = connect(service);
    const created = await client.subscribe("subscription { onArticleCreated { title } }");
    const kept = await client.subscribe("subscription { onArticleCreated { title } }");
    created.unsubscribe();
    await expect.poll(() => service.service.open(), POLL).toMatchObject({ sockets: 1, subscriptions: 1 });
    await addArticle("After the end");
    await kept.expect({ onArticleCreated: { title: "After the end" } });
    expect(created).toMatchObject({ events: [], error: null });
  });

  test("leaves nothing on the server after three hundred rounds", async () => {
    const client = connect(service);
    const rounds = Array.from({ length: 300 }, (_, i) => i);
    for (const i of rounds) {
      const subscription = client.subscribeSoon("subscription ($id: ID) { onArticleUpdated(id: $id) { title } }", {
        id: String(i),
      });
      // Some end before the server has started them, some while they are active.
      if (i % 3 === 0) await client.run("{ __typename }");
      subscription.unsubscribe();
    }
    await client.run("{ __typename }");
    await expect.poll(() => service.service.open(), POLL).toMatchObject({ sockets: 1, subscriptions: 0 });
  });

  test("is reached when its socket closes", async () => {
    const client = connect(service);
    for (let i = 0; i < 20; i++) client.subscribeSoon("subscription { onArticleCreated { title } }");
    await expect.poll(() => service.service.open(), POLL).toEqual({ sockets: 1, addresses: 1, subscriptions: 20 });
    client.end();
    await expect.poll(() => service.service.open(), POLL).toEqual({ sockets: 0, addresses: 0, subscriptions: 0 });
  });
});

describe("a lost connection to the database", () => {
  const LISTENER =
    "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'content-service changes' and datname = current_database()";

  test("is invisible to running and new subscriptions: they receive what was committed meanwhile", async () => {
    const client = connect(service);
    const running = await client.subscribe("subscription { onArticleCreated { title } }");
    const elsewhere = await psql(inject("clusterUrl"));
    const letIn = (isAllowed: boolean) =>
      elsewhere.query(`alter database ${service.database.name} allow_connections ${isAllowed}`);
    await letIn(false);
    onTestFinished(() => letIn(true).then(() => {}));
    await dba(LISTENER);
    const waiting = client.subscribeSoon("subscription { onArticleCreated { title } }");
    await client.run("{ __typename }");
    await addArticle("Unheard at first");
    await letIn(true);
    await running.expect({ onArticleCreated: { title: "Unheard at first" } });
    await waiting.expect({ onArticleCreated: { title: "Unheard at first" } });
  });
});

describe("a subscriber that reads too slowly", () => {
  test("has its socket closed, and nothing is buffered for it", async () => {
    const client = connect(service);
    let socket: any;
    client.on("opened", (opened) => {
      socket = opened;
    });
    // The buffers of the kernel hold a few MB.
    const contents = Array.from({ length: 12 }, (_, i) => `content${i}: content`);
    await client.subscribe(`subscription { onArticleUpdated { ${contents.join(" ")} } }`);
    onTestFinished(() => socket.terminate());
    socket.pause();
    await dba("update articles set content = repeat('x', 1000000) where id = 1");
    // A client has two seconds to close its socket.
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    onTestFinished(() => void vi.useRealTimers());
    await expect
      .poll(
        async () => {
          await dba("update articles set created_at = clock_timestamp() where id = 1");
          await vi.advanceTimersByTimeAsync(1000);
          return service.service.open();
        },
        { timeout: 120_000, interval: 100 },
      )
      .toEqual({ sockets: 0, addresses: 0, subscriptions: 0 });
  });
});
