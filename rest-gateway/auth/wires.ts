import type { Problem } from "../../problems/problem.ts";
import { type Form, type IssueCall, issue } from "./issue.ts";
import type { AdmittedLogin } from "./sign-in.ts";

/** How a sign-in goes on that has begun at another API than `/auth`. */
export type Wire = {
  /** The parameter in which the page of the client gets the code, if it has a verifier. */
  readonly codeParameter: string;
  /** What every fragment has. */
  readonly mark: Readonly<Record<string, string>>;
  /** A session, in the fragment of the URL of the client's page, which browsers send to no server. */
  readonly form: Form<Readonly<Record<string, string>>>;
  /** What the page of the client gets after a failure. */
  describe(error: Problem): Readonly<Record<string, string>>;
};

/** Starts a session, and returns the URL of the client with its tokens in the fragment: a client gets them in this way unless it has a verifier. */
export async function signedInUrl(
  call: IssueCall,
  wire: Wire,
  login: AdmittedLogin,
  returnTo: string,
  more: Readonly<Record<string, string>> = {},
): Promise<string> {
  return withFragment(wire, returnTo, { ...(await issue(call, login, wire.form)), ...more });
}

/** The URL of the client with these values in the fragment. */
export function withFragment({ mark }: Wire, returnTo: string, values: Readonly<Record<string, string>>): string {
  const url = new URL(returnTo);
  url.hash = new URLSearchParams({ ...values, ...mark }).toString();
  return url.href;
}

/** The URL of the client with a code for its verifier. */
export function codeUrl({ codeParameter }: Pick<Wire, "codeParameter">, code: string, returnTo: string): string {
  const url = new URL(returnTo);
  url.searchParams.set(codeParameter, code);
  return url.href;
}

/** The URL of the client after a failure, with the reason. */
export function failureUrl(wire: Wire, returnTo: string, challenge: string | null, error: Problem): string {
  const reason = wire.describe(error);
  const url = new URL(returnTo);
  if (challenge !== null) for (const [name, value] of Object.entries(reason)) url.searchParams.set(name, value);
  return withFragment(wire, url.href, reason);
}
