import type { IncomingMessage } from "node:http";
import { anonymous } from "../../db/caller.ts";
import type { DatabaseErrorLike } from "../../db/sqlstates.ts";
import type { Identity } from "../../db/transaction/identity.ts";
import type { Result } from "../../db/transaction/transaction.ts";
import type { CancelSignal } from "../../db/wire/connection.ts";
import { readBytes } from "../../gate/pipeline/body.ts";
import { contextOfExchange, exchangeOf } from "../../gate/pipeline/exchange.ts";
import { type Account, callerOfAccount } from "../../identity/account.ts";
import { problem } from "../../problems/problem.ts";
import type { Auth } from "../auth/auth.ts";
import { issue, TOKENS } from "../auth/issue.ts";
import { type NewUser, register, signUp } from "../auth/registration.ts";
import { findAccountOf } from "../auth/repository.ts";
import { OPERATORS, type RoutedAuth } from "../auth/route.ts";
import { Parameters } from "../conventions/parameters.ts";
import { locationOf } from "./answer/answer.ts";
import { resourceProblem } from "./answer/error-mapping.ts";
import { type ParseOptions, parseRequest } from "./parse/request.ts";
import type { RequestText, ResourceRequest } from "./request.ts";
import { RESULT, Runner, type RunnerOptions } from "./runner.ts";

export type SignUpOptions = ParseOptions & RunnerOptions & { readonly auth: Auth };

/**
 * `POST /auth/register`: creates a user with an account, and signs the user in. The rules and error messages are those of
 * `POST /users` with a password.
 */
export function signUpOf(options: SignUpOptions): RoutedAuth["signUp"] {
  const { anonymousRole, catalog, resources } = options;
  const limits = { ...options.limits, needsPassword: true };
  const runner = new Runner(options);
  // Then no response may tell whether an e-mail is taken, so the database is not asked for further faults.
  const confirms = options.auth.settings.emailConfirm === "required";
  return async (call) => {
    const { request: sent, response, client } = call;
    const caller = anonymous(anonymousRole);
    const text = textOf(sent, await readBytes(sent, limits.bodyLimit), options);
    const context = contextOfExchange(exchangeOf(sent), text.path, caller);
    const { accounts: resource } = resources;
    if (!resource) throw problem("no resource with accounts");
    const route = { kind: "collection", resource, parent: null } as const;
    const request = confirms
      ? parseRequest(text, route, limits)
      : await runner.parse(text, route, limits, caller, context);
    // An array of users has no account.
    if (request.account === null) throw problem("not one user");
    const identity = runner.identity(request, caller, context);
    const fail = (error: unknown): never => {
      throw (
        // Signing in would not help: a hook that lacks a right is an internal error, and one that refuses the user says why.
        resourceProblem(error, { request, isAnonymous: false, role: anonymousRole, catalog: catalog.current }) ?? error
      );
    };
    const explain = explaining(request, identity, runner, confirms);
    const signedUp = await signUp(call, newUserOf(request, identity), request.account.password)
      .catch(explain)
      .catch(fail);
    const { id, account } = signedUp;
    if (account === null) {
      response.status(202).json({ message: "an e-mail to confirm the address is on its way: sign in after that" });
      return;
    }
    const result = await readCreated(createdAs(account, request, identity), runner, client.signal).catch(fail);
    const user =
      result === null ? { [request.resource.key.name]: id } : JSON.parse(result.rows[0]![RESULT.body]!.toString());
    const pair = await issue(call, { account }, TOKENS);
    response.location(locationOf(request, id));
    return { user, ...pair };
  };
}

/** The request as one to the collection of users. Its headers choose no version. */
const textOf = (
  { headers }: IncomingMessage,
  body: Buffer,
  { preferences, lifecycle }: SignUpOptions,
): RequestText => ({
  method: "POST",
  path: "/auth/register",
  prefix: "",
  parameters: new Parameters(""),
  headers,
  preferences: preferences.parse(headers.prefer),
  style: { version: 1, isCamel: false, prefix: lifecycle.prefix },
  contentType: "application/json",
  body,
  isTask: false,
});

/** A `POST /users` with a password, and the identity of its caller. */
type NewAccount = {
  readonly request: ResourceRequest;
  readonly identity: Identity;
  /** The client's IP address. */
  readonly address: string;
  /** Those of the client. */
  readonly languages: readonly string[];
};

/** A user with an account. Its caller may not be able to read it, so it is read as the user. */
export type CreatedAccount = {
  /** Reads the user, whose id is its only value. */
  readonly request: ResourceRequest;
  readonly identity: Identity;
  readonly account: Account;
};

/**
 * Creates the user and the account, in a transaction of its own. Null if the e-mail is taken and EMAIL_CONFIRM=required. Rejects with
 * Problem if sign-up is closed, too many accounts were created from the address
 * or an operator tries the request, and with the errors of `Runner.run`.
 */
export async function createAccount(
  { request, identity, address, languages }: NewAccount,
  auth: Auth,
  runner: Runner,
): Promise<CreatedAccount | null> {
  const isByOperator = OPERATORS.includes(identity.caller.role);
  const user = { ...newUserOf(request, identity), isByOperator, languages };
  const confirms = auth.settings.emailConfirm === "required";
  const registering = register(auth, user, request.account!.password, { address });
  const id = await registering.catch(explaining(request, identity, runner, confirms));
  return id === null ? null : createdAs((await findAccountOf(auth, id))!, request, identity);
}

function createdAs(account: Account, request: ResourceRequest, identity: Identity): CreatedAccount {
  const operation = { kind: "read", key: { id: 0, parent: null } } as const;
  return {
    request: { ...request, operation, values: [account.id], shape: `made ${request.shape}` },
    identity: { ...identity, caller: callerOfAccount(account, null) },
    account,
  };
}

function newUserOf(request: ResourceRequest, identity: Identity): Pick<NewUser, "fields" | "username"> {
  if (identity.request.operator !== undefined) throw problem("no accounts by console");
  return { fields: fieldsOf(request), username: request.account!.username };
}

/** Rejects with the further faults of the request too, unless no response may tell whether an e-mail is taken. */
const explaining =
  (request: ResourceRequest, identity: Identity, runner: Runner, confirms: boolean) =>
  async (error: unknown): Promise<never> => {
    throw confirms ? error : await runner.explained(error, request, identity);
  };

/** The hooks of the application see the names of the fields, as in other sign-ups, whatever the columns are called. */
function fieldsOf({ resource, body }: ResourceRequest): NewUser["fields"] {
  const [record] = body!.records;
  const given = resource.fields.filter(({ column }) => Object.hasOwn(record!, column.name));
  return Object.fromEntries(given.map(({ name, column }) => [name, record![column.name]])) as NewUser["fields"];
}

/** Reads a new user; null if users may not read their own row. */
export async function readCreated(
  { request, identity }: CreatedAccount,
  runner: Runner,
  signal: CancelSignal,
): Promise<Result | null> {
  try {
    const result = await runner.run(request, identity, signal);
    return result.rows.length === 0 ? null : result;
  } catch (error) {
    if ((error as DatabaseErrorLike).code === "42501") return null;
    throw error;
  }
}
