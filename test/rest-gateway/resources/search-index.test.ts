import { beforeAll, expect, test } from "vitest";
import { Parameters } from "../../../rest-gateway/conventions/parameters.ts";
import { DESCRIPTIONS } from "../../../rest-gateway/resources/descriptions/index.ts";
import { PreferenceParser } from "../../../rest-gateway/resources/parse/preferences.ts";
import { parseRequest } from "../../../rest-gateway/resources/parse/request.ts";
import { parseRoute } from "../../../rest-gateway/resources/parse/route.ts";
import { statementOf, writeStatements } from "../../../rest-gateway/resources/write/statement.ts";
import { useOwnResources } from "../../support/own-resources.ts";

const { describe, sql } = useOwnResources("", []);
const LIMITS = { size: 0, depth: 0, records: 0 };

beforeAll(async () => {
  await sql(
    "insert into users (name, email) select md5(n::text), md5(n::text) || '@x.org' from generate_series(1, 5000) as n",
  );
  await sql(
    "insert into articles (author_id, title, content) select n, md5(n::text), md5((n * 7)::text) from generate_series(1, 5000) as n",
  );
  await sql(
    "insert into comments (article_id, author_id, content) select n, n, md5(n::text) from generate_series(1, 5000) as n",
  );
  // Without a vacuum much would still be in the pending list of a trigram index.
  for (const table of ["users", "articles", "comments"]) await sql(`vacuum analyze ${table}`);
});

/** The statement of a request, and the texts of its values. */
function statementAt(path: string) {
  const [address = "", search = ""] = path.split("?");
  const { request } = parseRequest(
    {
      method: "GET",
      route: parseRoute(address.slice(1).split("/"), describe(...DESCRIPTIONS)),
      parameters: new Parameters(search),
      headers: {},
      body: null,
      style: { version: 2, isCamel: true, prefix: "/api/v2" },
      preferences: new PreferenceParser([]).parse(undefined),
      isExport: false,
    },
    LIMITS,
  );
  return statementOf(writeStatements(request)[0]!, request.values);
}

/** What Postgres does for it, whatever the values are: callers come with many. */
async function planOf(path: string): Promise<string> {
  const { text, values } = statementAt(path);
  const literals = values.map((value) => `'${value}'`).join(", ");
  await sql(`begin; set local plan_cache_mode = force_generic_plan; set local role anon; prepare asked as ${text}`);
  const plan = await sql(`explain execute asked${literals === "" ? "" : `(${literals})`}`);
  await sql("deallocate asked; rollback");
  return plan.map((row) => row["QUERY PLAN"]).join("\n");
}

test.each([
  ["/users?keyword=c4ca4238", "users_search_idx"],
  ["/users?email=C4CA@x.org", "users_email_key"],
  ["/users?sort=name", "users_name_id_idx"],
  ["/users?sort=created_at:desc", "users_created_at_id_idx"],
  ["/users?sort=id:desc", "users_pkey"],
  ["/articles?keyword=c4ca4238", "articles_search_idx"],
  ["/articles?author=2", "articles_author_id_created_at_id_idx"],
  ["/users/2/articles", "articles_author_id_created_at_id_idx"],
  ["/articles?tag=networks", "articles_tags_idx"],
  ["/articles", "articles_created_at_id_idx"],
  ["/articles?order=asc", "articles_created_at_id_idx"],
  ["/articles?sort=created_at:desc", "articles_created_at_id_idx"],
  ["/comments", "comments_created_at_id_idx"],
  ["/articles/2/comments", "comments_article_id_created_at_id_idx"],
  ["/comments?author=2", "comments_author_id_created_at_id_idx"],
  ["/comments/2", "comments_pkey"],
  ["/articles/2/comments/2", "comments_pkey"],
])("%s reads the index %s", async (path, index) => expect(await planOf(path)).toContain(index));
