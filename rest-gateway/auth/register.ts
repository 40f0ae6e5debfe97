import type { Transactions } from "../../db/transaction.ts";
import { GATEWAY } from "./gateway.ts";
import { hashPassword } from "./passwords.ts";

/** Who signs up. Without a username the e-mail is the login. */
export type NewUser = {
  readonly name: string;
  readonly email: string;
  readonly age: number | null;
  readonly username: string | null;
};

/**
 * Makes a user and the account to sign in with, both or neither, and gives the id. The rules for the password are the
 * caller's to ask for; those for the rest are the database's, whose errors pass through.
 */
export async function register(database: Transactions, user: NewUser, password: string): Promise<string> {
  const { name, email, age, username } = user;
  const statement = {
    text: "select auth_api.register($1, $2, $3::integer, $4, $5)::text",
    values: [name, email, age === null ? null : String(age), username, await hashPassword(password)],
  };
  const [result] = await database.run(GATEWAY, [statement]);
  return result!.rows[0]![0]!.toString();
}
