import { createPrivateKey, randomBytes, sign, X509Certificate } from "node:crypto";
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { promisify } from "node:util";
import { deflateRawSync, inflateRawSync } from "node:zlib";
import { SignedXml } from "xml-crypto";
import { encrypt } from "xml-encryption";
import { newCertificate, type TestKeyPair } from "./certificate.ts";
import type { WebClient, WebPage } from "./web-client.ts";

const EXCLUSIVE = "http://www.w3.org/2001/10/xml-exc-c14n#";
const ENVELOPED = "http://www.w3.org/2000/09/xmldsig#enveloped-signature";
export const SHA1 = {
  signature: "http://www.w3.org/2000/09/xmldsig#rsa-sha1",
  digest: "http://www.w3.org/2000/09/xmldsig#sha1",
};
const SHA256 = {
  signature: "http://www.w3.org/2001/04/xmldsig-more#rsa-sha256",
  digest: "http://www.w3.org/2001/04/xmlenc#sha256",
};

/** A request of the service, as the provider receives it. */
export type SamlRequest = {
  readonly xml: string;
  readonly id: string;
  readonly relayState: string;
  readonly query: string;
};

/** What the provider puts into a response. Empty text leaves an attribute out. */
export type ResponseParts = {
  destination: string;
  inResponseTo: string;
  issuer: string;
  status: string;
  /** A status within the status. */
  subStatus: string;
  assertionId: string;
  assertionIssuer: string;
  nameId: string;
  /** Attributes of NameID. */
  nameIdAttributes: string;
  method: string;
  recipient: string;
  confirmedInResponseTo: string;
  confirmedNotBefore: string;
  confirmedNotOnOrAfter: string;
  notBefore: string;
  notOnOrAfter: string;
  /** Several elements; "" leaves the restriction out. */
  audiences: readonly string[];
  statement: string;
  attributes: Readonly<Record<string, readonly string[]>>;
  signs: "assertion" | "response" | "both" | "neither";
  key: TestKeyPair;
  algorithms: typeof SHA256;
  canonicalization: string;
  /** The certificate for which the assertion is encrypted; "" for none. */
  encryptFor: string;
  encryption: string;
  keyEncryption: string;
  /** Changes the assertion before it is signed, the assertion after that, and the whole response at the end. */
  beforeSigning(assertion: string): string;
  afterSigning(assertion: string): string;
  atTheEnd(response: string): string;
};

const minutes = (count: number) => new Date(Date.now() + count * 60_000).toISOString();

/** An identity provider of SAML 2.0 on loopback, which can sign anything. */
export class SamlTestProvider {
  readonly #server: Server;
  url = "";
  entityId = "";
  keys: readonly TestKeyPair[] = [newCertificate("provider")];
  metadataRequests = 0;
  person: { nameId: string; attributes: Record<string, readonly string[]> } = {
    nameId: "mary-7",
    attributes: { email: ["mary@corp.example"], displayName: ["Mary Somerville"] },
  };

  private constructor(server: Server) {
    this.#server = server;
  }

  static async start(): Promise<SamlTestProvider> {
    const server = createServer((request, response) => {
      const url = new URL(request.url!, provider.url);
      response.setHeader("content-type", url.pathname === "/metadata" ? "application/samlmetadata+xml" : "text/html");
      if (url.pathname === "/metadata") {
        provider.metadataRequests++;
        response.end(provider.metadata());
      } else if (url.pathname === "/sso") provider.#signIn(url).then((page) => response.end(page));
      else response.writeHead(404).end();
    });
    const provider = new SamlTestProvider(server);
    await once(server.listen(0, "127.0.0.1"), "listening");
    provider.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    provider.entityId = `${provider.url}/entity`;
    return provider;
  }

  close(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }

  metadata(): string {
    const keys = this.keys.map(
      ({ certificate }) =>
        `<md:KeyDescriptor use="signing"><ds:KeyInfo xmlns:ds="http://www.w3.org/2000/09/xmldsig#"><ds:X509Data><ds:X509Certificate>${base64Of(certificate)}</ds:X509Certificate></ds:X509Data></ds:KeyInfo></md:KeyDescriptor>`,
    );
    const redirect = `Binding="urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Redirect"`;
    return `<?xml version="1.0"?>
<md:EntityDescriptor xmlns:md="urn:oasis:names:tc:SAML:2.0:metadata" entityID="${this.entityId}">
  <md:IDPSSODescriptor protocolSupportEnumeration="urn:oasis:names:tc:SAML:2.0:protocol">${keys.join("")}
    <md:SingleLogoutService ${redirect} Location="${this.url}/slo" ResponseLocation="${this.url}/slo-response"/>
    <md:SingleSignOnService Binding="urn:oasis:names:tc:SAML:2.0:bindings:HTTP-POST" Location="${this.url}/post"/>
    <md:SingleSignOnService ${redirect} Location="${this.url}/sso"/>
  </md:IDPSSODescriptor>
</md:EntityDescriptor>`;
  }

  /** A response to a request; `change` replaces parts of it. */
  async respond(
    request: SamlRequest,
    consumerUrl: string,
    entityId: string,
    change: Partial<ResponseParts> = {},
  ): Promise<string> {
    const parts: ResponseParts = {
      destination: consumerUrl,
      inResponseTo: request.id,
      issuer: this.entityId,
      status: "urn:oasis:names:tc:SAML:2.0:status:Success",
      subStatus: "",
      assertionId: `_${randomBytes(16).toString("hex")}`,
      assertionIssuer: this.entityId,
      nameId: this.person.nameId,
      nameIdAttributes: 'Format="urn:oasis:names:tc:SAML:2.0:nameid-format:persistent"',
      method: "urn:oasis:names:tc:SAML:2.0:cm:bearer",
      recipient: consumerUrl,
      confirmedInResponseTo: request.id,
      confirmedNotBefore: "",
      confirmedNotOnOrAfter: minutes(5),
      notBefore: minutes(-5),
      notOnOrAfter: minutes(5),
      audiences: [entityId],
      statement: `<saml:AuthnStatement AuthnInstant="${minutes(0)}" SessionIndex="session-1"><saml:AuthnContext><saml:AuthnContextClassRef>urn:oasis:names:tc:SAML:2.0:ac:classes:Password</saml:AuthnContextClassRef></saml:AuthnContext></saml:AuthnStatement>`,
      attributes: this.person.attributes,
      signs: "assertion",
      key: this.keys[0]!,
      algorithms: SHA256,
      canonicalization: EXCLUSIVE,
      encryptFor: "",
      encryption: "http://www.w3.org/2009/xmlenc11#aes256-gcm",
      keyEncryption: "http://www.w3.org/2001/04/xmlenc#rsa-oaep-mgf1p",
      beforeSigning: (assertion) => assertion,
      afterSigning: (assertion) => assertion,
      atTheEnd: (response) => response,
      ...change,
    };
    let assertion = parts.beforeSigning(writeAssertion(parts));
    if (parts.signs === "assertion" || parts.signs === "both") assertion = signXml(assertion, "Assertion", parts);
    assertion = parts.afterSigning(assertion);
    if (parts.encryptFor !== "") assertion = await encryptAssertion(assertion, parts);
    let response = writeResponse(parts, assertion);
    if (parts.signs === "response" || parts.signs === "both") response = signXml(response, "Response", parts);
    return Buffer.from(parts.atTheEnd(response)).toString("base64");
  }

  /** A message in a URL, signed by the provider. */
  redirect(
    url: string,
    kind: "SAMLRequest" | "SAMLResponse",
    xml: string,
    relayState: string,
    key = this.keys[0]!,
  ): string {
    const parameters = new URLSearchParams({
      [kind]: deflateRawSync(Buffer.from(xml)).toString("base64"),
      ...(relayState && { RelayState: relayState }),
      SigAlg: SHA256.signature,
    });
    const signature = sign("sha256", Buffer.from(parameters.toString()), createPrivateKey(key.privateKey));
    parameters.set("Signature", signature.toString("base64"));
    return `${url}?${parameters}`;
  }

  /** The page of the provider for a browser: a form that is submitted by a click, so that no script is needed. */
  async #signIn(url: URL): Promise<string> {
    const request = readRequest(url.href);
    const consumerUrl = attributeOf(request.xml, "AssertionConsumerServiceURL");
    const entityId = /<saml:Issuer[^>]*>([^<]*)/.exec(request.xml)![1]!;
    const response = await this.respond(request, consumerUrl, entityId);
    return `<!doctype html><title>Corp sign-in</title><h1>Corp sign-in</h1><form method="post" action="${consumerUrl}">
<input type="hidden" name="SAMLResponse" value="${response}"><input type="hidden" name="RelayState" value="${request.relayState}">
<button>Sign in as Mary</button></form>`;
  }
}

/** Reads a request in the Redirect binding. */
export function readRequest(url: string): SamlRequest {
  const { search, searchParams } = new URL(url);
  const message = searchParams.get("SAMLRequest")!;
  const xml = inflateRawSync(Buffer.from(message, "base64")).toString();
  return { xml, id: attributeOf(xml, "ID"), relayState: searchParams.get("RelayState") ?? "", query: search.slice(1) };
}

/** Starts a sign-in, and returns the request that the provider would receive. */
export async function startAt(browser: WebClient, startUrl: string): Promise<SamlRequest> {
  const page = await browser.request(startUrl);
  return readRequest(page.headers.get("location")!);
}

export const post = (browser: WebClient, url: string, fields: Readonly<Record<string, string>>): Promise<WebPage> =>
  browser.request(url, { method: "POST", body: new URLSearchParams(fields) });

const attributeOf = (xml: string, name: string) => new RegExp(`${name}="([^"]*)"`).exec(xml)![1]!;
const base64Of = (certificate: string) => new X509Certificate(certificate).raw.toString("base64");
const attribute = (name: string, value: string) => (value === "" ? "" : ` ${name}="${value}"`);

function writeAssertion(parts: ResponseParts): string {
  const restriction = parts.audiences.map((audience) => `<saml:Audience>${audience}</saml:Audience>`).join("");
  const attributes = Object.entries(parts.attributes).map(
    ([name, values]) =>
      `<saml:Attribute Name="${name}">${values.map((value) => `<saml:AttributeValue>${value}</saml:AttributeValue>`).join("")}</saml:Attribute>`,
  );
  return [
    `<saml:Assertion xmlns:saml="urn:oasis:names:tc:SAML:2.0:assertion" ID="${parts.assertionId}" Version="2.0" IssueInstant="${minutes(0)}">`,
    parts.assertionIssuer && `<saml:Issuer>${parts.assertionIssuer}</saml:Issuer>`,
    `<saml:Subject><saml:NameID ${parts.nameIdAttributes}>${parts.nameId}</saml:NameID>`,
    `<saml:SubjectConfirmation Method="${parts.method}"><saml:SubjectConfirmationData`,
    attribute("Recipient", parts.recipient),
    attribute("InResponseTo", parts.confirmedInResponseTo),
    attribute("NotBefore", parts.confirmedNotBefore),
    attribute("NotOnOrAfter", parts.confirmedNotOnOrAfter),
    `/></saml:SubjectConfirmation></saml:Subject>`,
    `<saml:Conditions${attribute("NotBefore", parts.notBefore)}${attribute("NotOnOrAfter", parts.notOnOrAfter)}>`,
    restriction && `<saml:AudienceRestriction>${restriction}</saml:AudienceRestriction>`,
    `</saml:Conditions>${parts.statement}`,
    attributes.length > 0 && `<saml:AttributeStatement>${attributes.join("")}</saml:AttributeStatement>`,
    "</saml:Assertion>",
  ]
    .filter(Boolean)
    .join("");
}

function writeResponse(parts: ResponseParts, assertion: string): string {
  const inner = parts.subStatus && `<samlp:StatusCode Value="${parts.subStatus}"/>`;
  return [
    `<samlp:Response xmlns:samlp="urn:oasis:names:tc:SAML:2.0:protocol" xmlns:saml="urn:oasis:names:tc:SAML:2.0:assertion"`,
    ` ID="_${randomBytes(16).toString("hex")}" Version="2.0" IssueInstant="${minutes(0)}"`,
    `${attribute("Destination", parts.destination)}${attribute("InResponseTo", parts.inResponseTo)}>`,
    parts.issuer && `<saml:Issuer>${parts.issuer}</saml:Issuer>`,
    `<samlp:Status><samlp:StatusCode Value="${parts.status}">${inner}</samlp:StatusCode></samlp:Status>`,
    `${assertion}</samlp:Response>`,
  ].join("");
}

/** Signs the element of this name, whose first child is its issuer. */
export function signXml(
  xml: string,
  name: "Assertion" | "Response",
  { key, algorithms, canonicalization }: Pick<ResponseParts, "key" | "algorithms" | "canonicalization">,
): string {
  const signed = new SignedXml({
    privateKey: key.privateKey,
    publicCert: key.certificate,
    signatureAlgorithm: algorithms.signature,
    canonicalizationAlgorithm: canonicalization,
    getKeyInfoContent: () => `<X509Data><X509Certificate>${base64Of(key.certificate)}</X509Certificate></X509Data>`,
  } as ConstructorParameters<typeof SignedXml>[0]);
  const xpath = `/*[local-name(.)='${name}']`;
  signed.addReference({ xpath, digestAlgorithm: algorithms.digest, transforms: [ENVELOPED, canonicalization] });
  signed.computeSignature(xml, { location: { reference: `${xpath}/*[local-name(.)='Issuer']`, action: "after" } });
  return signed.getSignedXml();
}

async function encryptAssertion(
  assertion: string,
  { encryptFor, encryption, keyEncryption }: ResponseParts,
): Promise<string> {
  const publicKey = new X509Certificate(encryptFor).publicKey.export({ type: "spki", format: "pem" }).toString();
  const data = await promisify(encrypt)(assertion, {
    rsa_pub: publicKey,
    pem: encryptFor,
    encryptionAlgorithm: encryption as "http://www.w3.org/2009/xmlenc11#aes256-gcm",
    keyEncryptionAlgorithm: keyEncryption as "http://www.w3.org/2001/04/xmlenc#rsa-oaep-mgf1p",
    warnInsecureAlgorithm: false,
  });
  return `<saml:EncryptedAssertion>${data}</saml:EncryptedAssertion>`;
}
