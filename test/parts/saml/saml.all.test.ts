import { createHmac, randomUUID } from "node:crypto";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { newCertificate, type TestKeyPair } from "../../support/certificate.ts";
import {
  type ResponseParts,
  readRequest,
  type SamlRequest,
  SamlTestProvider,
  SHA1,
  signXml,
  startAt,
} from "../../support/saml-provider.ts";
import { WebClient, type WebPage } from "../../support/web-client.ts";
import { continuationOf, hasSession, oidcEntry, outcomeOf, useFederated } from "../federated/support.ts";

const OWN = newCertificate("service");
const NEXT = newCertificate("the next key of the service");
const STRANGER = newCertificate("stranger");

let idp: SamlTestProvider;
/** Milliseconds by which the clock of the service is ahead. */
let ahead = 0;
const client = useFederated({ entries: () => [], clock: () => Date.now() + ahead });
async function configure(more: object = {}): Promise<void> {
  const corp = { name: "corp", kind: "saml", metadata: `${idp.url}/metadata`, keys: [OWN, NEXT], ...more };
  await client.configure([
    corp,
    { ...corp, name: "plain", keys: [], entityId: "urn:example:content" },
    { ...corp, name: "by-attribute", claims: { subject: "employeeNumber", email: ["work.mail", "email"] } },
  ]);
  await client.service().service.reloadSettings();
}
beforeAll(async () => {
  idp = await SamlTestProvider.start();
  await configure();
});
afterAll(() => idp?.close());
afterEach(() => {
  ahead = 0;
});

let browser: WebClient;
beforeEach(() => {
  browser = new WebClient();
  client.log();
});

const url = (path = "") => client.service().url + path;
const ACS = "/auth/saml/corp/acs";
const METADATA = "/auth/saml/corp/metadata";
const PERSISTENT = 'Format="urn:oasis:names:tc:SAML:2.0:nameid-format:persistent"';
const minutes = (count: number) => new Date(Date.now() + count * 60_000).toISOString();

const deliver = (SAMLResponse: string, RelayState: string, path = ACS, from = browser): Promise<WebPage> =>
  from.request(url(path), { method: "POST", body: new URLSearchParams({ SAMLResponse, RelayState }) });

/** Signs in with a response in which these parts are replaced. */
async function signIn(
  change: Partial<ResponseParts> | ((request: SamlRequest) => Partial<ResponseParts>) = {},
  search = "",
): Promise<WebPage> {
  const request = await startAt(browser, url(`/auth/saml/corp${search}`));
  const parts = typeof change === "function" ? change(request) : change;
  return deliver(await idp.respond(request, url(ACS), url(METADATA), parts), request.relayState);
}
const userId = async () => (await browser.request(url("/api/auth/me"))).json.userId;

test("GET /auth/v1/settings says that a provider with SAML is configured", async () => {
  const headers = { apikey: client.service().service.tokens.issueKey("anon") };
  const answer = await fetch(url("/auth/v1/settings"), { headers });
  expect(await answer.json()).toMatchObject({ saml_enabled: true, external: { corp: true, email: true } });
});

describe("the request", () => {
  test("is sent with the id of the sign-in, is signed, and sets a cookie that a POST of the provider brings back", async () => {
    const page = await browser.request(url("/auth/saml/corp"));
    const location = page.headers.get("location")!;
    expect(location.startsWith(`${idp.url}/sso?`)).toBe(true);
    const { xml, relayState } = readRequest(location);
    expect(xml).toContain(`AssertionConsumerServiceURL="${url(ACS)}"`);
    expect(xml).toContain(`Destination="${idp.url}/sso"`);
    expect(xml).toContain(`>${url(METADATA)}</saml:Issuer>`);
    expect(relayState).toMatch(/^[\w-]{43}$/);
    expect(new URL(location).searchParams.get("SigAlg")).toMatch(/#rsa-sha256$/);
    expect(page.headers.getSetCookie()).toEqual([
      expect.stringMatching(/^__Host-sign-in-post=[\w-]{43}; Path=\/; HttpOnly; Secure; SameSite=None; Max-Age=600$/),
    ]);
  });

  test("is signed with the first key of the entry", async () => {
    const { createVerify, X509Certificate } = await import("node:crypto");
    const page = await browser.request(url("/auth/saml/corp"));
    const { search, searchParams } = new URL(page.headers.get("location")!);
    const signed = search.slice(1).replace(/&Signature=.*$/, "");
    const isSignedBy = ({ certificate }: TestKeyPair) =>
      createVerify("sha256")
        .update(signed)
        .verify(new X509Certificate(certificate).publicKey, searchParams.get("Signature")!, "base64");
    expect([isSignedBy(OWN), isSignedBy(NEXT)]).toEqual([true, false]);
  });

  test("of an entry without keys is not signed, and names the entity id of the entry", async () => {
    const page = await browser.request(url("/auth/saml/plain"));
    const location = page.headers.get("location")!;
    expect(new URL(location).searchParams.has("Signature")).toBe(false);
    expect(readRequest(location).xml).toContain(">urn:example:content</saml:Issuer>");
  });
});

test("the metadata of the service have its URLs and the certificates of both keys", async () => {
  const { status, headers, text } = await browser.request(url(METADATA));
  expect([status, headers.get("content-type")]).toEqual([200, "application/samlmetadata+xml; charset=utf-8"]);
  expect(text).toContain(`entityID="${url(METADATA)}"`);
  expect(text).toContain('AuthnRequestsSigned="true" WantAssertionsSigned="true"');
  expect(text).toContain(`HTTP-POST" Location="${url(ACS)}" index="0"`);
  expect(text).toContain(`HTTP-Redirect" Location="${url("/auth/saml/corp/logout")}"`);
  for (const { certificate } of [OWN, NEXT])
    expect(text.split(certificate.replace(/-----.*-----|\s/g, ""))).toHaveLength(3);
  const plain = await browser.request(url("/auth/saml/plain/metadata"));
  expect(plain.text).toContain('AuthnRequestsSigned="false"');
  expect(plain.text).not.toContain("KeyDescriptor");
});

describe("a response is accepted", () => {
  test("whose assertion is signed: the account is that of issuer and NameID", async () => {
    const page = await signIn({}, "?return_to=/app");
    expect([outcomeOf(page), hasSession(page), continuationOf(page)]).toEqual([
      "200 You are signed in",
      true,
      url("/app"),
    ]);
    expect((await browser.request(url("/api/auth/me"))).json.username).toBe("mary@corp.example");
    const [identity] = await client.sql(
      "select issuer, subject, email from auth_private.identities where subject = 'mary-7'",
    );
    expect(identity).toEqual({ issuer: idp.entityId, subject: "mary-7", email: "mary@corp.example" });
    const id = await userId();
    const [session] = await client.sql("select methods from auth_private.sessions where user_id = $1", id);
    expect(session!.methods).toMatchObject([{ method: "sso/saml" }]);
    browser = new WebClient();
    await signIn({ attributes: {} });
    expect(await userId()).toBe(id);
  });

  const ACCEPTED: readonly [string, Partial<ResponseParts>][] = [
    ["that is signed as a whole", { signs: "response" }],
    ["that is signed as a whole and in part", { signs: "both" }],
    ["without a destination", { destination: "" }],
    ["without an issuer, which the assertion has", { issuer: "" }],
    [
      "that is signed with SHA-512",
      {
        algorithms: {
          signature: "http://www.w3.org/2001/04/xmldsig-more#rsa-sha512",
          digest: "http://www.w3.org/2001/04/xmlenc#sha512",
        },
      },
    ],
    ["for several audiences", { audiences: ["https://other.example", ""].map((text) => text || "x") }],
    ["whose clock is half a minute ahead", { notBefore: minutes(0.5) }],
    ["that is encrypted and signed inside", { encryptFor: OWN.certificate }],
    ["that is encrypted and signed as a whole", { encryptFor: OWN.certificate, signs: "response" }],
    ["that is encrypted for the next key of the service", { encryptFor: NEXT.certificate }],
    [
      "that is encrypted with AES-CBC",
      { encryptFor: OWN.certificate, encryption: "http://www.w3.org/2001/04/xmlenc#aes256-cbc" },
    ],
    [
      "with the name of this service as the qualifier of the subject",
      { nameIdAttributes: `${PERSISTENT} NameQualifier="IDP" SPNameQualifier="SP"` },
    ],
  ];
  test.each(ACCEPTED)("%s", async (_, change) => {
    const audiences = change.audiences ? ["https://other.example", url(METADATA)] : [url(METADATA)];
    const nameIdAttributes = (change.nameIdAttributes ?? PERSISTENT)
      .replace('"IDP"', `"${idp.entityId}"`)
      .replace('"SP"', `"${url(METADATA)}"`);
    const page = await signIn({ ...change, audiences, nameIdAttributes });
    expect([client.log(), outcomeOf(page), hasSession(page)]).toEqual([[], "200 You are signed in", true]);
  });

  test("with the values of the attributes that the entry names as subject and e-mail", async () => {
    const request = await startAt(browser, url("/auth/saml/by-attribute"));
    const acs = url("/auth/saml/by-attribute/acs");
    const attributes = { employeeNumber: ["4711"], "work.mail": ["nr4711@corp.example"], displayName: ["Number"] };
    const change = { attributes, nameIdAttributes: 'Format="urn:oasis:names:tc:SAML:2.0:nameid-format:transient"' };
    const response = await idp.respond(request, acs, url("/auth/saml/by-attribute/metadata"), change);
    const page = await deliver(response, request.relayState, "/auth/saml/by-attribute/acs");
    expect(hasSession(page)).toBe(true);
    expect(await client.sql("select subject from auth_private.identities where email = 'nr4711@corp.example'")).toEqual(
      [{ subject: "4711" }],
    );
  });
});

/** What is wrong with a response, and what the log says. */
type Refusal = readonly [string, Partial<ResponseParts> | ((request: SamlRequest) => Partial<ResponseParts>), RegExp];

const insertBefore = (name: string, inserted: (assertion: string) => string) => (xml: string) => {
  const [assertion] = /<saml:Assertion.*<\/saml:Assertion>/s.exec(xml)!;
  return xml.replace(name, () => `${inserted(assertion)}${name}`);
};
/** The assertion with another subject and id, and without its signature. */
const evil = (assertion: string) =>
  assertion
    .replace(/<Signature.*<\/Signature>/s, "")
    .replace(/ID="[^"]*"/, 'ID="_evil"')
    .replace("mary-7", "admin-1");

const REFUSED: readonly Refusal[] = [
  // Meant for another service, sign-in or time.
  ["for another recipient", { recipient: "https://other.example/acs" }, /another Recipient/],
  ["without a recipient", { recipient: "" }, /no Recipient/],
  ["for another destination", { destination: "https://other.example/acs" }, /another Destination/],
  ["of another issuer", { assertionIssuer: "https://evil.example", issuer: "" }, /another Issuer/],
  ["whose envelope is of another issuer", { issuer: "https://evil.example" }, /another Issuer/],
  ["without an issuer", { assertionIssuer: "", signs: "response" }, /must have one Issuer/],
  ["for another audience", { audiences: ["https://other.example"] }, /audience/],
  ["without an audience", { audiences: [] }, /AudienceRestriction/],
  ["to another request", { confirmedInResponseTo: "_another", inResponseTo: "_another" }, /another InResponseTo/],
  ["whose envelope alone is a response to the request", { confirmedInResponseTo: "_another" }, /another InResponseTo/],
  ["whose assertion alone is a response to the request", { inResponseTo: "_another" }, /another InResponseTo/],
  ["to no request", { confirmedInResponseTo: "", inResponseTo: "" }, /no InResponseTo/],
  ["that has expired", { notOnOrAfter: minutes(-2) }, /expired/],
  [
    "whose confirmation has expired, and its conditions have not",
    { confirmedNotOnOrAfter: minutes(-2) },
    /has expired \(NotOnOrAfter\)/,
  ],
  ["whose confirmation never expires", { confirmedNotOnOrAfter: "" }, /NotOnOrAfter/],
  ["whose confirmation is not valid yet", { confirmedNotBefore: minutes(5) }, /not valid yet/],
  ["that is not valid yet", { notBefore: minutes(5) }, /not (yet valid|valid yet)/],
  ["with times of another form", { confirmedNotOnOrAfter: "2099-01-01" }, /malformed NotOnOrAfter/],
  [
    "of a session that has ended",
    { statement: `<saml:AuthnStatement AuthnInstant="${minutes(-9)}" SessionNotOnOrAfter="${minutes(-5)}"/>` },
    /SessionNotOnOrAfter/,
  ],
  ["without a statement that the user has signed in", { statement: "" }, /no AuthnStatement/],
  ["for the holder of a key", { method: "urn:oasis:names:tc:SAML:2.0:cm:holder-of-key" }, /one bearer/],
  ["for those whom the sender vouches for", { method: "urn:oasis:names:tc:SAML:2.0:cm:sender-vouches" }, /one bearer/],
  [
    "of a subject in another name space",
    { nameIdAttributes: `${PERSISTENT} SPNameQualifier="https://other.example"` },
    /another SPNameQualifier/,
  ],
  [
    "of a subject of another provider",
    { nameIdAttributes: `${PERSISTENT} NameQualifier="https://other.example"` },
    /another NameQualifier/,
  ],
  [
    "of a transient subject",
    { nameIdAttributes: 'Format="urn:oasis:names:tc:SAML:2.0:nameid-format:transient"' },
    /transient/,
  ],
  ["of an empty subject", { nameId: "" }, /subject/],

  // Not signed by the provider.
  ["that is not signed", { signs: "neither" }, /not signed/],
  ["that another key has signed, which it contains", { key: STRANGER }, /signature/i],
  ["that another key has signed as a whole", { key: STRANGER, signs: "response" }, /signature/i],
  [
    "whose subject was changed after signing",
    { afterSigning: (xml) => xml.replace("mary-7", "admin-1") },
    /signature/i,
  ],
  [
    "whose attributes were changed after signing",
    { afterSigning: (xml) => xml.replace("mary@corp", "ada@corp") },
    /signature/i,
  ],
  [
    "whose envelope is signed by another key, and its assertion by the provider",
    { atTheEnd: (xml) => signXml(xml, "Response", { key: STRANGER, algorithms: SHA256, canonicalization: EXCLUSIVE }) },
    /signature/i,
  ],
  [
    "whose envelope was changed after signing",
    { signs: "both", atTheEnd: (xml) => xml.replace('IssueInstant="', 'IssueInstant="1') },
    /signature/i,
  ],
  [
    "whose signature value is empty",
    { afterSigning: (xml) => xml.replace(/<SignatureValue>[^<]*/, "<SignatureValue>") },
    /signature/i,
  ],
  [
    "whose signature has no reference",
    { afterSigning: (xml) => xml.replace(/<Reference.*<\/Reference>/s, "") },
    /signature|reference/i,
  ],
  [
    "whose signature refers to the whole document",
    { afterSigning: (xml) => xml.replace(/URI="#[^"]*"/, 'URI=""') },
    /signature|reference/i,
  ],
  ["that is signed with SHA-1", { algorithms: SHA1 }, /algorithm .*sha1/],
  ["that is digested with SHA-1", { algorithms: { ...SHA1, signature: SHA256_SIGNATURE() } }, /algorithm .*sha1/],
  ["that the public key has signed, as a secret", { afterSigning: hmacSigned }, /algorithm .*hmac/],
  [
    "that is canonicalized with comments",
    { canonicalization: "http://www.w3.org/2001/10/xml-exc-c14n#WithComments" },
    /algorithm .*WithComments/,
  ],
  [
    "with a transform of another kind",
    {
      afterSigning: (xml) =>
        xml.replace(
          "</Transforms>",
          '<Transform Algorithm="http://www.w3.org/TR/1999/REC-xslt-19991116"/></Transforms>',
        ),
    },
    /algorithm .*xslt/,
  ],

  // Signature wrapping.
  [
    "with an evil assertion before the signed one",
    { atTheEnd: insertBefore("<saml:Assertion", evil) },
    /one assertion/,
  ],
  [
    "with an evil assertion after the signed one",
    { atTheEnd: insertBefore("</samlp:Response>", evil) },
    /one assertion/,
  ],
  [
    "with the signed assertion within an evil one",
    {
      atTheEnd: (xml) =>
        wrap(xml, (assertion) => evil(assertion).replace("</saml:Assertion>", `${assertion}</saml:Assertion>`)),
    },
    /one assertion/,
  ],
  [
    "with an evil assertion within the signed one",
    {
      atTheEnd: (xml) =>
        wrap(xml, (assertion) => assertion.replace("</saml:Assertion>", `${evil(assertion)}</saml:Assertion>`)),
    },
    /one assertion/,
  ],
  [
    "with the signed assertion in Extensions",
    {
      atTheEnd: (xml) =>
        wrap(xml, (assertion) => `<samlp:Extensions>${assertion}</samlp:Extensions>${evil(assertion)}`),
    },
    /one assertion/,
  ],
  [
    "with the signed assertion in an Object of the signature",
    {
      atTheEnd: (xml) =>
        wrap(xml, (assertion) =>
          evil(assertion).replace(
            "</saml:Issuer>",
            `</saml:Issuer>${signatureOf(assertion).replace("</Signature>", `<Object>${assertion.replace(signatureOf(assertion), "")}</Object></Signature>`)}`,
          ),
        ),
    },
    /one assertion|Object/,
  ],
  [
    "with the signed response in an Object of the signature of an evil one",
    {
      signs: "response",
      atTheEnd: (xml) =>
        xml
          .replace("mary-7", "admin-1")
          .replace(/ID="[^"]*"/, 'ID="_evil"')
          .replace("</Signature>", `<Object>${xml.replace(/<Signature.*<\/Signature>/s, "")}</Object></Signature>`),
    },
    /one assertion/,
  ],
  [
    "with the signed response within an evil one",
    {
      signs: "response",
      atTheEnd: (xml) =>
        xml.replace(/ID="[^"]*"/, 'ID="_evil"').replace("</samlp:Response>", `${xml}</samlp:Response>`),
    },
    /one assertion|two responses/,
  ],
  [
    "with a signature that is not one of response or assertion",
    { afterSigning: (xml) => moveSignature(xml) },
    /signature that is not one of/,
  ],
  [
    "with two signatures",
    { afterSigning: (xml) => xml.replace(signatureOf(xml), (found) => found + found) },
    /signature that is not one of/,
  ],
  [
    "with an id that occurs twice",
    { beforeSigning: (xml) => xml.replace("<saml:Subject>", `<saml:Subject ID="${/ID="([^"]*)"/.exec(xml)![1]}">`) },
    /an id twice/,
  ],
  [
    "with two values in SignedInfo",
    { afterSigning: (xml) => xml.replace(/<SignedInfo>.*<\/SignedInfo>/s, (found) => found + found) },
    /signature/i,
  ],

  // XML.
  ["with a comment in the subject", { nameId: "mary-7<!-- -->admin" }, /a comment/],
  [
    "with a comment in the digest",
    { afterSigning: (xml) => xml.replace("<DigestValue>", "<DigestValue><!--x-->") },
    /a comment/,
  ],
  ["with a document type", { atTheEnd: (xml) => `<!DOCTYPE r>${xml}` }, /a document type/],
  [
    "with entities that expand without end",
    {
      atTheEnd: (xml) =>
        `<!DOCTYPE r [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;">]>${xml.replace("mary-7", "&b;")}`,
    },
    /a document type/,
  ],
  [
    "with an external entity",
    { atTheEnd: (xml) => `<!DOCTYPE r [<!ENTITY a SYSTEM "file:///etc/passwd">]>${xml.replace("mary-7", "&a;")}` },
    /a document type/,
  ],
  ["with an unknown entity", { atTheEnd: (xml) => xml.replace("mary-7", "&a;") }, /entity/],
  [
    "with a processing instruction",
    { atTheEnd: (xml) => xml.replace("<samlp:Status>", "<?x y?><samlp:Status>") },
    /a processing instruction/,
  ],
  ["with a CDATA section", { nameId: "<![CDATA[mary-7]]>" }, /a CDATA section/],
  ["with an element in the subject", { nameId: "mary<saml:x/>-7" }, /element in NameID/],
  [
    "with two subjects",
    { beforeSigning: (xml) => xml.replace(/<saml:Subject>.*<\/saml:Subject>/s, (found) => found + found) },
    /one Subject/,
  ],
  [
    "with two conditions",
    { beforeSigning: (xml) => xml.replace(/<saml:Conditions.*<\/saml:Conditions>/s, (found) => found + found) },
    /conditions/i,
  ],
  [
    "with an attribute twice",
    {
      beforeSigning: (xml) =>
        xml.replace(/<saml:Attribute Name="email">.*?<\/saml:Attribute>/s, (found) => found + found),
    },
    /attribute twice/,
  ],
  ["of another version", { beforeSigning: (xml) => xml.replace('Version="2.0"', 'Version="1.1"') }, /another Version/],
  [
    "of another kind",
    { atTheEnd: (xml) => xml.replaceAll("samlp:Response", "samlp:ArtifactResponse") },
    /is not a Response/,
  ],
  [
    "in another name space",
    { atTheEnd: (xml) => xml.replace("SAML:2.0:protocol", "SAML:1.0:protocol") },
    /is not a Response/,
  ],
  ["that is cut short", { atTheEnd: (xml) => xml.slice(0, -20) }, /response/],
  ["followed by another document", { atTheEnd: (xml) => xml + xml }, /response/],
  ["of another format", { atTheEnd: () => "garbage" }, /response/],
  ["that is empty", { atTheEnd: () => "" }, /base64/],
  [
    "with 41 levels",
    { atTheEnd: (xml) => xml.replace("<samlp:Status>", `${"<a>".repeat(41)}${"</a>".repeat(41)}<samlp:Status>`) },
    /more than 40 levels/,
  ],
  ["with unclosed elements, 30,000 deep", { atTheEnd: () => "<a>".repeat(30_000) }, /more than 40 levels/],
  [
    "with 2001 elements",
    { atTheEnd: (xml) => xml.replace("<samlp:Status>", `${"<a/>".repeat(2001)}<samlp:Status>`) },
    /more than 2000 elements/,
  ],
  [
    "with 41 attributes",
    {
      atTheEnd: (xml) =>
        xml.replace(
          "<samlp:Status>",
          `<a ${Array.from({ length: 41 }, (_, i) => `a${i}=""`).join(" ")}/><samlp:Status>`,
        ),
    },
    /more than 40 attributes/,
  ],
  ["of more than 96 KiB", { atTheEnd: (xml) => xml + " ".repeat(98_304) }, /more than 98304 (bytes|characters)/],

  // Encryption, for which anyone has the public key.
  ["that is encrypted and not signed", { encryptFor: OWN.certificate, signs: "neither" }, /signature/i],
  ["that is encrypted and signed by another key", { encryptFor: OWN.certificate, key: STRANGER }, /signature/i],
  ["that is encrypted for another service", { encryptFor: STRANGER.certificate }, /cannot be decrypted/],
  [
    "whose encrypted contents are unclosed elements, 10,000 deep",
    { encryptFor: OWN.certificate, afterSigning: () => "<a>".repeat(10_000) },
    /more than 40 levels/,
  ],
  [
    "whose encrypted contents have a document type",
    { encryptFor: OWN.certificate, afterSigning: (xml) => `<!DOCTYPE x>${xml}` },
    /a document type/,
  ],
  [
    "whose encrypted contents are something else",
    { encryptFor: OWN.certificate, afterSigning: () => "<saml:x xmlns:saml='urn:oasis:names:tc:SAML:2.0:assertion'/>" },
    /is not an Assertion/,
  ],
  [
    "whose encrypted contents have two assertions",
    {
      encryptFor: OWN.certificate,
      afterSigning: (xml) => xml.replace("</saml:Assertion>", `${evil(xml)}</saml:Assertion>`),
    },
    /one assertion/,
  ],
  [
    "that is encrypted with RSA 1.5",
    { encryptFor: OWN.certificate, keyEncryption: "http://www.w3.org/2001/04/xmlenc#rsa-1_5" },
    /algorithm .*rsa-1_5/,
  ],
  [
    "that is encrypted with triple DES",
    { encryptFor: OWN.certificate, encryption: "http://www.w3.org/2001/04/xmlenc#tripledes-cbc" },
    /algorithm .*tripledes/,
  ],
  [
    "whose encrypted part is elsewhere",
    {
      encryptFor: OWN.certificate,
      atTheEnd: (xml) => xml.replace("<e:EncryptedKey", '<RetrievalMethod URI="#x"/><e:EncryptedKey'),
    },
    /RetrievalMethod/,
  ],
  ["with an encrypted and a plain assertion", { encryptFor: OWN.certificate, atTheEnd: insertPlain }, /one assertion/],

  // Refused by the provider.
  [
    "that says that the sign-in has failed",
    { status: "urn:oasis:names:tc:SAML:2.0:status:Responder" },
    /status Responder/,
  ],
];

const EXCLUSIVE = "http://www.w3.org/2001/10/xml-exc-c14n#";
const SHA256 = { signature: SHA256_SIGNATURE(), digest: "http://www.w3.org/2001/04/xmlenc#sha256" };
function SHA256_SIGNATURE() {
  return "http://www.w3.org/2001/04/xmldsig-more#rsa-sha256";
}
const signatureOf = (xml: string) => /<Signature.*<\/Signature>/s.exec(xml)![0];
const wrap = (xml: string, change: (assertion: string) => string) =>
  xml.replace(/<saml:Assertion.*<\/saml:Assertion>/s, (assertion) => change(assertion));
const moveSignature = (xml: string) =>
  xml.replace(signatureOf(xml), "").replace("<saml:Subject>", () => `<saml:Subject>${signatureOf(xml)}`);
function insertPlain(xml: string): string {
  const plain = '<saml:Assertion ID="_evil" Version="2.0"/>';
  return xml.replace("<saml:EncryptedAssertion>", `${plain}<saml:EncryptedAssertion>`);
}
/** An HMAC under the public certificate, which everyone has. */
function hmacSigned(xml: string): string {
  const algorithm = "http://www.w3.org/2000/09/xmldsig#hmac-sha1";
  const changed = xml.replace(SHA256_SIGNATURE(), algorithm);
  const [info] = /<SignedInfo.*<\/SignedInfo>/s.exec(changed)!;
  const value = createHmac("sha1", idp.keys[0]!.certificate).update(info).digest("base64");
  return changed.replace(/<SignatureValue>[^<]*/, `<SignatureValue>${value}`);
}

describe("a response is refused", () => {
  test.each(REFUSED)("%s", async (_, change, reason) => {
    const page = await signIn(change);
    expect([page.status >= 400, hasSession(page)]).toEqual([true, false]);
    expect(page.text).toContain("<h1>You are not signed in</h1>");
    expect(
      client
        .log()
        .map(({ detail }) => detail)
        .join(),
    ).toMatch(reason);
  });

  test("that was used before, or arrives twice at once", async () => {
    const request = await startAt(browser, url("/auth/saml/corp"));
    const response = await idp.respond(request, url(ACS), url(METADATA));
    const pages = await Promise.all([1, 2, 3].map(() => deliver(response, request.relayState)));
    expect(pages.map(({ status }) => status).sort()).toEqual([200, 401, 401]);
    expect((await deliver(response, request.relayState)).status).toBe(401);
  });

  test("whose assertion was used before, in a response to another request", async () => {
    const assertionId = "_used-once";
    expect(hasSession(await signIn({ assertionId }))).toBe(true);
    const again = await signIn({ assertionId });
    expect([outcomeOf(again), hasSession(again)]).toEqual(["401 You are not signed in", false]);
    expect(client.log()[0]!.detail).toContain("was used before");
  });

  test("in another browser, which has a pending sign-in too", async () => {
    const request = await startAt(browser, url("/auth/saml/corp"));
    const response = await idp.respond(request, url(ACS), url(METADATA));
    const other = new WebClient();
    await startAt(other, url("/auth/saml/corp"));
    expect(hasSession(await deliver(response, request.relayState, ACS, other))).toBe(false);
    expect(hasSession(await deliver(response, request.relayState, ACS, new WebClient()))).toBe(false);
    expect(hasSession(await deliver(response, request.relayState))).toBe(true);
  });

  test("that answers no request", async () => {
    const request = { ...(await startAt(browser, url("/auth/saml/corp"))), id: "" };
    const response = await idp.respond(request, url(ACS), url(METADATA));
    for (const relayState of ["", "x".repeat(43), "/app"])
      expect(hasSession(await deliver(response, relayState))).toBe(false);
  });

  test("at the URL of another provider", async () => {
    const request = await startAt(browser, url("/auth/saml/corp"));
    const response = await idp.respond(request, url(ACS), url(METADATA));
    expect(hasSession(await deliver(response, request.relayState, "/auth/saml/plain/acs"))).toBe(false);
    expect((await deliver(response, request.relayState, "/auth/saml/unknown/acs")).status).toBe(404);
  });

  test("in another format, or a request that is too large", async () => {
    const send = (body: string, type: string) =>
      browser.request(url(ACS), { method: "POST", body, headers: { "content-type": type } });
    expect((await send("{}", "application/json")).status).toBe(415);
    expect((await send(`SAMLResponse=${"A".repeat(200_000)}`, "application/x-www-form-urlencoded")).status).toBe(413);
    expect((await send("a=b", "application/x-www-form-urlencoded")).status).toBe(401);
    expect((await browser.request(url(ACS))).status).toBe(405);
  });

  test("because the user has cancelled, which a page says", async () => {
    const change = {
      status: "urn:oasis:names:tc:SAML:2.0:status:Responder",
      subStatus: "urn:oasis:names:tc:SAML:2.0:status:AuthnFailed",
    };
    const page = await signIn(change, "?return_to=/app");
    expect(outcomeOf(page)).toBe("403 You are not signed in");
    expect(page.text).toContain("The sign-in was cancelled");
    expect(page.text).toContain(`href="${url("/auth/saml/corp?return_to=").replace("&", "&#38;")}`);
  });
});

test("while large and deep documents arrive, other requests are answered", async () => {
  const bombs = ["<a>".repeat(30_000), `<a ${"x".repeat(90_000)}`, `${"<a b=''>".repeat(10_000)}`, "&".repeat(90_000)];
  const requests = await Promise.all(
    bombs.map(async (bomb) => {
      const from = new WebClient();
      return { from, bomb, request: await startAt(from, url("/auth/saml/corp")) };
    }),
  );
  const sent = requests.map(({ from, bomb, request }) =>
    deliver(Buffer.from(bomb).toString("base64"), request.relayState, ACS, from).then(({ status }) => status),
  );
  const healthy = await Promise.all(
    Array.from({ length: 20 }, () => fetch(url("/health")).then(({ status }) => status)),
  );
  expect(new Set(healthy)).toEqual(new Set([200]));
  expect(await Promise.all(sent)).toEqual([401, 401, 401, 401]);
});

describe("a provider that calls itself by the name of another one is not used", () => {
  let evil: SamlTestProvider;
  beforeAll(async () => {
    evil = await SamlTestProvider.start();
  });
  afterAll(async () => {
    evil?.close();
    await configure();
  });
  /** Signs in at it as the user of the other provider, with signatures that are valid for its own metadata. */
  const attempt = async (entries: readonly object[], during: () => void = () => {}) => {
    const entry = { name: "evil", title: randomUUID(), kind: "saml", metadata: `${evil.url}/metadata` };
    await client.configure([...entries, entry]);
    await client.service().service.reloadSettings();
    const page = await browser.request(url("/auth/saml/evil"));
    if (page.status !== 302) return page;
    during();
    const request = readRequest(page.headers.get("location")!);
    const response = await evil.respond(request, url("/auth/saml/evil/acs"), url("/auth/saml/evil/metadata"));
    return deliver(response, request.relayState, "/auth/saml/evil/acs");
  };
  const corp = () => ({ name: "corp", kind: "saml", metadata: `${idp.url}/metadata` });
  const OTHERS: readonly [string, () => object, () => string][] = [
    ["of SAML", corp, () => idp.entityId],
    [
      "of SAML, which is down and whose entry has its issuer",
      () => ({ ...corp(), metadata: "https://127.0.0.1:9/", issuer: idp.entityId }),
      () => idp.entityId,
    ],
    ["of OpenID Connect", () => oidcEntry(client.idp()), () => client.idp().url],
  ];
  test.each(OTHERS)("%s", async (_, entry, entityId) => {
    evil.entityId = entityId();
    const page = await attempt([entry()]);
    expect([outcomeOf(page), hasSession(page)]).toEqual(["503 You are not signed in", false]);
    expect(client.log().at(-1)!.detail).toMatch(/which is also the issuer of the provider (corp|acme)/);
  });

  test("after it had another name", async () => {
    evil.entityId = `${evil.url}/entity`;
    const page = await attempt([corp()], () => {
      evil.entityId = idp.entityId;
      evil.keys = [newCertificate("new")];
    });
    expect([page.status >= 400, hasSession(page)]).toEqual([true, false]);
  });

  test("if its entry has its own issuer", async () => {
    evil.entityId = `${evil.url}/entity`;
    await client.configure([
      { name: "evil", kind: "saml", metadata: `${evil.url}/metadata`, issuer: "urn:example:evil" },
    ]);
    await client.service().service.reloadSettings();
    expect(outcomeOf(await browser.request(url("/auth/saml/evil")))).toBe("503 You are not signed in");
    expect(client.log().at(-1)!.detail).toMatch(/instead of urn:example:evil/);
  });
});

describe("when the provider changes its key", () => {
  test("a response of the new one is accepted without a restart, and of the old one while both are in the metadata", async () => {
    const [old] = idp.keys;
    const next = newCertificate("the next key of the provider");
    idp.keys = [old!, next];
    // The metadata are read again for an unknown key, at most every 30 seconds.
    ahead += 31_000;
    for (const key of [next, old!]) expect(hasSession(await signIn({ key }))).toBe(true);
    idp.keys = [next];
    await configure({ title: "Corp, read again" });
    expect([hasSession(await signIn({ key: next })), hasSession(await signIn({ key: old! }))]).toEqual([true, false]);
    idp.keys = [old!];
    await configure();
  });

  test("invented signatures cause one request for the metadata at most", async () => {
    await signIn();
    const before = idp.metadataRequests;
    for (let n = 0; n < 5; n++) await signIn({ key: STRANGER });
    expect(idp.metadataRequests - before).toBeLessThanOrEqual(1);
  });
});
