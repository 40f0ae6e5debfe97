import { verify, X509Certificate } from "node:crypto";
import { inflateRawSync } from "node:zlib";
import { SignInFailure } from "./failure.ts";
import { ASSERTION, PROTOCOL } from "./saml-metadata.ts";
import { LIMITS, requireEqual, verified } from "./saml-response.ts";
import { onlyChild, parseXml, type XmlElement, XmlError } from "./xml.ts";

// Messages in a URL: requests and responses of a sign-out. Source: SAML 2.0 Bindings, 3.4.

const DIGESTS: Readonly<Record<string, string>> = {
  "http://www.w3.org/2001/04/xmldsig-more#rsa-sha256": "sha256",
  "http://www.w3.org/2001/04/xmldsig-more#rsa-sha512": "sha512",
};

/** Who has sent a message, and to which URL. */
type Sender = {
  readonly issuer: string;
  readonly certificates: readonly string[];
  readonly destination: string;
  /** Milliseconds since 1970. */
  readonly now: number;
};

/** The root of a message in a query string, whose signature is verified. Throws SignInFailure. */
function readMessage(kind: "SAMLRequest" | "SAMLResponse", query: string, sender: Sender): XmlElement {
  return verified(() => {
    // Decoded and encoded again, the text could differ from the one that was signed.
    const raw = rawParameters(query);
    const [message, algorithm, signature] = [raw.get(kind), raw.get("SigAlg"), raw.get("Signature")];
    if (message === undefined) throw new XmlError(`has no ${kind}`);
    if (algorithm === undefined || signature === undefined) throw new XmlError("is not signed");
    const digest = DIGESTS[decode(algorithm)];
    if (digest === undefined) throw new XmlError("has a signature of an algorithm that is not accepted");
    const state = raw.has("RelayState") ? `&RelayState=${raw.get("RelayState")}` : "";
    const signed = Buffer.from(`${kind}=${message}${state}&SigAlg=${algorithm}`);
    const bytes = Buffer.from(decode(signature), "base64");
    const isSigned = sender.certificates.some((pem) =>
      verify(digest, signed, new X509Certificate(pem).publicKey, bytes),
    );
    if (!isSigned) throw new XmlError("has a signature that is not one of the provider");
    const root = parseXml(inflate(decode(message)), LIMITS);
    if (root.namespace !== PROTOCOL) throw new XmlError("is not a SAML message");
    requireEqual("Issuer", onlyChild(root, ASSERTION, "Issuer").text, sender.issuer);
    requireEqual("Destination", root.attributes.get("Destination"), sender.destination);
    return root;
  });
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

/** A compressed message could expand to any size. */
function inflate(base64: string): string {
  try {
    return inflateRawSync(Buffer.from(base64, "base64"), { maxOutputLength: LIMITS.size }).toString();
  } catch {
    throw new XmlError(`is not compressed, or has more than ${LIMITS.size} bytes`);
  }
}

/** Checks the response to a sign-out that this service has requested. Throws SignInFailure. */
export function checkLogoutResponse(query: string, requestId: string, sender: Sender): void {
  const root = readMessage("SAMLResponse", query, sender);
  verified(() => {
    requireEqual("kind of message", root.name, "LogoutResponse");
    requireEqual("InResponseTo", root.attributes.get("InResponseTo"), requestId);
    const code = onlyChild(onlyChild(root, PROTOCOL, "Status"), PROTOCOL, "StatusCode");
    requireEqual("status", code.attributes.get("Value"), "urn:oasis:names:tc:SAML:2.0:status:Success");
  });
}

/** A sign-out that the provider requests. */
export type LogoutRequest = { readonly id: string; readonly nameId: string; readonly expiresAt: number };

/** Milliseconds for which a request without an end is accepted. */
const MAX_AGE = 300_000;

/** Reads a request of the provider to end the sign-in of a user. Throws SignInFailure. */
export function readLogoutRequest(query: string, sender: Sender): LogoutRequest {
  const root = readMessage("SAMLRequest", query, sender);
  return verified(() => {
    requireEqual("kind of message", root.name, "LogoutRequest");
    const id = root.attributes.get("ID");
    if (!id) throw new XmlError("has no ID");
    const issued = Date.parse(root.attributes.get("IssueInstant") ?? "");
    const end = root.attributes.has("NotOnOrAfter")
      ? Date.parse(root.attributes.get("NotOnOrAfter")!)
      : issued + MAX_AGE;
    if (!(end > sender.now) || !(issued < sender.now + MAX_AGE))
      throw new SignInFailure("expired", "the request has expired");
    return { id, nameId: onlyChild(root, ASSERTION, "NameID").text, expiresAt: end };
  });
}
