import type { Identity } from "../../db/identity.ts";
import type { NewUser, Registration } from "../auth/registration.ts";
import type { AccountInput } from "./parse/account.ts";
import type { ResourceRequest } from "./request.ts";
import type { Runner } from "./runner.ts";

/** A `POST /users` with a password, and the identity that it is made as. */
export type NewAccount = {
  readonly request: ResourceRequest;
  readonly account: AccountInput;
  readonly identity: Identity;
  /** The client's IP address. */
  readonly address: string;
};

/** The id of the new user, and the request that reads the user in the form that the client wants. */
export type Registered = { readonly id: string; readonly reading: ResourceRequest };

/** Rejects with RestError when the address has made too many accounts, and with the errors of the database, explained. */
export async function registerNew(
  { request, account, identity, address }: NewAccount,
  registration: Registration,
  runner: Runner,
): Promise<Registered> {
  const user = newUserOf(request, account);
  const id = await registration.register(user, account.password, address).catch(async (error) => {
    throw await runner.explained(error, request, identity);
  });
  return { id, reading: readingOf(request, id) };
}

function newUserOf({ body }: ResourceRequest, { username }: AccountInput): NewUser {
  const { name, email, age = null } = body!.records[0] as Omit<NewUser, "username">;
  return { name, email, age, username };
}

const readingOf = (request: ResourceRequest, id: string): ResourceRequest => ({
  ...request,
  operation: { kind: "read", key: { id: 0, parent: null } },
  values: [id],
  shape: `made ${request.shape}`,
});
