import type pg from "pg";
import { SAMPLES, userIdIn } from "../../../db/cluster/foreign-auth.ts";

/** Why policies of a database that is served as it is see no user in auth.uid(). Null if they do, or if there is no such function. */
export async function whyNoCaller(client: pg.ClientBase): Promise<string | null> {
  const type = await userIdIn(client);
  if (type === null) return null;
  await client.query("begin read only");
  try {
    const claims = JSON.stringify({ sub: SAMPLES[type] });
    await client.query("select set_config('request.jwt.claims', $1, true)", [claims]);
    const { rows } = await client.query<{ id: string | null }>("select auth.uid()::text as id");
    return rows[0]!.id === SAMPLES[type] ? null : OTHER_CALLER;
  } catch (error) {
    // The roles of callers may call it, and their login need not.
    if ((error as pg.DatabaseError).code === "42501") return null;
    throw error;
  } finally {
    await client.query("rollback");
  }
}

const OTHER_CALLER =
  "auth.uid() does not return the subject of the setting request.jwt.claims, which the service sets, so policies that call it see no user: " +
  "let it return (nullif(current_setting('request.jwt.claims', true), '')::jsonb ->> 'sub') in its type";
