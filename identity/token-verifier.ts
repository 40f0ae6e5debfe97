import type { Logger } from "pino";
import type { Config } from "../config/config.ts";
import type { Clock } from "./account.ts";
import { ForeignTokens } from "./foreign-tokens.ts";
import { IssuerTokens, TrustedIssuers } from "./issuer-tokens.ts";
import { foreignKeys } from "./keys.ts";
import { createOutbound } from "./outbound.ts";
import { remoteKeys } from "./remote-keys.ts";
import type { Tokens } from "./tokens.ts";
import type { Verifier } from "./verified-tokens.ts";

export type VerifierOptions = {
  readonly config: Config;
  /** The service's own tokens. */
  readonly tokens: Tokens;
  readonly clock: Clock;
  readonly log: Logger;
};

/**
 * The verifier of the tokens that clients send. With MIGRATE=off another service issues them; tokens of JWT_ISSUERS are
 * accepted in both modes.
 */
export function createVerifier({ config, tokens, clock, log }: VerifierOptions): Verifier {
  const { hasAuth: hasAccounts, dbAnonRole: anonymousRole } = config;
  const own = hasAccounts ? tokens : foreignTokens(config);
  if (config.jwtIssuers.length === 0) return own;
  const outbound = createOutbound(config);
  const issuers = config.jwtIssuers.map((trusted) => {
    const { issuer, jwksUrl } = trusted;
    const onError = (err: unknown) =>
      log.error({ issuer, err }, "the keys of an issuer in JWT_ISSUERS cannot be read: the previous ones stay in use");
    const onChange = () => verified.forget();
    const keys = remoteKeys({ issuer, jwksUrl, outbound, clock, onChange, onError });
    const verified = new IssuerTokens({ issuer: trusted, keys, anonymousRole, hasAccounts });
    return [issuer, verified] as const;
  });
  return new TrustedIssuers(own, new Map(issuers), !hasAccounts);
}

function foreignTokens(config: Config): ForeignTokens {
  const { jwtSecret, jwtPrivateKey, jwtAud: audience, jwtRoleClaim: roleClaim, dbAnonRole: anonymousRole } = config;
  return new ForeignTokens({ keys: foreignKeys(jwtSecret, jwtPrivateKey), audience, roleClaim, anonymousRole });
}
