import type { IncomingMessage } from "node:http";
import { anonymous, type Caller } from "../db/caller.ts";
import { apiKeyIn, readCredentials } from "./credentials.ts";
import type { IdentityContext } from "./proofs.ts";
import { RequestIdentity } from "./request-identity.ts";

export type CallerResolverOptions = Omit<IdentityContext, "anonymous">;

/** Credentials → caller, for every interface. */
export class CallerResolver {
  readonly #context: IdentityContext;

  constructor(options: CallerResolverOptions) {
    this.#context = { ...options, anonymous: anonymous(options.anonymousRole) };
  }

  /** Reads the credentials of a request; `apiKey` is the parameter `api_key`. Nothing is looked up yet. */
  identify(request: IncomingMessage, apiKey: string | null = apiKeyIn(request.url!)): RequestIdentity {
    return new RequestIdentity(request, readCredentials(request.headers, apiKey), this.#context);
  }

  /** Whether the user of a task still has the role that the task was accepted with. Signing out does not matter. */
  async isStill({ role, claims: { sub } }: Caller): Promise<boolean> {
    const { store } = this.#context;
    if (store === null || typeof sub !== "string") return true;
    return (await store.accounts.get(sub))?.role === role;
  }
}
