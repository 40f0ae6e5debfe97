import { expect, test } from "vitest";
import { valuesOf } from "../../../config/declared.ts";
import { RelyingParty } from "../../../parts/passkeys/relying-party.ts";
import { PASSKEYS } from "../../../parts/passkeys/settings.ts";
import { readConfig } from "../../support/config.ts";

const partyOf = (url: string, settings: { passkeyDomain?: string; corsOrigins?: string[] } = {}) =>
  new RelyingParty(url, {
    ...{ passkeyDomain: "", corsOrigins: [], authReturnOrigins: [] },
    ...settings,
  });

test.each([
  ["https://api.example.com/base", "", "api.example.com", "https://api.example.com"],
  ["https://api.example.com:8443", "example.com", "example.com", "https://api.example.com:8443"],
  ["http://127.0.0.1:3000", "", "localhost", "http://localhost:3000"],
  ["http://localhost:3000", "", "localhost", "http://localhost:3000"],
  ["http://[::1]:3000", "", "localhost", "http://localhost:3000"],
])(
  "passkeys of %s with PASSKEY_DOMAIN=%s belong to %s, and pages of %s may use them",
  (url, passkeyDomain, domain, origin) => {
    const party = partyOf(url, { passkeyDomain, corsOrigins: ["https://app.example.com", "*"] });
    expect([party.domain, party.origins]).toEqual([domain, [origin, "https://app.example.com"]]);
  },
);

test.each(["http://api.example.com", "https://203.0.113.7", "http://0.0.0.0:3000", "https://[2001:db8::1]"])(
  "browsers allow no passkeys at %s, and the error says so",
  (url) => {
    const party = partyOf(url);
    expect(party.isOn).toBe(false);
    expect(() => party.domain).toThrow(
      `browsers allow passkeys only with https and a domain name, or on localhost: set BASE_URL, which is ${url}`,
    );
  },
);

test("PASSKEY_DOMAIN is the domain of BASE_URL, or one above it", () => {
  const domainOf = (PASSKEY_DOMAIN: string, BASE_URL = "https://api.example.com") =>
    valuesOf(readConfig({ PASSKEY_DOMAIN, BASE_URL }), PASSKEYS).passkeyDomain;
  expect([domainOf("example.com"), domainOf("api.example.com"), domainOf("")]).toEqual([
    ...["example.com", "api.example.com", ""],
  ]);
  const refused = "PASSKEY_DOMAIN must be that of BASE_URL, or one above it";
  for (const domain of ["other.example", "ample.com", "app.example.com"])
    expect(() => domainOf(domain)).toThrow(refused);
  expect(() => domainOf("example.com", "")).toThrow(refused);
  for (const domain of ["https://example.com", "Example.com", "example.com."])
    expect(() => domainOf(domain)).toThrow("PASSKEY_DOMAIN must be a domain such as example.com, in lower case");
});
