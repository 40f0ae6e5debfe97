import type { IncomingMessage } from "node:http";
import type { Identity } from "../../db/identity.ts";
import type { NewUser } from "../auth/registration.ts";
import type { AccountInput } from "./parse/account.ts";
import type { ResourceRequest } from "./request.ts";
import type { Runner } from "./runner.ts";

/** Makes a user with an account to sign in with, and gives the id. Rejects with RestError where that has to wait. */
export type Register = (user: NewUser, password: string, request: IncomingMessage) => Promise<string>;

/** What a `POST /users` with a password asks for, and as whom. */
export type NewAccount = {
  readonly request: ResourceRequest;
  readonly account: AccountInput;
  readonly identity: Identity;
  /** As it has come. */
  readonly sent: IncomingMessage;
};

/** Who was made, and the request that reads him in the form that was asked for. */
export type Registered = { readonly id: string; readonly reading: ResourceRequest };

/** Rejects as Register does, and with the errors of the database, explained. */
export async function registerNew(
  { request, account, identity, sent }: NewAccount,
  register: Register,
  runner: Runner,
): Promise<Registered> {
  const id = await register(newUserOf(request, account), account.password, sent).catch(async (error) => {
    throw await runner.explained(error, request, identity);
  });
  return { id, reading: readingOf(request, id) };
}

function newUserOf({ operation, values }: ResourceRequest, { username }: AccountInput): NewUser {
  const columns = operation.kind === "create" ? JSON.parse(values[operation.body]!) : {};
  return { name: columns.name, email: columns.email, age: columns.age ?? null, username };
}

const readingOf = (request: ResourceRequest, id: string): ResourceRequest => ({
  ...request,
  operation: { kind: "read", key: { id: 0, parent: null } },
  values: [id],
  shape: `made ${request.shape}`,
});
