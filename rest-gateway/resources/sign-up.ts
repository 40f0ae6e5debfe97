import type { IncomingMessage } from "node:http";
import { anonymous } from "../../db/caller.ts";
import { Problem, problem } from "../../db/problems/problem.ts";
import type { Identity } from "../../db/transaction/identity.ts";
import { readBytes } from "../../http/pipeline/body.ts";
import { exchangeOf } from "../../http/pipeline/exchange.ts";
import { contextOfExchange } from "../../http/pipeline/recipient.ts";
import type { Auth } from "../auth/auth.ts";
import type { NewUser, Registration } from "../auth/registration.ts";
import type { RoutedAuth } from "../auth/route.ts";
import { startTokens } from "../auth/tokens.ts";
import { Parameters } from "../conventions/parameters.ts";
import { locationOf } from "./answer/answer.ts";
import { resourceProblem } from "./answer/error-mapping.ts";
import type { ResourceOptions } from "./index.ts";
import type { AccountInput } from "./parse/account.ts";
import { type Incoming, type ParseLimits, parseRequest } from "./parse/request.ts";
import { FoundFaults } from "./problem.ts";
import type { ResourceRequest } from "./request.ts";
import type { Resource } from "./resource.ts";
import { RESULT, Runner, type RunnerOptions } from "./runner.ts";

export type SignUpOptions = Pick<ResourceOptions, "resources" | "preferences" | "limits" | "lifecycle"> &
  RunnerOptions & { readonly auth: Auth };

/**
 * `POST /auth/register`: creates a user with an account, and signs the user in. The rules and error messages are those of
 * `POST /users` with a password.
 */
export function signUpOf(options: SignUpOptions): RoutedAuth["signUp"] {
  const { auth, limits, anonymousRole, catalog } = options;
  const runner = new Runner(options);
  return async ({ request: sent, response, client }) => {
    const { address, signal } = client;
    const caller = anonymous(anonymousRole);
    const context = contextOfExchange(exchangeOf(sent), "/auth/register", caller);
    const incoming = incomingOf(sent, await readBytes(sent, limits.size), options);
    const { request, account } = await parseSignUp(incoming, limits).catch(async (error) => {
      if (!(error instanceof Problem && error.cause instanceof FoundFaults)) throw error;
      throw await runner.alsoViolated(error.cause, incoming.route, incoming.style, caller, context);
    });
    const identity = runner.identity(request, caller, context);
    const fail = (error: unknown): never => {
      throw (
        resourceProblem(error, { request, isAnonymous: true, role: anonymousRole, catalog: catalog.current }) ?? error
      );
    };
    const newAccount = { request, account, identity, address };
    const reading = await createAccount(newAccount, auth.registration, runner).catch(fail);
    const { rows } = await runner.run(reading, identity, signal).catch(fail);
    const user = JSON.parse(rows[0]![RESULT.body]!.toString());
    const id = reading.values[0]!;
    const pair = await startTokens({ auth, request: sent, client }, (await auth.repository.accountOf(id))!);
    response.location(locationOf(request, id));
    return { user, ...pair };
  };
}

/** Throws Problem if no resource has accounts. */
function resourceWithAccounts({ accounts }: SignUpOptions["resources"]): Resource {
  if (!accounts) throw problem("no such path");
  return accounts;
}

function incomingOf({ headers }: IncomingMessage, body: Buffer, options: SignUpOptions): Incoming {
  const { resources, preferences, lifecycle } = options;
  return {
    method: "POST",
    route: { kind: "collection", resource: resourceWithAccounts(resources), parent: null },
    parameters: new Parameters(""),
    headers,
    body,
    style: { version: 1, isCamel: false, prefix: lifecycle.prefix },
    preferences: preferences.parse(headers.prefer),
    isTask: false,
    needsPassword: true,
  };
}

/** Rejects with Problem for every invalid body. */
async function parseSignUp(incoming: Incoming, limits: ParseLimits) {
  const { request, account } = parseRequest(incoming, limits);
  // An array of users has no account.
  if (account === null) throw problem("not one user");
  return { request, account };
}

/** A `POST /users` with a password, and the identity of its caller. */
type NewAccount = {
  readonly request: ResourceRequest;
  readonly account: AccountInput;
  readonly identity: Identity;
  /** The client's IP address. */
  readonly address: string;
};

/**
 * Creates the user and the account, in a transaction of its own. Returns the request that reads the new user, whose id is its only value. Rejects with
 * Problem if too many accounts were created from the address or an operator tries the request, and with the errors of `Runner.run`.
 */
export async function createAccount(
  { request, account, identity, address }: NewAccount,
  registration: Registration,
  runner: Runner,
): Promise<ResourceRequest> {
  if (identity.request.operator !== undefined) throw problem("no accounts by console");
  const user = { columns: request.body!.records[0] as NewUser["columns"], username: account.username };
  const id = await registration.register(user, account.password, address).catch(async (error) => {
    throw await runner.explained(error, request, identity);
  });
  const operation = { kind: "read", key: { id: 0, parent: null } } as const;
  return { ...request, operation, values: [id], shape: `made ${request.shape}` };
}
