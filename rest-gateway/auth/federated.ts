import type { Request, Response } from "express";
import type { Logger } from "pino";
import type { Config } from "../../config/config.ts";
import type { ProviderKind, ProviderSettings } from "../../config/provider-entry.ts";
import type { Clock } from "../../identity/account.ts";
import type { Check } from "../../identity/diagnosis.ts";
import type { Outbound, OutboundSettings } from "../../identity/outbound.ts";
import type { Problem } from "../../problems/problem.ts";
import type { Auth } from "./auth.ts";
import type { AuthFunctions } from "./functions.ts";
import type { Call } from "./route.ts";
import type { CurrentSignIn } from "./session-repository.ts";
import type { AdmittedLogin } from "./sign-in.ts";
import type { Client } from "./throttle.ts";

/** Sign-in at identity providers, as a part brings it. Methods reject with Problem. */
export type Federated = {
  /** Reads the providers again. Rejects if the database does not respond. */
  load(): Promise<void>;
  /** Those of the file, in its order, and those of the table. */
  list(): readonly ProviderSettings[];
  /** Redirects the browser to a provider, and binds what follows to it with a cookie. */
  begin(
    exchange: { readonly auth: Auth; readonly request: Request; readonly response: Response },
    provider: string,
    start: SignInRequest,
  ): Promise<void>;
  /** Admits, or links first, the identity of a code with which a browser has continued. */
  admitCode(auth: Auth, code: string, verifier: string, client: Client): Promise<AdmittedLogin>;
  /** Whether a provider of this name issues ID tokens. */
  issuesIdTokens(provider: string): boolean;
  /** Admits, or links first, the identity of an ID token, which is used once. */
  admitIdToken(
    call: Pick<Call, "auth" | "client">,
    provider: string,
    token: SentIdToken,
    linking: Linking | null,
  ): Promise<AdmittedLogin>;
  /** Newest first. */
  identitiesOf(auth: Auth, userId: string): Promise<readonly LinkedIdentity[]>;
  /** The body has a sign-in code, its verifier, and what confirms the change. */
  link(call: Call<"account">): Promise<LinkedIdentity>;
  /** Returns false if the sign-in has ended. */
  unlink(auth: Auth, signIn: CurrentSignIn, id: string, client: Client): Promise<boolean>;
  /** Logs a sign-in that has failed, and returns what the browser gets. */
  reportFailure(call: FailedCall, error: Problem): Promise<FailedSignIn>;
};

/** An identity as its owner sees it. Times are ISO 8601. */
export type LinkedIdentity = {
  readonly id: string;
  /** Its name. */
  readonly provider: string;
  readonly email: string | null;
  readonly linkedAt: string;
  readonly lastUsedAt: string | null;
};

/** What the client that starts a sign-in wants to receive. */
export type SignInRequest = {
  /** session: a cookie. token: a pair of tokens. link: the identity is linked to the account of the caller. */
  readonly mode: "session" | "token" | "link";
  /** Absolute; null if the client has named none. */
  readonly returnTo: string | null;
  /**
   * The S256 challenge of a verifier that only the client knows: it receives a sign-in code at `returnTo`, and exchanges it
   * with the verifier. Null to complete the sign-in in the response to the provider.
   */
  readonly challenge: string | null;
  /** The API at which the sign-in has begun, and in whose way it continues; `/auth` if it is absent. */
  readonly wire?: string;
  /** The user of that API whom the identity is linked to. */
  readonly linking?: Linking;
};

/** A user, and the session in which the user has begun. */
export type Linking = { readonly userId: string; readonly session: string };

/** An ID token that a client has received from the provider itself, and what came with it. */
export type SentIdToken = {
  readonly idToken: string;
  /** The claim `nonce` is its SHA-256 in hex: the provider has not seen the nonce itself. */
  readonly nonce: string | null;
  readonly accessToken: string | null;
};

/** What is known of a sign-in at a provider that a browser requests: it decides how a failure is reported. */
export type BrowserSignIn = {
  provider: ProviderSettings | null;
  /** Null until the state of the sign-in has been taken. */
  start: SignInRequest | null;
};

export type FailedCall = Pick<Call, "auth" | "request" | "response" | "client" | "attempt">;

/** What a browser gets after a failure. */
export type FailedSignIn = {
  /** Where it continues, in place of a page; null for a page. */
  readonly url: string | null;
  /** Where the user can start again; null if that would not help. */
  readonly retry: string | null;
  /** Whether the client gets errors as JSON, because it has requested tokens in the response. */
  readonly isJson: boolean;
};

export type FederatedSettings = OutboundSettings & Pick<Config, "providers" | "signup">;

/** Creates what a part brings. */
export type CreateFederated = (options: {
  readonly settings: FederatedSettings;
  /** Those of all parts that are open. */
  readonly providerKinds: readonly ProviderKind[];
  /** The public URL of the service. */
  readonly url: string;
  readonly functions: AuthFunctions;
  /** The secret of the service, from which keys are derived. */
  readonly secret: string;
  readonly clock: Clock;
  readonly log: Logger;
}) => Federated;

export type DiagnosisOptions = {
  /** The public URL of the service. */
  readonly baseUrl: string;
  readonly outbound: Outbound;
  /** Milliseconds since 1970. */
  readonly now: number;
};

/** Names and values. */
export type Registration = readonly (readonly [string, string])[];

/** Checks the settings of a provider by asking the provider. */
export type DiagnoseProvider = (
  settings: ProviderSettings,
  options: DiagnosisOptions & { readonly providerKinds: readonly ProviderKind[] },
) => Promise<{
  /** `SAML 2.0` */
  readonly protocol: string;
  /** What must be registered at the provider. */
  readonly registration: Registration;
  readonly checks: readonly Check[];
}>;

/** The identity providers; none where no part brings them. */
export const providersOf = ({ federated }: Pick<Auth, "federated">): readonly ProviderSettings[] =>
  federated?.list() ?? [];

/** A provider as pages need it, with the path at which a sign-in starts. */
export const describeProvider = ({ name, title, kind }: ProviderSettings) => ({
  name,
  title,
  kind,
  signIn: `/auth/${kind}/${name}`,
});
