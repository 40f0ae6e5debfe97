import type { ApiSent, ResourceClient } from "../../support/resource-client.ts";

/** A user as version 1 tells it. */
export type User = {
  readonly id: number;
  readonly name: string;
  readonly email: string;
  readonly age: number | null;
  readonly created_at: string;
  readonly updated_at: string;
};

let made = 0;

/** A new e-mail. */
export const newEmail = () => `new-${++made}@test.example`;

/** Makes a user by POST: `await user({ age: 36 })`. */
export const userMaker =
  ({ body }: ResourceClient) =>
  (given: Readonly<Record<string, unknown>> = {}, sent: ApiSent = {}): Promise<User> =>
    body("POST /users", { ...sent, body: { name: "Grace Hopper", email: newEmail(), ...given } });

/** All users as text: equal when nothing was written. */
export const allUsers = async ({ sql }: ResourceClient): Promise<string> =>
  JSON.stringify(await sql("select u::text from users as u order by id"));

/** Adds users 5 to `total`. */
export async function fill({ sql }: ResourceClient, total: number): Promise<void> {
  const numbers = "generate_series(5, $1) as i";
  await sql(
    `insert into users (name, email) select 'User ' || i, 'user-' || i || '@test.example' from ${numbers}`,
    total,
  );
}

export const idsOf = (users: readonly User[]) => users.map(({ id }) => id);

/** The whole numbers from the first to the last: none when it ends before it begins. */
export const range = (first: number, last: number) =>
  Array.from({ length: Math.max(0, last - first + 1) }, (_, i) => first + i);
