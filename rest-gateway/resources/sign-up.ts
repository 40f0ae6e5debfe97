import type { IncomingMessage, ServerResponse } from "node:http";
import { nobody, requestHeaders } from "../../db/caller.ts";
import { readBytes } from "../../http/body.ts";
import { ClientGone } from "../../http/client-gone.ts";
import { RestError } from "../conventions/problem.ts";
import { newUserOf, type Register, readingOf } from "./accounts.ts";
import { restProblem } from "./answer/problem.ts";
import type { ResourceOptions } from "./index.ts";
import { Parameters } from "./parse/parameters.ts";
import { parseRequest } from "./parse/request.ts";
import type { ResourceRequest } from "./request.ts";
import { Runner, type RunnerOptions } from "./runner.ts";
import { RESULT } from "./write/statement.ts";

export type SignUpOptions = Pick<ResourceOptions, "resources" | "preferences" | "limits"> &
  RunnerOptions & { readonly register: Register };

/** Who has signed up, and how `GET /users/<id>` tells it. */
export type SignedUp = { readonly id: string; readonly user: object };

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
    const { limits, anonymousRole } = this.#options;
    const { request: asked, account } = this.#parse(request, await readBytes(request, limits.size));
    const context = { method: "POST", path: PATH, headers: requestHeaders(request.headers), cookies: "{}" };
    const identity = this.#runner.identity(asked, nobody(anonymousRole), context);
    try {
      const id = await this.#options
        .register(newUserOf(asked, account), account.password, request)
        .catch(async (error) => {
          throw await this.#runner.explained(error, asked, identity);
        });
      const result = await this.#runner.run(readingOf(asked, id), identity, new ClientGone(response));
      return { id, user: JSON.parse(result.rows[0]![RESULT.body]!.toString()) };
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
    const { constraints, constraintMessages } = this.#options.catalog.current;
    const problem = restProblem(error, { request, isAnonymous: true, constraints, constraintMessages });
    return problem === null ? error : new RestError(problem, { cause: error });
  }
}

const notOne = () =>
  new RestError({ status: 400, code: "VALIDATION_ERROR", message: "the body must be the JSON object of one user" });
