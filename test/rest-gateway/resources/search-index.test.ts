import { beforeAll, expect, test } from "vitest";
import { writeStatement } from "../../../db/query/run.ts";
import { Lifecycle } from "../../../rest-gateway/conventions/version.ts";
import { PreferenceParser } from "../../../rest-gateway/resources/parse/headers.ts";
import { parseText } from "../../../rest-gateway/resources/parse/request.ts";
import { ResourcePlanner } from "../../../rest-gateway/resources/runner.ts";
import { DESCRIPTIONS } from "../../support/demo.ts";
import { useOwnResources } from "../../support/own-resources.ts";

const { describe, sql } = useOwnResources("", []);

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
  const options = {
    resources: describe(...DESCRIPTIONS),
    preferences: new PreferenceParser([]),
    lifecycle: new Lifecycle({ status: "supported", sunset: null, guide: "" }),
    limits: { bodyLimit: 0, jsonMaxDepth: 0, apiMaxRecords: 0, passwords: null },
  };
  const text = { method: "GET", url: `/api/v2${path}`, headers: {}, body: null, isTask: false };
  const request = parseText(text, options);
  return writeStatement(new ResourcePlanner().plan(request).query.main, request);
}

/** The generic plan of its statement, which serves any values. */
async function planOf(path: string): Promise<string> {
  const { text, values } = statementAt(path);
  const literals = values.map((value) => `'${value}'`).join(", ");
  await sql(`begin; set local plan_cache_mode = force_generic_plan; set local role anon; prepare request as ${text}`);
  const plan = await sql(`explain execute request${literals === "" ? "" : `(${literals})`}`);
  await sql("deallocate request; rollback");
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
