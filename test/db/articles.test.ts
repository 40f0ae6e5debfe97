import { expect, test } from "vitest";
import { outcomes, type TestCaller, type TestTransaction, useTransactions } from "../support/roles.ts";

const inTransaction = useTransactions();

const NO_PERMISSION = { code: "42501", routine: "exec_stmt_raise" };
const NO_SUCH_ARTICLE = { code: "P0002", message: "article not found", routine: "exec_stmt_raise" };

/** The `mutation_result` of create_article. */
async function createArticle(caller: TestCaller, input: object) {
  const text = "select to_jsonb(create_article(jsonb_populate_record(null::articles, $1))) as result";
  return (await caller.row(text, input)).result;
}

const updateArticle = (caller: TestCaller, id: number, input: object) =>
  caller.row("select * from update_article($1, jsonb_populate_record(null::articles, $2))", id, input);

/** Ada's draft, and Ada. */
async function adasDraft(db: TestTransaction) {
  const [ada] = await db.users("Ada");
  return { ada: ada!, draft: await db.article({ author: ada!, title: "Draft title", tags: ["one"] }) };
}

test.each(["DRAFT", "PUBLISHED", "ARCHIVED"])("every caller reads articles with the status %s", (status) =>
  inTransaction(async (db) => {
    const [ada] = await db.users("Ada");
    const article = await db.article({ author: ada!, status });
    const found = await outcomes(await db.everyone(ada!), "select * from articles where id = $1", article.id);
    expect(found).toEqual({ anon: 1, stranger: 1, self: 1, admin: 1, service: 1 });
  }),
);

test.each(["title = 'Another title'", "content = 'Another text.'", "tags = '{two}'", "status = 'ARCHIVED'"])(
  "its author, admins and the service may update an article: set %s",
  (change) =>
    inTransaction(async (db) => {
      const { ada, draft } = await adasDraft(db);
      const found = await outcomes(await db.everyone(ada), `update articles set ${change} where id = $1`, draft.id);
      expect(found).toEqual({ anon: "42501", stranger: 0, self: 1, admin: 1, service: 1 });
    }),
);

test("its author, admins and the service may delete an article", () =>
  inTransaction(async (db) => {
    const { ada, draft } = await adasDraft(db);
    const found = await outcomes(await db.everyone(ada), "delete from articles where id = $1", draft.id);
    expect(found).toEqual({ anon: "42501", stranger: 0, self: 1, admin: 1, service: 1 });
  }));

test("a signed-in caller creates articles as themselves", () =>
  inTransaction(async (db) => {
    const [ada] = await db.users("Ada");
    const text =
      "insert into articles (title, content) values ('A title', 'A text.') returning author_id, status, tags";
    // The service has no user id, so it must name the author.
    const found = await outcomes(await db.everyone(ada!), text);
    expect(found).toEqual({ anon: "42501", stranger: 1, self: 1, admin: 1, service: "23502" });
    expect(await db.as(ada!).row(text)).toEqual({ author_id: ada!.id, status: "DRAFT", tags: [] });
    expect(await db.as(null).outcome(text)).toBe("42501");
  }));

test.each([
  ["id", "7000"],
  ["author_id", "1"],
  ["created_at", "'2001-01-01'"],
  ["updated_at", "'2001-01-01'"],
])("only the service chooses the %s of a new article", (column, value) =>
  inTransaction(async (db) => {
    const [ada] = await db.users("Ada");
    const rest = column === "author_id" ? "" : ", author_id";
    const text = `insert into articles (title, content, ${column}${rest}) overriding system value
      values ('A title', 'A text.', ${value}${rest && ", 1"})`;
    const found = await outcomes(await db.everyone(ada!), text);
    expect(found).toEqual({ anon: "42501", stranger: "42501", self: "42501", admin: "42501", service: 1 });
  }),
);

test.each([
  ["author_id", "1"],
  ["created_at", "'2001-01-01'"],
  ["updated_at", "'2001-01-01'"],
])("only the service updates the %s of an article", (column, value) =>
  inTransaction(async (db) => {
    const { ada, draft } = await adasDraft(db);
    expect(
      await outcomes(await db.everyone(ada), `update articles set ${column} = ${value} where id = $1`, draft.id),
    ).toEqual({ anon: "42501", stranger: "42501", self: "42501", admin: "42501", service: 1 });
  }),
);

test("an update without a condition affects only the caller's articles", () =>
  inTransaction(async (db) => {
    const { ada, draft } = await adasDraft(db);
    expect(await db.as(ada).rows("update articles set tags = '{}' returning id")).toEqual([{ id: draft.id }]);
    expect(await db.as(ada).rows("delete from articles returning id")).toEqual([{ id: draft.id }]);
    expect(await db.as(null).rows("delete from articles returning id")).toEqual([]);
  }));

test("an upsert does not overwrite an article of another author", () =>
  inTransaction(async (db) => {
    const { ada, draft } = await adasDraft(db);
    const [bob] = await db.users("Bob");
    const text = `merge into articles as a using (select $1::bigint as id) as given on a.id = given.id
      when matched then update set title = 'Taken over'`;
    expect(await db.as(ada).outcome(text, draft.id)).toBe(1);
    expect(await db.as(bob!).outcome(text, draft.id)).toBe("42501");
  }));

test("no role of the API may truncate the table", () =>
  inTransaction(async (db) => {
    const { ada } = await adasDraft(db);
    const { service: _, ...callers } = await db.everyone(ada);
    const found = await outcomes(callers, "truncate articles cascade");
    expect(found).toEqual({ anon: "42501", stranger: "42501", self: "42501", admin: "42501" });
  }));

test.each([
  ["title", "😀".repeat(4), "articles_title_length"],
  ["title", "😀".repeat(5), null],
  ["content", "", "articles_content_text"],
  ["content", "ä".repeat(524288), null],
  ["content", `${"ä".repeat(524288)}.`, "articles_content_length"],
  ["tags", [], null],
  ["tags", ["😀".repeat(50), "b"], null],
  ["tags", ["a", "b".repeat(51)], "articles_tags_length"],
  ["tags", ["a", ""], "articles_tags_length"],
  ["tags", ["a", null], "articles_tags_length"],
])("the table refuses the %s %j", (column, value, constraint) =>
  inTransaction(async (db) => {
    const { ada, draft } = await adasDraft(db);
    const change = db
      .as(ada)
      .row(`update articles set ${column} = $1 where id = $2 returning ${column}`, value, draft.id);
    if (constraint === null) expect(await change).toEqual({ [column]: value });
    else await expect(change).rejects.toMatchObject({ code: "23514", constraint });
  }),
);

test("updated_at is null until the first update that changes a value", () =>
  inTransaction(async (db) => {
    const { ada, draft } = await adasDraft(db);
    expect(draft.updated_at).toBeNull();
    expect((await updateArticle(db.as(ada), draft.id, { title: "Draft title" })).updated_at).toBeNull();
    const { now } = await db.owner.row("select now()");
    expect((await updateArticle(db.as(ada), draft.id, { title: "Final title" })).updated_at).toEqual(now);
  }));

test("create_article creates an article with the caller as its author", () =>
  inTransaction(async (db) => {
    const [ada] = await db.users("Ada");
    const input = { title: "A title", content: "A text.", tags: ["a", "b"], status: "PUBLISHED" };
    const result = await createArticle(db.as(ada!), input);
    expect(result).toMatchObject({ success: true, message: "article created", errors: null });
    expect(result.article).toMatchObject({ ...input, author_id: ada!.id, updated_at: null });
    expect(await db.anon.row("select title from articles where id = $1", result.article.id)).toEqual({
      title: "A title",
    });
  }));

test("create_article without tags and status creates a draft without tags", () =>
  inTransaction(async (db) => {
    const [ada] = await db.users("Ada");
    const { article } = await createArticle(db.as(ada!), { title: "A title", content: "A text." });
    expect(article).toMatchObject({ status: "DRAFT", tags: [] });
  }));

test("create_article ignores the id, author and times of the input", () =>
  inTransaction(async (db) => {
    const [ada, bob] = await db.users("Ada", "Bob");
    const forged = { id: 7000, author_id: bob!.id, created_at: "2001-01-01", updated_at: "2001-01-01" };
    const { article } = await createArticle(db.as(ada!), { title: "A title", content: "A text.", ...forged });
    expect(article).toMatchObject({ author_id: ada!.id, updated_at: null });
    expect(article.id).not.toBe(7000);
    expect(article.created_at).not.toMatch(/^2001/);
  }));

test("create_article fails with login required for an anonymous caller", () =>
  inTransaction(async (db) => {
    const { count } = await db.owner.row("select count(*) from articles");
    for (const caller of [db.anon, db.service, db.as(null)])
      expect(await createArticle(caller, { title: "A title", content: "A text." })).toEqual({
        success: false,
        message: "login required",
        article: null,
        errors: null,
      });
    expect(await db.owner.row("select count(*) from articles")).toEqual({ count });
  }));

const TITLE = { field: "title", message: "title must have at least 5 characters", code: "VALIDATION_ERROR" };
const NO_TITLE = { ...TITLE, code: "MISSING_FIELD" };
const BLANK_TITLE = { field: "title", message: "title must not be blank", code: "VALIDATION_ERROR" };
const CONTENT = { field: "content", message: "content must not be empty", code: "VALIDATION_ERROR" };
const LONG_CONTENT = { ...CONTENT, message: "content must not be longer than 1 MiB" };
const NO_CONTENT = { ...CONTENT, code: "MISSING_FIELD" };
const TAGS = { field: "tags", message: "each tag must have 1 to 50 characters", code: "VALIDATION_ERROR" };

test.each([
  ["no title", { title: null }, [NO_TITLE]],
  ["an empty title", { title: "" }, [TITLE]],
  ["a title of 4 characters", { title: "😀".repeat(4) }, [TITLE]],
  ["a title of 5 characters", { title: "😀".repeat(5) }, null],
  ["a title of spaces", { title: "  \u00a0\u2003\n " }, [BLANK_TITLE]],
  ["no content", { content: null }, [NO_CONTENT]],
  ["an empty content", { content: "" }, [CONTENT]],
  ["a content of spaces", { content: " \t\n" }, [CONTENT]],
  ["a content of 1 MiB", { content: "a".repeat(1048576) }, null],
  ["a content of 1 MiB and a byte", { content: "a".repeat(1048577) }, [LONG_CONTENT]],
  ["a tag of 50 characters", { tags: ["😀".repeat(50)] }, null],
  ["a tag of 51 characters", { tags: ["a", "😀".repeat(51)] }, [TAGS]],
  ["an empty tag", { tags: [""] }, [TAGS]],
  ["a tag of spaces", { tags: ["a", "  "] }, [TAGS]],
  ["a tag that is null", { tags: ["a", null] }, [TAGS]],
  ["all errors at once", { title: "Four", content: "", tags: [""] }, [TITLE, CONTENT, TAGS]],
])("create_article checks its input: %s", (_what, input, errors) =>
  inTransaction(async (db) => {
    const [ada] = await db.users("Ada");
    const result = await createArticle(db.as(ada!), { title: "A title", content: "A text.", tags: [], ...input });
    expect(result.success).toBe(errors === null);
    expect(result.errors).toEqual(errors);
    if (errors === null) expect(result.article).toMatchObject(input);
    else {
      expect(result.article).toBeNull();
      expect(result.message).toBe(`the article was not created: ${errors.map(({ message }) => message).join("; ")}`);
    }
  }),
);

test("create_article reports every check of the table with its comment as the message", () =>
  inTransaction(async (db) => {
    const [ada] = await db.users("Ada");
    const message = "title must have two words";
    await db.owner.rows("alter table articles add constraint articles_title_words check (title ~ ' ')");
    await db.owner.rows(`comment on constraint articles_title_words on articles is '${message}'`);
    const result = await createArticle(db.as(ada!), { title: "Engines", content: "A text." });
    expect(result).toMatchObject({ success: false, article: null, errors: [{ field: "title", message }] });
  }));

test("create_article passes on an error that is not about its input", () =>
  inTransaction(async (db) => {
    const [ada] = await db.users("Ada");
    await db.owner.rows("alter table articles alter column created_at drop default");
    await expect(createArticle(db.as(ada!), { title: "A title", content: "A text." })).rejects.toMatchObject({
      code: "23502",
      column: "created_at",
    });
  }));

test("create_article is refused to a user who has been deleted", () =>
  inTransaction(async (db) => {
    const [gone] = await db.users("Gone");
    await db.owner.rows("delete from users where id = $1", gone!.id);
    await expect(createArticle(db.as(gone!), { title: "A title", content: "A text." })).rejects.toMatchObject({
      code: "23503",
      constraint: "articles_author_id_fkey",
    });
  }));

test("update_article updates the given fields and keeps the others", () =>
  inTransaction(async (db) => {
    const { ada, draft } = await adasDraft(db);
    const { id, author_id, content } = draft;
    expect(await updateArticle(db.as(ada), id, {})).toEqual(draft);
    expect(await updateArticle(db.as(ada), id, { title: "Another", id: 7, author_id: 1 })).toMatchObject({
      id,
      author_id,
      title: "Another",
      content,
      tags: ["one"],
      status: "DRAFT",
    });
    expect(await updateArticle(db.as(ada), id, { content: "New.", tags: [], status: "ARCHIVED" })).toMatchObject({
      id,
      author_id,
      title: "Another",
      content: "New.",
      tags: [],
      status: "ARCHIVED",
    });
  }));

test.each([
  [{ title: "Four" }, "articles_title_length"],
  [{ content: "" }, "articles_content_text"],
  [{ tags: [""] }, "articles_tags_length"],
])("update_article refuses %j", (input, constraint) =>
  inTransaction(async (db) => {
    const { ada, draft } = await adasDraft(db);
    await expect(updateArticle(db.as(ada), draft.id, input)).rejects.toMatchObject({ code: "23514", constraint });
  }),
);

test.each([
  ["update", (caller: TestCaller, id: number) => updateArticle(caller, id, { title: "Another" })],
  ["publish", (caller: TestCaller, id: number) => caller.call("publish_article", id)],
  ["delete", (caller: TestCaller, id: number) => caller.call("delete_article", id)],
])("the author, admins and the service may call %s_article", (action, act) =>
  inTransaction(async (db) => {
    const { ada, draft } = await adasDraft(db);
    const { anon, stranger } = await db.everyone(ada);
    await expect(act(anon!, draft.id)).rejects.toMatchObject({ code: "42501" });
    const message = `only the author may ${action} this article`;
    await expect(act(stranger!, draft.id)).rejects.toMatchObject({ ...NO_PERMISSION, message });
    await expect(act(db.as(null), draft.id)).rejects.toMatchObject({ ...NO_PERMISSION, message });
    expect(await db.owner.row("select * from articles where id = $1", draft.id)).toEqual(draft);

    for (const caller of [db.as(ada), db.as({ id: 3 }, "admin"), db.service]) {
      const another = await db.article({ author: ada });
      expect(await act(caller, another.id)).toBeTruthy();
    }
  }),
);

test.each([
  ["update_article", (caller: TestCaller, id: number) => updateArticle(caller, id, { title: "Another" })],
  ["publish_article", (caller: TestCaller, id: number) => caller.call("publish_article", id)],
])("%s raises P0002 when there is no such article", (_name, act) =>
  inTransaction(async (db) => {
    const [ada] = await db.users("Ada");
    for (const caller of [db.as(ada!), db.as(ada!, "admin"), db.service])
      await expect(act(caller, 7000)).rejects.toMatchObject(NO_SUCH_ARTICLE);
    await expect(act(db.anon, 7000)).rejects.toMatchObject({ code: "42501" });
  }),
);

test.each(["DRAFT", "PUBLISHED", "ARCHIVED"])("publish_article publishes an article with the status %s", (status) =>
  inTransaction(async (db) => {
    const [ada] = await db.users("Ada");
    const article = await db.article({ author: ada!, status });
    expect(await db.as(ada!).call("publish_article", article.id)).toMatchObject({
      id: article.id,
      status: "PUBLISHED",
    });
  }),
);

test("delete_article deletes an article with its comments and translations, and returns whether it existed", () =>
  inTransaction(async (db) => {
    const { ada, draft } = await adasDraft(db);
    const [bob] = await db.users("Bob");
    await db.comment({ article: draft, author: bob! });
    await db.owner.rows("insert into article_translations values ($1, 'de', 'Ein Titel')", draft.id);
    expect(await db.as(ada).call("delete_article", draft.id)).toBe(true);
    for (const [table, column] of [
      ["articles", "id"],
      ["comments", "article_id"],
      ["article_translations", "article_id"],
    ])
      expect(await db.owner.rows(`select from ${table} where ${column} = $1`, draft.id)).toEqual([]);
    expect(await db.as(ada).call("delete_article", draft.id)).toBe(false);
    expect(await db.service.call("delete_article", draft.id)).toBe(false);
    await expect(db.anon.call("delete_article", draft.id)).rejects.toMatchObject({ code: "42501" });
  }));
