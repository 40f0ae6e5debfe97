import { createPrivateKey, X509Certificate } from "node:crypto";
import { z } from "zod";
import type { ClaimPath } from "../../config/claim-path.ts";
import { parsedBy } from "../../config/config-error.ts";
import { requiredText } from "../../config/json-file.ts";
import type { ProviderKind, ProviderSettings, Sources } from "../../config/provider-entry.ts";
import { isStrongRsa } from "../../config/setting-types.ts";
import { readFile } from "../../config/text-file.ts";
import { commonFields, named, providerUrl, secret } from "../federated/entry.ts";

/** A key pair of this service, in PEM format. */
export type KeyPair = { readonly privateKey: string; readonly certificate: string };

export type SamlSettings = ProviderSettings & {
  readonly kind: "saml";
  /** The metadata of the provider: its URL, or the XML. */
  readonly metadata: { readonly url: string } | { readonly xml: string };
  /** The entity id that the metadata must have. Null: the one in the first metadata that are read; it must not change later. */
  readonly issuer: string | null;
  /** The entity id of this service at the provider; null for the URL of the service's own metadata. */
  readonly entityId: string | null;
  /** The first signs requests; all decrypt assertions. Empty: requests are not signed. */
  readonly keys: readonly KeyPair[];
  /** The format of the subject that is requested; null to leave it to the provider. */
  readonly nameIdFormat: string | null;
  readonly domains: readonly string[];
};

/** Where providers usually send the profile. */
const CLAIMS = {
  // The NameID, unless an attribute is named.
  subject: [],
  name: [
    ...["displayName", "name", "cn", "urn:oid:2.16.840.1.113730.3.1.241", "urn:oid:2.5.4.3"],
    "http://schemas.microsoft.com/identity/claims/displayname",
  ],
  email: [
    ...["email", "mail", "urn:oid:0.9.2342.19200300.100.1.3"],
    "http://schemas.xmlsoap.org/ws/2005/05/identity/claims/emailaddress",
  ],
};

const entryType = (sources: Sources) =>
  z
    .strictObject({
      kind: z.literal("saml"),
      ...commonFields(attribute, CLAIMS),
      metadata: metadata(sources),
      issuer: requiredText.nullable().default(null),
      entityId: requiredText.nullable().default(null),
      keys: z
        .array(z.strictObject({ privateKey: privateKey(sources), certificate: certificate(sources) }), {
          error: "must be a list of key pairs",
        })
        .max(2, "must have at most 2 key pairs")
        .default([]),
      nameIdFormat: requiredText.nullable().default(null),
      domains: z.array(domain, { error: "must be a list of domains" }).default([]),
    })
    .transform((entry): SamlSettings => named(entry));

/** How entries of the kind `saml` are read. */
export const SAML_ENTRIES: ProviderKind = { kind: "saml", entry: entryType };

/** `Corp.Example` → `corp.example` */
const domain = requiredText
  .transform((text) => text.toLowerCase())
  .refine((text) => text.length <= 253 && /^[^\s@/.]+(\.[^\s@/.]+)+$/.test(text), {
    error: "must be the domain of an e-mail, such as corp.example",
  });

/** An attribute of SAML, whose name may have dots. */
const attribute = requiredText.transform((name): ClaimPath => [name]);

/** A URL, or the path of a file, which a row of the table must not name. */
const metadata = (sources: Sources) =>
  parsedBy(requiredText, (text): SamlSettings["metadata"] => {
    if (sources.isTable || /^https?:/.test(text)) {
      const { error } = providerUrl(sources).safeParse(text);
      if (error) throw new Error(error.issues[0]!.message);
      return { url: text };
    }
    const xml = readFile(text).trim();
    if (xml === "") throw new Error("names an empty file");
    return { xml };
  });

const privateKey = (sources: Sources) =>
  secret(sources).refine((pem) => isStrongRsa(() => createPrivateKey(pem)), {
    error: "must be the PEM of an RSA private key of at least 2048 bits",
  });

const certificate = (sources: Sources) =>
  secret(sources).refine((pem) => isStrongRsa(() => new X509Certificate(pem).publicKey), {
    error: "must be the PEM certificate of an RSA key of at least 2048 bits",
  });
