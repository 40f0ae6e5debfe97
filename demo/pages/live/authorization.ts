import type { SupabaseClient } from "@supabase/supabase-js";

/**
 * The header `Authorization` of a write of this user: `user.id` of the session that the page shows. Without it, the library sends the
 * token of the user who is signed in when the request leaves. While it has waited for a refresh, that may be another one, by another tab.
 */
export async function authorizationOf(client: SupabaseClient, user: string | undefined): Promise<string> {
  const { data, error } = await client.auth.getSession();
  if (error) throw error;
  if (data.session === null || data.session.user.id !== user) throw new Error("You have been signed out.");
  return `Bearer ${data.session.access_token}`;
}
