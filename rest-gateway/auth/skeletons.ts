import type pg from "pg";
import type { Logger } from "pino";
import { emailSkeleton, usernameSkeleton } from "./look-alikes.ts";

type Row = { readonly id: string; readonly login: string };

// An ASCII e-mail needs none.
const WITHOUT_SKELETON = `
  select user_id::text as id, username as login from auth_private.accounts
  where username is not null and username_skeleton is null
  union all
  select user_id::text, email from auth_private.login_emails
  where skeleton is null and email !~ '^[[:ascii:]]+$'
  order by 1`;

const STORE = `
  select id::text from unnest($1::bigint[], $2::text[], $3::text[]) as s (id, login, skeleton)
  where not auth_private.store_skeleton(login, skeleton)`;

const BATCH = 1000;

/**
 * Computes the skeletons of usernames and e-mails that have none: those from before skeletons were stored, and those that were
 * inserted in SQL. If two existing accounts look alike, both stay as they are, and the log names the one without a skeleton.
 */
export async function fillSkeletons(client: pg.Client, log: Logger): Promise<void> {
  const { rows } = await client.query<Row>(WITHOUT_SKELETON);
  const users: string[] = [];
  for (let i = 0; i < rows.length; i += BATCH) {
    const batch = rows.slice(i, i + BATCH);
    const logins = batch.map(({ login }) => login);
    const skeletons = logins.map((login) => (login.includes("@") ? emailSkeleton(login) : usernameSkeleton(login)));
    const refused = await client.query<Pick<Row, "id">>(STORE, [batch.map(({ id }) => id), logins, skeletons]);
    users.push(...refused.rows.map(({ id }) => id));
  }
  if (users.length > 0)
    log.warn(
      { users: users.slice(0, 100), count: users.length },
      "accounts have a username or e-mail that looks like another's",
    );
}
