import type { IncomingMessage, ServerResponse } from "node:http";
import { anonymous } from "../../db/caller.ts";
import { readBytes } from "../../http/body.ts";
import { ClientGone } from "../../http/client-gone.ts";
import { contextOf } from "../../http/request-context.ts";
import { Parameters } from "../conventions/parameters.ts";
import { RestError } from "../conventions/problem.ts";
import { type Register, registerNew } from "./accounts.ts";
import { restProblem } from "./answer/problem.ts";
import type { ResourceOptions } from "./index.ts";
import { parseRequest } from "./parse/request.ts";
import type { ResourceRequest } from "./request.ts";
import { Runner, type RunnerOptions } from "./runner.ts";
import { RESULT } from "./write/statement.ts";

export type SignUpOptions = Pick<ResourceOptions, "resources" | "preferences" | "limits" | "lifecycle"> &
  RunnerOptions & { readonly register: Register };

/** Who has signed up, where to read it, and how `GET /users/<id>` tells it. */
export type SignedUp = { readonly id: string; readonly location: string; readonly user: object };

const PATH = "/auth/register";
const STYLE = { version: 1, isCamel: false, prefix: "" } as const;

/** What `POST /users` does with a password, under the same rules and in the same words, for `POST /auth/register`. */
export class SignUp {
  readonly #options: SignUpOptions;
  readonly #runner: Runner;

  constructor(options: SignUpOptions) {
    this.#options = options;
    this.#runner = new Runner(options);
  }

  /** Rejects with RestError for all that is the client's fault. */
  async of(request: IncomingMessage, response: ServerResponse): Promise<SignedUp> {
    const { limits, anonymousRole, register, lifecycle } = this.#options;
    const { request: asked, account } = this.#parse(request, await readBytes(request, limits.size));
    const context = contextOf(request, PATH);
    const identity = this.#runner.identity(asked, anonymous(anonymousRole), context);
    try {
      const newAccount = { request: asked, account, identity, sent: request };
      const { id, reading } = await registerNew(newAccount, register, this.#runner);
      const result = await this.#runner.run(reading, identity, new ClientGone(response));
      const location = `${lifecycle.prefix}/users/${id}`;
      return { id, location, user: JSON.parse(result.rows[0]![RESULT.body]!.toString()) };
    } catch (error) {
      throw this.#told(error, asked);
    }
  }

  #parse({ headers }: IncomingMessage, body: Buffer) {
    const { resources, preferences, limits } = this.#options;
    const route = { kind: "collection", resource: resources.get("users")!, parent: null } as const;
    const incoming = { method: "POST", route, parameters: new Parameters(""), headers, body, style: STYLE };
    const given = { ...incoming, preferences: preferences.parse(headers.prefer), isExport: false, needsPassword: true };
    const { request, account } = parseRequest(given, limits);
    // A list of users has none.
    if (account === null) throw notOne();
    return { request, account };
  }

  #told(error: unknown, request: ResourceRequest): unknown {
    const problem = restProblem(error, { request, isAnonymous: true, catalog: this.#options.catalog.current });
    return problem === null ? error : new RestError(problem, { cause: error });
  }
}

const notOne = () =>
  new RestError({ status: 400, code: "VALIDATION_ERROR", message: "the body must be the JSON object of one user" });
