import { isAuthApiError, type SupabaseClient } from "@supabase/supabase-js";

/** Milliseconds between two checks of a client. */
const PAUSE = 10_000;
const checks = new WeakMap<SupabaseClient, number>();

/**
 * To be called with the error of each refused request and join. If it is about the token, the service is asked for another. If there is
 * none, because the session was revoked elsewhere, the library ends the session (`SIGNED_OUT`). Until the token expires by the
 * clock of the device, it does not do this by itself.
 */
export async function checkSession(client: SupabaseClient, error: unknown): Promise<void> {
  const { code, message } = error as { readonly code?: unknown; readonly message?: unknown };
  const isRefused = code === "PGRST301" || code === "PGRST303" || String(message).startsWith("InvalidJWTToken");
  const last = checks.get(client) ?? Number.NEGATIVE_INFINITY;
  if (!isRefused || performance.now() - last < PAUSE) return;
  checks.set(client, performance.now());
  const { error: refusal } = await client.auth.refreshSession();
  // A session that no longer exists: `getUser` ends it.
  if (isAuthApiError(refusal)) await client.auth.getUser();
}
