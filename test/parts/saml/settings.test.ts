import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import type { Environment } from "../../../config/config.ts";
import { PROTOCOLS } from "../../../parts/federated/oauth/protocols.ts";
import { SAML_ENTRIES } from "../../../parts/saml/settings.ts";
import { newCertificate } from "../../support/certificate.ts";
import { readConfig } from "../../support/config.ts";
import { providersError, writeFile } from "../../support/settings.ts";

const PAIR = newCertificate();
const SAML = { name: "corp", kind: "saml", metadata: "https://corp.example/metadata" };

const readerOf = (environment: Environment) => readConfig(environment).providers.with([...PROTOCOLS, SAML_ENTRIES]);
const read = (entries: unknown, more: Environment = {}) =>
  readerOf({ AUTH_PROVIDERS: writeFile(JSON.stringify(entries)), ...more }).readFile();
const errorOf = (entries: unknown, more: Environment = {}) => providersError(() => read(entries, more));

test("an entry of SAML needs metadata: a URL, or a file that is read", () => {
  expect(read([SAML])[0]).toMatchObject({
    metadata: { url: SAML.metadata },
    entityId: null,
    keys: [],
    nameIdFormat: null,
    domains: [],
    claims: { subject: [] },
  });
  expect(read([{ ...SAML, metadata: writeFile("<xml/>\n") }])[0]).toMatchObject({ metadata: { xml: "<xml/>" } });
});

test("every field can be set, and keys may be read from files", () => {
  const [key, certificate] = [PAIR.privateKey, PAIR.certificate].map(writeFile);
  const saml = {
    ...SAML,
    keys: [PAIR, { privateKey: { file: key }, certificate: { file: certificate } }],
    entityId: "urn:content",
    nameIdFormat: "x",
    domains: ["Corp.Example"],
    claims: { subject: "employee.number" },
    require: { "a.b": "c" },
  };
  expect(read([saml])[0]).toMatchObject({
    keys: [PAIR, { privateKey: PAIR.privateKey.trim(), certificate: PAIR.certificate.trim() }],
    entityId: "urn:content",
    domains: ["corp.example"],
    claims: { subject: [["employee.number"]] },
    require: [{ claim: ["a.b"], values: ["c"] }],
  });
});

test.each<[unknown, string]>([
  [[{ ...SAML, kind: "ldap" }], "[0].kind must be oidc, oauth2 or saml"],
  [
    [{ ...SAML, metadata: "http://corp.example" }],
    "[0].metadata must be an https URL without a user, password or fragment (#)",
  ],
  [
    [{ ...SAML, metadata: "/nowhere" }],
    "[0].metadata names a file that cannot be read: ENOENT: no such file or directory, open '/nowhere'",
  ],
  [[{ ...SAML, metadata: writeFile(" \n") }], "[0].metadata names an empty file"],
  [
    [{ ...SAML, keys: [{ ...PAIR, privateKey: "x" }] }],
    "[0].keys[0].privateKey must be the PEM of an RSA private key of at least 2048 bits",
  ],
  [
    [{ ...SAML, keys: [newCertificate("weak", 1024)] }],
    "[0].keys[0].privateKey must be the PEM of an RSA private key of at least 2048 bits",
  ],
  [
    [{ ...SAML, keys: [{ ...PAIR, certificate: PAIR.privateKey }] }],
    "[0].keys[0].certificate must be the PEM certificate of an RSA key of at least 2048 bits",
  ],
  [
    [{ ...SAML, domains: ["mary@corp.example"] }],
    "[0].domains[0] must be the domain of an e-mail, such as corp.example",
  ],
  [
    [
      { ...SAML, domains: ["corp.example"] },
      { ...SAML, name: "other", domains: ["CORP.example"] },
    ],
    "the value has a domain twice",
  ],
  [[{ ...SAML, keys: [PAIR, PAIR, PAIR] }], "[0].keys must have at most 2 key pairs"],
])("a file with %.60j is rejected: %s", (entries, message) => expect(errorOf(entries)).toBe(message));

test("no message contains a secret", () => {
  const secret = "a-private-key-7";
  const keys = [{ privateKey: `-----BEGIN ${secret}`, certificate: secret }];
  expect(errorOf([{ ...SAML, keys }])).not.toContain(secret);
});

test("a provider on a loopback address is for tests", () => {
  const entry = { ...SAML, metadata: "http://[::1]:4000/metadata" };
  expect(errorOf([entry])).toBe(
    "[0].metadata is on a loopback address, which requires AUTH_PROVIDERS_NETWORKS=loopback",
  );
  expect(errorOf([entry], { AUTH_PROVIDERS_NETWORKS: "loopback" })).toBe("accepted");
});

test("a row of the table cannot read files of the machine", () => {
  expect(() => readerOf({}).readRow("corp", { kind: "saml", metadata: "/etc/passwd" })).toThrow(
    "metadata must be an https URL",
  );
});

test("the entries in docs/federated-sign-in.md are valid", () => {
  const text = readFileSync("docs/federated-sign-in.md", "utf8");
  const section = text.slice(text.indexOf("## Providers"), text.indexOf("## Sign in"));
  const examples = [...section.matchAll(/```json\n(.*?)```/gs)].map(([, json]) => JSON.parse(json!));
  expect(examples.length).toBeGreaterThan(3);
  const secrets: Readonly<Record<string, string>> = {
    legacy: "x",
    saml_key: PAIR.privateKey,
    saml_certificate: PAIR.certificate,
  };
  const names = ["ACME_SECRET", "KEYCLOAK_SECRET", "ENTRA_SECRET", "GOOGLE_SECRET"];
  const environment = Object.fromEntries(names.map((name) => [name, "secret"]));
  for (const example of examples) {
    const text = JSON.stringify(example).replaceAll(/\/run\/secrets\/(\w+)/g, (_, name) => writeFile(secrets[name]!));
    const entries = JSON.parse(text);
    expect(read(entries, environment)).toHaveLength(entries.length);
  }
});
