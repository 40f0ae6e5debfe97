import { X509Certificate } from "node:crypto";
import { remoteUrl } from "../../config/json-file.ts";
import { escapeMarkup } from "../../gate/pipeline/response.ts";
import type { KeyPair } from "./settings.ts";
import { childrenOf, descendants, parseXml, type XmlElement, XmlError, type XmlLimits } from "./xml.ts";

export const PROTOCOL = "urn:oasis:names:tc:SAML:2.0:protocol";
export const ASSERTION = "urn:oasis:names:tc:SAML:2.0:assertion";
const METADATA = "urn:oasis:names:tc:SAML:2.0:metadata";
export const SIGNATURE = "http://www.w3.org/2000/09/xmldsig#";
const REDIRECT = "urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Redirect";
const POST = "urn:oasis:names:tc:SAML:2.0:bindings:HTTP-POST";

/** What the metadata of an identity provider say. */
export type SamlMetadata = {
  readonly entityId: string;
  /** Where sign-ins begin, in the Redirect binding. */
  readonly signInUrl: string;
  /** Where sign-outs begin, and where responses to those of the provider go; null without the Redirect binding. */
  readonly logoutUrl: string | null;
  readonly logoutResponseUrl: string | null;
  /** The certificates whose keys may sign, of which there are two while the provider changes its key. PEM. */
  readonly certificates: readonly string[];
  readonly wantsSignedRequests: boolean;
  /** Milliseconds since 1970; null without an end. */
  readonly validUntil: number | null;
};

const LIMITS: XmlLimits = { size: 1_048_576, depth: 40, elements: 20_000, attributes: 100 };

/** Parses the metadata of one identity provider. Throws XmlError. Source: SAML 2.0 Metadata, 2.3 and 2.4. */
export function parseMetadata(xml: string): SamlMetadata {
  const root = parseXml(xml, LIMITS);
  const entities = [...descendants(root)].filter((element) => is(element, METADATA, "EntityDescriptor"));
  const providers = entities.filter((entity) => childrenOf(entity, METADATA, "IDPSSODescriptor").length > 0);
  const [entity, ...others] = providers;
  if (entity === undefined) throw new XmlError("has no identity provider (IDPSSODescriptor)");
  if (others.length > 0) throw new XmlError("has several identity providers: use the metadata of one");
  const [descriptor] = childrenOf(entity, METADATA, "IDPSSODescriptor");
  const entityId = entity.attributes.get("entityID");
  if (!entityId) throw new XmlError("has no entityID");
  const signInUrl = locationOf(descriptor!, "SingleSignOnService");
  if (signInUrl === null) throw new XmlError("has no SingleSignOnService with the binding HTTP-Redirect");
  const certificates = certificatesOf(descriptor!);
  if (certificates.length === 0) {
    throw new XmlError("has no certificate of an RSA key of at least 2048 bits that signs");
  }
  const ends = [root, entity, descriptor!].flatMap(({ attributes }) => attributes.get("validUntil") ?? []);
  return {
    entityId,
    signInUrl,
    logoutUrl: locationOf(descriptor!, "SingleLogoutService"),
    logoutResponseUrl:
      locationOf(descriptor!, "SingleLogoutService", "ResponseLocation") ??
      locationOf(descriptor!, "SingleLogoutService"),
    certificates,
    wantsSignedRequests: /^(true|1)$/.test(descriptor!.attributes.get("WantAuthnRequestsSigned") ?? ""),
    validUntil: ends.length === 0 ? null : Math.min(...ends.map((end) => Date.parse(end) || 0)),
  };
}

const is = (element: XmlElement, namespace: string, name: string) =>
  element.name === name && element.namespace === namespace;

/** The URL of a service in the Redirect binding. Throws XmlError for one that must not be used. */
function locationOf(descriptor: XmlElement, name: string, attribute = "Location"): string | null {
  const service = childrenOf(descriptor, METADATA, name).find(
    ({ attributes }) => attributes.get("Binding") === REDIRECT,
  );
  const url = service?.attributes.get(attribute);
  if (url === undefined) return null;
  if (remoteUrl.safeParse(url).success) return url;
  throw new XmlError(`has a ${name} that is not an https URL`);
}

function certificatesOf(descriptor: XmlElement): readonly string[] {
  const keys = childrenOf(descriptor, METADATA, "KeyDescriptor").filter(
    ({ attributes }) => (attributes.get("use") ?? "signing") === "signing",
  );
  const texts = keys
    .flatMap((key) => [...descendants(key)])
    .filter((element) => is(element, SIGNATURE, "X509Certificate"))
    .map(({ text }) => pemOf(text));
  return [...new Set(texts)].filter(isStrong);
}

function pemOf(base64: string): string {
  const lines = base64.replace(/\s/g, "").match(/.{1,64}/g) ?? [];
  return `-----BEGIN CERTIFICATE-----\n${lines.join("\n")}\n-----END CERTIFICATE-----\n`;
}

function isStrong(pem: string): boolean {
  try {
    const { asymmetricKeyType, asymmetricKeyDetails } = new X509Certificate(pem).publicKey;
    return asymmetricKeyType === "rsa" && (asymmetricKeyDetails?.modulusLength ?? 0) >= 2048;
  } catch {
    return false;
  }
}

export type OwnMetadata = {
  readonly entityId: string;
  readonly consumerUrl: string;
  readonly logoutUrl: string;
  /** All are listed, so that the provider knows the next one before it is used. */
  readonly keys: readonly KeyPair[];
  readonly nameIdFormat: string | null;
};

/** Algorithms for encrypted assertions, best first. */
const ENCRYPTION = [
  "http://www.w3.org/2009/xmlenc11#aes256-gcm",
  "http://www.w3.org/2009/xmlenc11#aes128-gcm",
  "http://www.w3.org/2001/04/xmlenc#aes256-cbc",
  "http://www.w3.org/2001/04/xmlenc#aes128-cbc",
  "http://www.w3.org/2001/04/xmlenc#rsa-oaep-mgf1p",
];

/** The metadata of this service for the provider. */
export function writeMetadata({ entityId, consumerUrl, logoutUrl, keys, nameIdFormat }: OwnMetadata): string {
  const descriptors = keys.flatMap(({ certificate }) => [
    keyDescriptor("signing", certificate, []),
    keyDescriptor("encryption", certificate, ENCRYPTION),
  ]);
  const format = nameIdFormat === null ? "" : `\n    <NameIDFormat>${escapeMarkup(nameIdFormat)}</NameIDFormat>`;
  return `<?xml version="1.0" encoding="UTF-8"?>
<EntityDescriptor xmlns="${METADATA}" entityID="${escapeMarkup(entityId)}">
  <SPSSODescriptor protocolSupportEnumeration="${PROTOCOL}" AuthnRequestsSigned="${keys.length > 0}" WantAssertionsSigned="true">${descriptors.join("")}
    <SingleLogoutService Binding="${REDIRECT}" Location="${escapeMarkup(logoutUrl)}"/>${format}
    <AssertionConsumerService Binding="${POST}" Location="${escapeMarkup(consumerUrl)}" index="0" isDefault="true"/>
  </SPSSODescriptor>
</EntityDescriptor>
`;
}

function keyDescriptor(use: string, certificate: string, algorithms: readonly string[]): string {
  const methods = algorithms.map((algorithm) => `\n      <EncryptionMethod Algorithm="${algorithm}"/>`);
  const base64 = new X509Certificate(certificate).raw.toString("base64");
  return `
    <KeyDescriptor use="${use}">
      <KeyInfo xmlns="${SIGNATURE}"><X509Data><X509Certificate>${base64}</X509Certificate></X509Data></KeyInfo>${methods.join("")}
    </KeyDescriptor>`;
}
