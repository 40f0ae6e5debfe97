import { type Key, readJwks } from "../config/json-web-keys.ts";
import { type Outbound, OutboundError } from "./outbound.ts";
import { RemoteValue, type RemoteValueOptions } from "./remote-value.ts";

/** Milliseconds after which keys are read again, so that those that the issuer has withdrawn become invalid. */
export const KEYS_MAX_AGE = 600_000;

export type RemoteKeysOptions = Omit<RemoteValueOptions<readonly Key[]>, "read" | "maxAge"> & {
  readonly issuer: string;
  /** Null to discover the URL. */
  readonly jwksUrl: string | null;
  readonly outbound: Outbound;
};

/** The public keys of an issuer. */
export function remoteKeys({ issuer, jwksUrl, outbound, ...options }: RemoteKeysOptions): RemoteValue<readonly Key[]> {
  let url = jwksUrl;
  let text = "";
  const read = async (previous: readonly Key[] | null): Promise<readonly Key[]> => {
    try {
      url ??= String((await discover(issuer, outbound)).jwks_uri);
      const document = await outbound.json(url);
      if (previous !== null && JSON.stringify(document) === text) return previous;
      const keys = readPublicKeys(document);
      text = JSON.stringify(document);
      return keys;
    } catch (error) {
      // It may have moved.
      url = jwksUrl;
      throw error;
    }
  };
  return new RemoteValue({ ...options, read, maxAge: KEYS_MAX_AGE });
}

/** The metadata of an issuer. Rejects with OutboundError. Source: OpenID Connect Discovery 1.0, section 4. */
export async function discover(issuer: string, outbound: Outbound): Promise<Readonly<Record<string, unknown>>> {
  const url = `${issuer.replace(/\/$/, "")}/.well-known/openid-configuration`;
  const metadata = await outbound.json(url);
  // Exactly, because tokens are compared with it. For "any tenant", some providers send a placeholder.
  if (metadata.issuer !== issuer) {
    throw new OutboundError(`${url} names the issuer ${JSON.stringify(metadata.issuer)}, which is not ${issuer}`);
  }
  if (typeof metadata.jwks_uri !== "string") throw new OutboundError(`${url} has no jwks_uri`);
  return metadata;
}

/**
 * The keys of a set that verify tokens. Keys that are weak, malformed or of an unknown kind are left out, and so are secrets: in a
 * public document a secret is not a key. Throws OutboundError if there is none.
 */
export function readPublicKeys({ keys }: Readonly<Record<string, unknown>>): readonly Key[] {
  const found = (Array.isArray(keys) ? keys : []).flatMap((jwk) => {
    try {
      return readJwks(JSON.stringify(jwk)).filter(({ verify }) => verify.type === "public");
    } catch {
      return [];
    }
  });
  if (found.length === 0) throw new OutboundError("the key set has no public key that verifies tokens");
  return found;
}
