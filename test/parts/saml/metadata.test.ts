import { expect, test } from "vitest";
import { parseMetadata, writeMetadata } from "../../../parts/saml/metadata.ts";
import { newCertificate } from "../../support/certificate.ts";

const [STRONG, OTHER, WEAK] = [newCertificate("strong"), newCertificate("other"), newCertificate("weak", 1024)];
const MD = 'xmlns="urn:oasis:names:tc:SAML:2.0:metadata" xmlns:ds="http://www.w3.org/2000/09/xmldsig#"';
const REDIRECT = 'Binding="urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Redirect"';
const base64 = ({ certificate }: typeof STRONG) => certificate.replace(/-----.*-----|\s/g, "");
const key = (pair: typeof STRONG, use = 'use="signing"') =>
  `<KeyDescriptor ${use}><ds:KeyInfo><ds:X509Data><ds:X509Certificate>\n  ${base64(pair)}\n</ds:X509Certificate></ds:X509Data></ds:KeyInfo></KeyDescriptor>`;
const SSO = `<SingleSignOnService ${REDIRECT} Location="https://idp.example/sso?a=1&amp;b=2"/>`;
const idp = (contents: string, id = 'entityID="https://idp.example"', more = "") =>
  `<EntityDescriptor ${MD} ${id} ${more}><IDPSSODescriptor>${contents}</IDPSSODescriptor></EntityDescriptor>`;

test("metadata have the entity id, the URLs of the Redirect binding and the certificates that sign", () => {
  const xml = idp(`${key(STRONG)}${key(OTHER, "")}${key(WEAK)}${key(STRONG, 'use="encryption"')}${SSO}`);
  expect(parseMetadata(`<?xml version="1.0"?>\n${xml}`)).toEqual({
    entityId: "https://idp.example",
    signInUrl: "https://idp.example/sso?a=1&b=2",
    logoutUrl: null,
    logoutResponseUrl: null,
    certificates: [STRONG, OTHER].map(({ certificate }) => certificate),
    wantsSignedRequests: false,
    validUntil: null,
  });
});

test("metadata of a federation are accepted if one of the entities is an identity provider", () => {
  const service = `<EntityDescriptor entityID="https://sp.example"><SPSSODescriptor/></EntityDescriptor>`;
  const all = `<EntitiesDescriptor ${MD} validUntil="2030-01-02T03:04:05Z">${service}${idp(key(STRONG) + SSO)}</EntitiesDescriptor>`;
  expect(parseMetadata(all)).toMatchObject({
    entityId: "https://idp.example",
    validUntil: Date.parse("2030-01-02T03:04:05Z"),
  });
});

const REFUSED = [
  ["<a/>", "has no identity provider (IDPSSODescriptor)"],
  [
    `<EntitiesDescriptor ${MD}>${idp(key(STRONG) + SSO)}${idp(key(STRONG) + SSO)}</EntitiesDescriptor>`,
    "has several identity providers: use the metadata of one",
  ],
  [idp(key(STRONG) + SSO, ""), "has no entityID"],
  [idp(key(STRONG)), "has no SingleSignOnService with the binding HTTP-Redirect"],
  [idp(key(STRONG) + SSO.replace("https", "http")), "has a SingleSignOnService that is not an https URL"],
  [
    idp(key(STRONG) + SSO.replace("https://idp.example/sso", "javascript:alert(1)")),
    "has a SingleSignOnService that is not an https URL",
  ],
  [idp(SSO), "has no certificate of an RSA key of at least 2048 bits that signs"],
  [idp(key(WEAK) + SSO), "has no certificate of an RSA key of at least 2048 bits that signs"],
  [idp(key(STRONG, 'use="encryption"') + SSO), "has no certificate of an RSA key of at least 2048 bits that signs"],
  [`<!DOCTYPE x>${idp(key(STRONG) + SSO)}`, "has a document type"],
  ["", "document must contain a root element."],
  ["<a>".repeat(1000), "has more than 40 levels"],
  [" ".repeat(1_048_577), "has more than 1048576 characters"],
] as const;
test.each(REFUSED.map(([xml, message]) => ({ xml, message })))(
  "a document is refused: it $message",
  ({ xml, message }) => expect(() => parseMetadata(xml)).toThrow(message),
);

test("our metadata are well formed whatever the settings contain", () => {
  const entityId = `urn:a"b<c>&'d`;
  const xml = writeMetadata({
    entityId,
    consumerUrl: "https://x/?a&b",
    logoutUrl: "https://x/l",
    keys: [STRONG],
    nameIdFormat: "a<b",
  });
  expect(xml).toContain('entityID="urn:a&#34;b&#60;c&#62;&#38;&#39;d"');
  expect(xml).toContain("<NameIDFormat>a&#60;b</NameIDFormat>");
  expect(xml).toContain('Location="https://x/?a&#38;b"');
});
