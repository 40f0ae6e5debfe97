import type { Logger } from "pino";
import type { ProviderSettings } from "../../../config/providers.ts";
import type { Clock } from "../../../identity/account.ts";
import type { Outbound } from "../../../identity/outbound.ts";
import type { Flow, SameSite } from "./flow.ts";
import type { OneTimeValues } from "./one-time-values.ts";
import type { ConfirmedIdentity } from "./profile.ts";

/** What providers need. */
export type ProviderContext = {
  /** The public URL of the service. URLs that providers send browsers back to are made from it, never from a request. */
  readonly baseUrl: string;
  readonly outbound: Outbound;
  readonly once: Pick<OneTimeValues, "keep">;
  readonly clock: Clock;
  readonly log: Pick<Logger, "error">;
};

/** An identity provider. Methods reject with SignInFailure. */
export type Provider = {
  readonly settings: ProviderSettings;
  /** Whether the provider sends the browser back with a POST. */
  readonly sameSite: SameSite;
  /** The issuer of its identities. */
  issuer(): Promise<string>;
  /** The URL at the provider where a sign-in begins. */
  begin(flow: Flow): Promise<string>;
  /** The identity in the response of the provider, whose flow has been taken. */
  finish(response: URLSearchParams, flow: Flow): Promise<ConfirmedIdentity>;
  /** The URL at the provider that ends a sign-in there; null if the provider has none. */
  logout(signIn: string | null, flow: Flow): Promise<string | null>;
  /** Checks the response to a sign-out. */
  finishLogout(query: string, flow: Flow): Promise<void>;
};

/** `urlOf(context, settings, "callback")` → `https://api.example.com/auth/oidc/acme/callback` */
export const urlOf = (
  { baseUrl }: Pick<ProviderContext, "baseUrl">,
  { kind, name }: Pick<ProviderSettings, "kind" | "name">,
  end = "",
): string => new URL(`${baseUrl}/auth/${kind}/${name}${end === "" ? "" : `/${end}`}`).href;
