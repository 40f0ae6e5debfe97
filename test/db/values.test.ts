import { expect, test } from "vitest";
import { useTransactions } from "../support/roles.ts";

const inTransaction = useTransactions();

const MIB = "ä".repeat(524_288);

type Row = [table: string, column: string, constraint: string | null, value: unknown];
/** The values of a column that a constraint refuses; none refuses them if it is null. */
const rows = (table: string, column: string, constraint: string | null, ...values: readonly unknown[]) =>
  values.map((value): Row => [table, column, constraint, value]);

const EMAIL = ["users", "email", "users_email_format"] as const;
const AVATAR = ["users", "avatar_url", "users_avatar_url_format"] as const;
const TAGS = ["articles", "tags", "articles_tags_length"] as const;
const LANGUAGE = ["article_translations", "language", "article_translations_language_format"] as const;

test.each([
  ...rows("users", "age", null, 0, 150, null),
  ...rows("users", "age", "users_age_range", -1, 151),
  ...rows("users", "name", null, "a", "😀".repeat(200)),
  ...rows("users", "name", "users_name_length", "", " \t\n", "😀".repeat(201)),
  ...rows("users", "email", null, "a@b.c", "first.last+tag@sub.example.com", "jürgen@müller.example"),
  ...rows("users", "email", null, "o'brien_{x}+1@xn--mller-kva.example", `${"a".repeat(64)}@b.c`),
  ...rows("users", "email", null, `a@${"b".repeat(63)}.c`, `a@${"b.".repeat(125)}cd`),
  ...rows(...EMAIL, `${"a".repeat(65)}@b.c`, `a@${"b".repeat(64)}.c`, `a@${"b.".repeat(125)}cde`),
  ...rows(...EMAIL, "", "ada", "a@b", "@b.c", "a@", "a@b.", "a@.c", "a@b..c", "a@@b.c", "a@b@c.d", ".a@b.c", "a.@b.c"),
  ...rows(...EMAIL, "a b@c.d", " a@b.c", "a@b.c\n", "a@b.c\r\nbcc:all@b.c", "a@b.c\u00a0", "\u200ba@b.c", "A <a@b.c>"),
  ...rows(...EMAIL, "a..b@c.d", "a<b>@c.d", "a,b@c.d", '"a"@b.c', "a@-b.c", "a@b-.c", "a@b_c.d", "a@127.0.0.1"),
  ...rows("users", "avatar_url", null, "http://a.example/?user=1", null),
  ...rows(...AVATAR, "javascript:alert(1)", "//a.example/a.png", "https://", "https://a b", "https://a.b/\n", ""),
  ...rows("articles", "title", null, "😀".repeat(5)),
  ...rows("articles", "title", "articles_title_length", "😀".repeat(4)),
  ...rows("articles", "title", "articles_title_text", "  \u00a0\u2003\n "),
  ...rows("articles", "content", null, MIB),
  ...rows("articles", "content", "articles_content_text", "", " \t\n"),
  ...rows("articles", "content", "articles_content_length", `${MIB}.`),
  ...rows("articles", "tags", null, [], ["😀".repeat(50), "b"]),
  ...rows(...TAGS, ["a", "b".repeat(51)], ["a", ""], ["a", "  "], ["a", null]),
  ...rows("comments", "content", null, "x", MIB),
  ...rows("comments", "content", "comments_content_text", "", " \n\u00a0"),
  ...rows("comments", "content", "comments_content_length", `${MIB}.`),
  ...rows("article_translations", "language", null, "fr", "pt-br", "zh-hans-cn"),
  ...rows(...LANGUAGE, "DE", "d", "deutsch", "de_at", "de\n", ""),
  ...rows("article_translations", "title", null, "😀".repeat(5)),
  ...rows("article_translations", "title", "article_translations_title_length", "😀".repeat(4)),
  ...rows("article_translations", "title", "article_translations_title_text", "      "),
])("%s.%s: the constraint %s decides on %j", (table, column, constraint, value) =>
  inTransaction(async (db) => {
    const key = table === "article_translations" ? "article_id" : "id";
    const change = db.service.row(`update ${table} set ${column} = $1 where ${key} = 1 returning ${column}`, value);
    if (constraint === null) expect(await change).toEqual({ [column]: value });
    else await expect(change).rejects.toMatchObject({ code: "23514", constraint });
  }),
);
