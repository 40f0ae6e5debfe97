import { signInFailure } from "../federated/failure.ts";
import { ASSERTION, PROTOCOL, SIGNATURE } from "./metadata.ts";
import { childrenOf, descendants, onlyChild, parseXml, type XmlElement, XmlError, type XmlLimits } from "./xml.ts";

// What node-saml does not check before it verifies a signature: that a response has only what a response needs.

/** What a response must match. */
export type Expected = {
  /** The provider. */
  readonly issuer: string;
  /** This service. */
  readonly entityId: string;
  readonly consumerUrl: string;
  readonly requestId: string;
  /** Milliseconds since 1970. */
  readonly now: number;
};

/** Characters of a response; those of providers have 5 to 20 thousand. */
const MAX_RESPONSE = 98_304;
export const LIMITS: XmlLimits = { size: MAX_RESPONSE, depth: 40, elements: 2000, attributes: 40 };

const ENCRYPTION = "http://www.w3.org/2001/04/xmlenc#";
const SUCCESS = "urn:oasis:names:tc:SAML:2.0:status:Success";

const SHA = ["http://www.w3.org/2001/04/xmlenc#sha256", "http://www.w3.org/2001/04/xmlenc#sha512"];

/** The accepted algorithms of each element that names one. */
const ALGORITHMS: Readonly<Record<string, readonly string[]>> = {
  CanonicalizationMethod: ["http://www.w3.org/2001/10/xml-exc-c14n#"],
  SignatureMethod: [
    "http://www.w3.org/2001/04/xmldsig-more#rsa-sha256",
    "http://www.w3.org/2001/04/xmldsig-more#rsa-sha512",
  ],
  Transform: ["http://www.w3.org/2000/09/xmldsig#enveloped-signature", "http://www.w3.org/2001/10/xml-exc-c14n#"],
  EncryptionMethod: [
    "http://www.w3.org/2009/xmlenc11#aes128-gcm",
    "http://www.w3.org/2009/xmlenc11#aes256-gcm",
    "http://www.w3.org/2001/04/xmlenc#aes128-cbc",
    "http://www.w3.org/2001/04/xmlenc#aes256-cbc",
    "http://www.w3.org/2001/04/xmlenc#rsa-oaep-mgf1p",
  ],
  DigestMethod: SHA,
};
/** The digest of RSA-OAEP, for which SHA-1 is safe and usual. The last is how the library spells SHA-256. */
const OAEP_DIGESTS = ["http://www.w3.org/2000/09/xmldsig#sha1", ...SHA, "http://www.w3.org/2000/09/xmldsig#sha256"];

/** The kinds of responses, by what has to be verified in them. */
export type ResponseShape = {
  readonly isEncrypted: boolean;
  readonly isResponseSigned: boolean;
  readonly isAssertionSigned: boolean;
};

/** `PHNhbWxwOlJlc…` → the XML. Throws Problem. */
export function decodeResponse(base64: string | null): string {
  if (base64 === null) throw refused("there is no SAMLResponse");
  if (base64.length > (MAX_RESPONSE * 4) / 3 + 4) throw refused(`the response has more than ${MAX_RESPONSE} bytes`);
  if (!/^[A-Za-z0-9+/\s]+={0,2}\s*$/.test(base64)) throw refused("the response is not base64");
  const bytes = Buffer.from(base64, "base64");
  const text = bytes.toString();
  if (!Buffer.from(text).equals(bytes)) throw refused("the response is not UTF-8");
  return text;
}

/** Checks a response before its signature is verified. Throws Problem. Source: SAML 2.0 Core, 3.2.2. */
export function checkResponse(xml: string, expected: Expected): ResponseShape {
  return verified(() => {
    const root = parseXml(xml, LIMITS);
    if (root.name !== "Response" || root.namespace !== PROTOCOL) throw new XmlError("is not a Response");
    checkContents(root, [root]);
    const { attributes } = root;
    requireEqual("Version", attributes.get("Version"), "2.0");
    if (attributes.has("Destination")) requireEqual("Destination", attributes.get("Destination"), expected.consumerUrl);
    if (attributes.has("InResponseTo"))
      requireEqual("InResponseTo", attributes.get("InResponseTo"), expected.requestId);
    for (const issuer of childrenOf(root, ASSERTION, "Issuer")) requireEqual("Issuer", issuer.text, expected.issuer);
    checkStatus(onlyChild(root, PROTOCOL, "Status"));
    const assertions = childrenOf(root, ASSERTION, "Assertion");
    const isEncrypted = assertions.length === 0;
    if (isEncrypted) onlyChild(root, ASSERTION, "EncryptedAssertion");
    else onlyChild(root, ASSERTION, "Assertion");
    const isResponseSigned = hasSignature(root);
    const isAssertionSigned = !isEncrypted && hasSignature(assertions[0]!);
    if (!isEncrypted && !isResponseSigned && !isAssertionSigned) throw new XmlError("is not signed");
    return { isEncrypted, isResponseSigned, isAssertionSigned };
  });
}

/** Checks a decrypted assertion before its signature is verified: anyone can encrypt. Returns whether it is signed. */
export function checkDecrypted(xml: string): boolean {
  return verified(() => {
    const root = parseXml(xml, LIMITS);
    if (root.name !== "Assertion" || root.namespace !== ASSERTION) throw new XmlError("is not an Assertion");
    checkContents(root, [root]);
    return hasSignature(root);
  });
}

const hasSignature = (element: XmlElement) => childrenOf(element, SIGNATURE, "Signature").length > 0;

/**
 * Rejects what a response does not need and what attacks need: a second assertion or signature anywhere, signatures elsewhere
 * than in the response or the assertion, an id that occurs twice, references to other places, and weak algorithms.
 */
function checkContents(root: XmlElement, signable: readonly XmlElement[]): void {
  const all = [...descendants(root)];
  const named = (namespace: string, name: string) =>
    all.filter((element) => element.namespace === namespace && element.name === name);
  const assertions = [...named(ASSERTION, "Assertion"), ...named(ASSERTION, "EncryptedAssertion")];
  if (assertions.length !== 1) throw new XmlError("must have one assertion");
  if (all.some((element) => element !== root && element.name === "Response")) throw new XmlError("has two responses");
  const parents = new Set([...signable, ...childrenOf(root, ASSERTION, "Assertion")]);
  const signed = all.filter((element) => hasSignature(element));
  if (signed.some((element) => !parents.has(element) || childrenOf(element, SIGNATURE, "Signature").length > 1)) {
    throw new XmlError("has a signature that is not one of the response or the assertion");
  }
  for (const name of ["Object", "Manifest", "RetrievalMethod"]) {
    if (named(SIGNATURE, name).length > 0) throw new XmlError(`has ${name}, which no response needs`);
  }
  for (const name of ["CipherReference", "EncryptedType", "ReferenceList"]) {
    if (named(ENCRYPTION, name).length > 0) throw new XmlError(`has ${name}, which is not supported`);
  }
  for (const name of ["EncryptedID", "EncryptedAttribute"]) {
    if (named(ASSERTION, name).length > 0) throw new XmlError(`has ${name}, which is not supported`);
  }
  if (named(ENCRYPTION, "EncryptedData").length > 1 || named(ENCRYPTION, "EncryptedKey").length > 1) {
    throw new XmlError("has more than one encrypted part");
  }
  const ids = all.flatMap(({ attributes }) => ["ID", "Id", "id"].flatMap((name) => attributes.get(name) ?? []));
  if (new Set(ids).size !== ids.length) throw new XmlError("has an id twice");
  checkAlgorithms(root, "");
}

/** Rejects every algorithm that is not accepted for its element. `parent` is the name of the element around it. */
function checkAlgorithms({ name, attributes, children }: XmlElement, parent: string): void {
  const algorithm = attributes.get("Algorithm");
  const isOaepDigest = name === "DigestMethod" && parent === "EncryptionMethod";
  const accepted = isOaepDigest ? OAEP_DIGESTS : (ALGORITHMS[name] ?? []);
  if (algorithm !== undefined && !accepted.includes(algorithm)) {
    throw new XmlError(`has the algorithm ${algorithm.slice(0, 100)} in ${name}`);
  }
  for (const child of children) checkAlgorithms(child, name);
}

/** Status codes that mean that the user, or the provider for this user, has refused. */
const REFUSALS = ["AuthnFailed", "RequestDenied", "UnknownPrincipal", "NoPassive", "NoAuthnContext"];

function checkStatus(status: XmlElement): void {
  const code = onlyChild(status, PROTOCOL, "StatusCode");
  const value = code.attributes.get("Value") ?? "";
  if (value === SUCCESS) return;
  const [inner] = childrenOf(code, PROTOCOL, "StatusCode");
  const word = /[A-Za-z]{1,50}$/.exec(inner?.attributes.get("Value") ?? value)?.[0] ?? "";
  const reason = REFUSALS.includes(word) ? "cancelled" : "unavailable";
  throw signInFailure(reason, `the provider returned the status ${word}`);
}

/** Throws XmlError. */
export function requireEqual(what: string, actual: string | undefined, expected: string): void {
  if (actual !== expected) throw new XmlError(actual === undefined ? `has no ${what}` : `has another ${what}`);
}

/** The result of a check of this message, whose XmlError becomes a Problem. */
export function verified<Result>(check: () => Result, message = "the response"): Result {
  try {
    return check();
  } catch (error) {
    throw error instanceof XmlError ? refused(`${message} ${error.message}`) : error;
  }
}

const refused = (detail: string) => signInFailure("not verified", detail);
