import { tmpdir } from "node:os";
import { expect, test } from "vitest";
import { readConfig } from "../support/config.ts";
import { errorOf, writeFile } from "../support/settings.ts";

const file = (...issuers: unknown[]) => writeFile(JSON.stringify(issuers));

/** The message, without the path of the file. */
const fileErrorOf = (path: string) => errorOf({ JWT_ISSUERS: path }).replace(` (is ${JSON.stringify(path)})`, "");

const ACME = { issuer: "https://id.acme.example", audience: "content" };
const LOCAL = { ...ACME, issuer: "http://127.0.0.1:4000" };
const DATABASE_URL = "postgres://owner:secret@db.example.com/content";

test("JWT_ISSUERS names a JSON file of issuers, of which only issuer and audience are required", () => {
  const full = {
    issuer: "https://legacy.example/realm",
    jwksUrl: "https://legacy.example/keys?all=yes",
    audience: "api",
    roleClaim: '$.app."https://legacy.example/roles"[0]',
    roles: ["authenticated", "admin"],
  };
  expect(readConfig({ JWT_ISSUERS: file(ACME, full) }).jwtIssuers).toEqual([
    { ...ACME, jwksUrl: null, roleClaim: ["role"], roles: null },
    { ...full, roleClaim: ["app", "https://legacy.example/roles", 0] },
  ]);
});

test.each<[string, () => string, string]>([
  [
    "that is missing",
    () => "/nowhere",
    "names a file that cannot be read: ENOENT: no such file or directory, open '/nowhere'",
  ],
  [
    "that is a folder",
    () => tmpdir(),
    "names a file that cannot be read: EISDIR: illegal operation on a directory, read",
  ],
  ["of another format", () => writeFile("issuer: x"), "names a file that is not JSON"],
  ["with an object", () => writeFile("{}"), "names a file in which the value must be a list of issuers"],
  ["with text in the list", () => file("x"), "names a file in which [0] must be an object"],
  ["without an issuer", () => file({ audience: "a" }), "names a file in which [0].issuer is required"],
  [
    "without an audience",
    () => file(ACME, { issuer: "https://b.example" }),
    "names a file in which [1].audience is required",
  ],
  [
    "with an empty audience",
    () => file({ ...ACME, audience: "" }),
    "names a file in which [0].audience must not be empty",
  ],
  [
    "with a misspelt field",
    () => file({ ...ACME, jwks_url: "x" }),
    "names a file in which [0].jwks_url is not a known field",
  ],
  [
    "with a URL over http",
    () => file({ ...ACME, issuer: "http://id.acme.example" }),
    "names a file in which [0].issuer must be an https URL without a user, password or fragment (#)",
  ],
  [
    "with a password in a URL",
    () => file({ ...ACME, jwksUrl: "https://a:b@id.acme.example/" }),
    "names a file in which [0].jwksUrl must be an https URL without a user, password or fragment (#)",
  ],
  [
    "with a malformed path of a claim",
    () => file({ ...ACME, roleClaim: "$.role[" }),
    "names a file in which [0].roleClaim must be a valid JSONPath (RFC 9535): unclosed bracketed selection ('$.role[':7)",
  ],
  [
    "with a role that is not in a list",
    () => file({ ...ACME, roles: "admin" }),
    "names a file in which [0].roles must be a list of roles",
  ],
  ["with an issuer twice", () => file(ACME, ACME), "names a file in which the value names an issuer twice"],
])("a file %s is rejected", (_, path, message) => expect(fileErrorOf(path())).toBe(`JWT_ISSUERS ${message}`));

test("issuers on loopback addresses are for tests, where the service is on a loopback address too", () => {
  const JWT_ISSUERS = file(LOCAL);
  const loopback = { JWT_ISSUERS, AUTH_PROVIDERS_NETWORKS: "loopback" };
  expect(errorOf({ JWT_ISSUERS })).toBe(
    "JWT_ISSUERS names an issuer on a loopback address, which requires AUTH_PROVIDERS_NETWORKS=loopback",
  );
  for (const BASE_URL of ["", "http://127.0.0.1:3000", "https://localhost/api", "http://[::1]"])
    expect(errorOf({ ...loopback, BASE_URL })).toBe("accepted");
  const refusal = "AUTH_PROVIDERS_NETWORKS=loopback is for tests: it requires BASE_URL, or HOST, on a loopback address";
  for (const BASE_URL of ["https://api.example.com", "https://127.0.0.1.example.com", "https://localhost.example.com"])
    expect(errorOf({ ...loopback, BASE_URL })).toBe(refusal);
  expect(errorOf({ ...loopback, HOST: "0.0.0.0" })).toBe(refusal);
});

test("AUTH_PROVIDERS_NETWORKS is a list of networks", () => {
  const { authProvidersNetworks } = readConfig({ AUTH_PROVIDERS_NETWORKS: "10.0.0.0/8, fd00::/8,192.168.1.7" });
  expect(authProvidersNetworks).toEqual(["10.0.0.0/8", "fd00::/8", "192.168.1.7"]);
  expect(errorOf({ AUTH_PROVIDERS_NETWORKS: "private" })).toContain("must be networks such as 10.0.0.0/8");
});

test.each(["https://id.acme.example/jwks.json", "http://127.0.0.1:4000/.well-known/jwks.json"])(
  "JWT_SECRET=%s is rejected: a URL would be a secret that everyone knows",
  (JWT_SECRET) => {
    const message = "must be a secret, not a URL: list the issuer of the tokens in JWT_ISSUERS";
    expect(errorOf({ JWT_SECRET })).toBe(`JWT_SECRET ${message}`);
    expect(errorOf({ DATABASE_URL, MIGRATE: "off", JWT_SECRET })).toBe(`JWT_SECRET ${message}`);
    const secret = "PGRST_JWT_SECRET";
    expect(errorOf({ PGRST_DB_URI: DATABASE_URL, [secret]: JWT_SECRET })).toBe(`${secret} ${message}`);
  },
);

test("with MIGRATE=off, issuers take the place of a secret; otherwise the service needs one for its own tokens", () => {
  const JWT_ISSUERS = file(ACME);
  expect(errorOf({ DATABASE_URL, MIGRATE: "off", JWT_ISSUERS })).toBe("accepted");
  expect(errorOf({ DATABASE_URL, JWT_ISSUERS })).toBe("JWT_SECRET (or JWT_PRIVATE_KEY) is required with DATABASE_URL");
});
