import { verify, X509Certificate } from "node:crypto";
import { inflateRawSync } from "node:zlib";
import { signInFailure } from "../federated/failure.ts";
import { ASSERTION, PROTOCOL } from "./metadata.ts";
import { LIMITS, requireEqual, verified } from "./response.ts";
import { onlyChild, parseXml, type XmlElement, XmlError } from "./xml.ts";

// Messages in a URL: requests and responses of a sign-out. Source: SAML 2.0 Bindings, 3.4.

const DIGESTS: Readonly<Record<string, string>> = {
  "http://www.w3.org/2001/04/xmldsig-more#rsa-sha256": "sha256",
  "http://www.w3.org/2001/04/xmldsig-more#rsa-sha512": "sha512",
};

/** What a message must match: its sender, the URL that it was sent to, and the time. */
type ExpectedMessage = {
  readonly issuer: string;
  readonly certificates: readonly string[];
  readonly destination: string;
  /** Milliseconds since 1970. */
  readonly now: number;
};

/** How errors name a message. */
const NAMES = { SAMLRequest: "the request", SAMLResponse: "the response" } as const;

/** Verifies the signature of a message in a query string, and returns its root element. Throws Problem. */
function readMessage(kind: keyof typeof NAMES, query: string, expected: ExpectedMessage): XmlElement {
  return verified(() => {
    // Not decoded: the signature is of the text as it was sent, and encoding it again could change it.
    const raw = rawParameters(query);
    const [message, algorithm, signature] = [raw.get(kind), raw.get("SigAlg"), raw.get("Signature")];
    if (message === undefined) throw new XmlError(`has no ${kind}`);
    if (algorithm === undefined || signature === undefined) throw new XmlError("is not signed");
    const digest = DIGESTS[decode(algorithm)];
    if (digest === undefined) throw new XmlError("has a signature with an algorithm that is not accepted");
    const state = raw.has("RelayState") ? `&RelayState=${raw.get("RelayState")}` : "";
    const signed = Buffer.from(`${kind}=${message}${state}&SigAlg=${algorithm}`);
    const bytes = Buffer.from(decode(signature), "base64");
    const isSigned = expected.certificates.some((pem) =>
      verify(digest, signed, new X509Certificate(pem).publicKey, bytes),
    );
    if (!isSigned) throw new XmlError("has a signature that is not from the provider");
    const root = parseXml(inflate(decode(message)), LIMITS);
    if (root.namespace !== PROTOCOL) throw new XmlError("is not a SAML message");
    requireEqual("Issuer", onlyChild(root, ASSERTION, "Issuer").text, expected.issuer);
    requireEqual("Destination", root.attributes.get("Destination"), expected.destination);
    return root;
  }, NAMES[kind]);
}

function rawParameters(query: string): ReadonlyMap<string, string> {
  const pairs = query.split("&").map((pair) => pair.split("=", 2) as [string, string?]);
  const parameters = new Map<string, string>();
  for (const [name, value = ""] of pairs) {
    if (parameters.has(name)) throw new XmlError(`has the parameter ${name.slice(0, 50)} twice`);
    parameters.set(name, value);
  }
  return parameters;
}

const decode = (text: string) => new URLSearchParams(`x=${text}`).get("x")!;

/** Decompresses a message, up to a maximum size: a small one could expand to any size. */
function inflate(base64: string): string {
  try {
    return inflateRawSync(Buffer.from(base64, "base64"), { maxOutputLength: LIMITS.size }).toString();
  } catch {
    throw new XmlError(`is not compressed, or has more than ${LIMITS.size} bytes`);
  }
}

/** Checks the response to a sign-out that this service has requested. Throws Problem. */
export function checkLogoutResponse(query: string, requestId: string, expected: ExpectedMessage): void {
  const root = readMessage("SAMLResponse", query, expected);
  verified(() => {
    requireEqual("kind of message", root.name, "LogoutResponse");
    requireEqual("InResponseTo", root.attributes.get("InResponseTo"), requestId);
    const code = onlyChild(onlyChild(root, PROTOCOL, "Status"), PROTOCOL, "StatusCode");
    requireEqual("status", code.attributes.get("Value"), "urn:oasis:names:tc:SAML:2.0:status:Success");
  });
}

/** A sign-out that the provider requests. */
export type LogoutRequest = { readonly id: string; readonly nameId: string; readonly expiresAt: number };

/** Milliseconds for which a request without NotOnOrAfter is accepted, and by which any IssueInstant may be in the future. */
const MAX_AGE = 300_000;

/** Reads a request of the provider to end the sign-in of a user. Throws Problem. */
export function readLogoutRequest(query: string, expected: ExpectedMessage): LogoutRequest {
  const root = readMessage("SAMLRequest", query, expected);
  return verified(() => {
    requireEqual("kind of message", root.name, "LogoutRequest");
    const id = root.attributes.get("ID");
    if (!id) throw new XmlError("has no ID");
    const issued = Date.parse(root.attributes.get("IssueInstant") ?? "");
    const end = root.attributes.has("NotOnOrAfter")
      ? Date.parse(root.attributes.get("NotOnOrAfter")!)
      : issued + MAX_AGE;
    if (!(end > expected.now) || !(issued < expected.now + MAX_AGE))
      throw signInFailure("expired", "the request has expired");
    return { id, nameId: onlyChild(root, ASSERTION, "NameID").text, expiresAt: end };
  }, NAMES.SAMLRequest);
}
