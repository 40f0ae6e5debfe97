import type { Problem } from "../../../db/problems/problem.ts";
import type { Account } from "../../../identity/account.ts";
import type { Call } from "../route.ts";
import type { AdmittedLogin } from "../sign-in.ts";
import type { SignInRequest } from "./sign-in-request.ts";

/** How a sign-in at a provider goes on that has begun at another API than `/auth`. A part adds it to `Federated.wires`. */
export type Wire = {
  /** The parameter in which the page of the client gets the code, if it has a verifier. */
  readonly codeParameter: string;
  /** What every fragment has. */
  readonly mark: Readonly<Record<string, string>>;
  /** Starts a session, and returns what the page of the client gets in the fragment of its URL, which browsers send to no server. */
  startSession(call: Call, account: Account, login: Omit<AdmittedLogin, "account">): Promise<Record<string, string>>;
  /** What the page of the client gets after a failure. */
  describe(error: Problem): Readonly<Record<string, string>>;
};

/** Where a sign-in of another API continues after a failure: the page of the client, which reads the reason. */
export function failureUrl(wire: Wire, { returnTo, challenge }: SignInRequest, error: Problem): string {
  const reason = wire.describe(error);
  const url = new URL(returnTo!);
  if (challenge !== null) for (const [name, value] of Object.entries(reason)) url.searchParams.set(name, value);
  url.hash = new URLSearchParams({ ...reason, ...wire.mark }).toString();
  return url.href;
}
