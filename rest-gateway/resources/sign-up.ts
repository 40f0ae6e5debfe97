import type { IncomingMessage, ServerResponse } from "node:http";
import { Router } from "express";
import { anonymous } from "../../db/caller.ts";
import type { Identity } from "../../db/identity.ts";
import { readBytes } from "../../http/body.ts";
import { byMethod } from "../../http/express.ts";
import { contextOf } from "../../http/request.ts";
import { ClientGone } from "../../http/response.ts";
import type { Auth } from "../auth/auth.ts";
import type { NewUser, Registration } from "../auth/registration.ts";
import { route } from "../auth/route.ts";
import { startTokens } from "../auth/tokens.ts";
import { Parameters } from "../conventions/parameters.ts";
import { RestError } from "../conventions/problem.ts";
import { restProblem } from "./answer/problem.ts";
import type { ResourceOptions } from "./index.ts";
import type { AccountInput } from "./parse/account.ts";
import { parseRequest } from "./parse/request.ts";
import type { ResourceRequest } from "./request.ts";
import { RESULT, Runner, type RunnerOptions } from "./runner.ts";

export type SignUpOptions = Pick<ResourceOptions, "resources" | "preferences" | "limits" | "lifecycle"> &
  RunnerOptions & { readonly auth: Auth };

/** The `location` of the new user, and the body of a GET of it. */
type SignedUp = { readonly id: string; readonly location: string; readonly user: object };

const PATH = "/auth/register";

/** `POST /auth/register`: creates a user with an account, and signs the user in. */
export function registerRouter(options: SignUpOptions): Router {
  const signUp = new SignUp(options);
  const { auth } = options;
  const register = route(async (request, response) => {
    const { id, location, user } = await signUp.of(request, response);
    const account = await auth.repository.accountOf(id);
    const pair = await startTokens(auth, account!);
    response
      .status(201)
      .location(location)
      .json({ user, ...pair });
  });
  const router = Router({ strict: true, caseSensitive: true });
  router.all(PATH, byMethod({ POST: register }));
  return router;
}

const STYLE = { version: 1, isCamel: false, prefix: "" } as const;

/** Applies the rules and error messages of `POST /users` with a password. */
class SignUp {
  readonly #options: SignUpOptions;
  readonly #runner: Runner;

  constructor(options: SignUpOptions) {
    this.#options = options;
    this.#runner = new Runner(options);
  }

  /** Rejects with RestError for every error of the client. */
  async of(request: IncomingMessage, response: ServerResponse): Promise<SignedUp> {
    const { limits, anonymousRole, auth, lifecycle } = this.#options;
    const { request: parsed, account } = this.#parse(request, await readBytes(request, limits.size));
    const context = contextOf(request, PATH);
    const identity = this.#runner.identity(parsed, anonymous(anonymousRole), context);
    try {
      const newAccount = { request: parsed, account, identity, address: auth.addressOf(request) };
      const { id, reading } = await registerNew(newAccount, auth.registration, this.#runner);
      const result = await this.#runner.run(reading, identity, new ClientGone(response));
      const location = `${lifecycle.prefix}/users/${id}`;
      return { id, location, user: JSON.parse(result.rows[0]![RESULT.body]!.toString()) };
    } catch (error) {
      throw this.#formatted(error, parsed);
    }
  }

  #parse({ headers }: IncomingMessage, body: Buffer) {
    const { resources, preferences, limits } = this.#options;
    const route = { kind: "collection", resource: resources.get("users")!, parent: null } as const;
    const incoming = { method: "POST", route, parameters: new Parameters(""), headers, body, style: STYLE };
    const given = { ...incoming, preferences: preferences.parse(headers.prefer), isExport: false, needsPassword: true };
    const { request, account } = parseRequest(given, limits);
    // An array of users has no account.
    if (account === null) throw notOne();
    return { request, account };
  }

  #formatted(error: unknown, request: ResourceRequest): unknown {
    const problem = restProblem(error, { request, isAnonymous: true, catalog: this.#options.catalog.current });
    return problem === null ? error : new RestError(problem, { cause: error });
  }
}

const notOne = () =>
  new RestError({ status: 400, code: "VALIDATION_ERROR", message: "the body must be the JSON object of one user" });

/** A `POST /users` with a password, and the identity of its caller. */
type NewAccount = {
  readonly request: ResourceRequest;
  readonly account: AccountInput;
  readonly identity: Identity;
  /** The client's IP address. */
  readonly address: string;
};

/** The id of the new user, and a request that reads the user in the form that the client selected. */
type Registered = { readonly id: string; readonly reading: ResourceRequest };

/** Rejects with RestError if too many accounts were created from the address, and with the errors of `Runner.run`. */
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
