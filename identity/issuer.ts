import { join } from "node:path";
import type { Config } from "../config/config.ts";
import { keepSecret } from "../db/cluster/data-directory.ts";
import { ForeignTokens } from "./foreign-tokens.ts";
import { foreignKeys, previousKeys } from "./keys.ts";
import { Tokens } from "./tokens.ts";
import type { Verifier } from "./verified-tokens.ts";

/** The secret of the settings, or the one that is kept beside the embedded database; "" where there is none. */
export async function secretOf({ jwtSecret, jwtPrivateKey, embedded, dataDir }: Config): Promise<string> {
  return jwtSecret || jwtPrivateKey || (embedded ? keepSecret(join(dataDir, "secret")) : "");
}

export async function issuerOf(config: Config): Promise<Tokens> {
  const { jwtPrivateKey: privateKey, jwtAudience: audience, anonymousRole } = config;
  return new Tokens({
    secret: await secretOf(config),
    privateKey,
    previousKeys: previousKeys(config.jwtPreviousSecret, config.jwtPreviousKey),
    audience,
    anonymousRole,
  });
}

/** With MIGRATE=off tokens come from somebody else. */
export function verifierOf(config: Config, tokens: Tokens): Verifier {
  const { jwtSecret, jwtPrivateKey, jwtAudience: audience, jwtRoleClaim: roleClaim, anonymousRole } = config;
  if (config.migrate) return tokens;
  return new ForeignTokens({ keys: foreignKeys(jwtSecret, jwtPrivateKey), audience, roleClaim, anonymousRole });
}
