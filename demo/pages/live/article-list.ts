import type { Session, SupabaseClient } from "@supabase/supabase-js";

export type Row = { readonly id: number; readonly title: string; readonly author: { readonly name: string } };

/** The id of the user in rows: the `sub` of the token, unless AUTH_USER_ID=uuid. */
export function idOf({ access_token: token }: Session): number {
  const [, claims = ""] = token.split(".");
  return Number(JSON.parse(atob(claims.replace(/-/g, "+").replace(/_/g, "/"))).sub);
}

/** The newest articles that are published, or the newest drafts of this author; `count` is the number of all. */
export async function readArticles(
  client: SupabaseClient,
  limit: number,
  author?: number,
): Promise<{ readonly rows: readonly Row[]; readonly count: number }> {
  const all = client.from("articles").select("id, title, author:users(name)", { count: "exact" });
  const some = author === undefined ? all.eq("status", "PUBLISHED") : all.eq("status", "DRAFT").eq("author_id", author);
  const newest = some.order("created_at", { ascending: false }).limit(limit);
  const { data, error, count } = await newest.overrideTypes<Row[], { merge: false }>();
  if (error) throw error;
  return { rows: data, count: count ?? 0 };
}
