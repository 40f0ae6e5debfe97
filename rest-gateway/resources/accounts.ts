import type { IncomingMessage } from "node:http";
import type { NewUser } from "../auth/registration.ts";
import type { AccountInput } from "./parse/account.ts";
import type { ResourceRequest } from "./request.ts";

/** Makes a user with an account to sign in with, and gives the id. Rejects with RestError where that has to wait. */
export type Register = (user: NewUser, password: string, request: IncomingMessage) => Promise<string>;

/** The user that a `POST /users` with a password describes. */
export function newUserOf({ operation, values }: ResourceRequest, { username }: AccountInput): NewUser {
  const columns = operation.kind === "create" ? JSON.parse(values[operation.body]!) : {};
  return { name: columns.name, email: columns.email, age: columns.age ?? null, username };
}

/** The request that reads what was made, in the form that was asked for. */
export const readingOf = (request: ResourceRequest, id: string): ResourceRequest => ({
  ...request,
  operation: { kind: "read", key: { id: 0, parent: null } },
  values: [id],
  shape: `made ${request.shape}`,
});
