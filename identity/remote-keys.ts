import { type Key, readJwks } from "../config/json-web-keys.ts";
import { type Outbound, OutboundError } from "./outbound.ts";
import { RemoteValue, type RemoteValueOptions } from "./remote-value.ts";

/** Milliseconds after which keys are read again, so that those that the issuer has withdrawn become invalid. */
const MAX_AGE = 600_000;

/** A key set as its issuer publishes it, and the keys in it that verify tokens. */
export type KeySet = { readonly document: Readonly<Record<string, unknown>>; readonly keys: readonly Key[] };

export type RemoteKeysOptions = Omit<RemoteValueOptions<KeySet>, "read" | "maxAge"> & {
  readonly issuer: string;
  /** Null to discover the URL. */
  readonly jwksUrl: string | null;
  readonly outbound: Outbound;
};

/** The public keys of an issuer. */
export function remoteKeys({ issuer, jwksUrl, outbound, ...options }: RemoteKeysOptions): RemoteValue<KeySet> {
  let url = jwksUrl;
  const read = async (previous: KeySet | null): Promise<KeySet> => {
    try {
      url ??= String((await discover(issuer, outbound)).jwks_uri);
      const document = await outbound.json(url);
      const text = JSON.stringify(document);
      const isSame = previous !== null && text === JSON.stringify(previous.document);
      return isSame ? previous : { document, keys: readPublicKeys(text) };
    } catch (error) {
      // It may have moved.
      url = jwksUrl;
      throw error;
    }
  };
  return new RemoteValue({ ...options, read, maxAge: MAX_AGE });
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

/** Throws OutboundError if there is none. A secret in a public document is not a key. */
export function readPublicKeys(text: string): readonly Key[] {
  let keys: readonly Key[];
  try {
    keys = readJwks(text).filter(({ verify }) => verify.type === "public");
  } catch (error) {
    throw new OutboundError(`the key set ${(error as Error).message}`, { cause: error });
  }
  if (keys.length === 0) throw new OutboundError("the key set has no public key that verifies tokens");
  return keys;
}
