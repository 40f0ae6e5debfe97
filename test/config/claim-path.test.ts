import { expect, test } from "vitest";
import { claimAt, parseClaimPath } from "../../config/claim-path.ts";

const CLAIMS = {
  role: "plain",
  app: { role: "nested" },
  roles: ["reader", "editor", "offline_access"],
  groups: [{ name: "staff", role: "writer" }, { name: "guests" }],
  "https://shop.example/role": "namespaced",
  "a-b": "dashed",
};

test.each<[path: string, role: unknown]>([
  ["role", "plain"],
  [".role", "plain"],
  ["app.role", "nested"],
  [".app.role", "nested"],
  [".roles[1]", "editor"],
  ['."https://shop.example/role"', "namespaced"],
  ["a-b", "dashed"],
  ["missing.role", undefined],

  // PostgREST 13 to 15.
  ['.roles[?(@ == "editor")]', "editor"],
  ['.roles[?(@ != "reader")]', "editor"],
  ['.roles[?(@ ^== "off")]', "offline_access"],
  ['.roles[?(@ ==^ "tor")]', "editor"],
  ['.roles[?(@ *== "ffline")]', "offline_access"],
  ['.roles[?(@ == "admin")]', undefined],
  ['.app[?(@ == "nested")]', undefined],

  // PostgREST 16.
  ["$.role", "plain"],
  ["$.app.role", "nested"],
  ["$.roles[0]", "reader"],
  ["$.roles[-1]", "offline_access"],
  ["$['https://shop.example/role']", "namespaced"],
  ['$.roles[?(@ == "editor")]', "editor"],
  ["$.roles[?@ == 'editor']", "editor"],
  ['$.roles[?(@ == "admin")]', undefined],
  ["$.roles[?search(@, '^off')]", "offline_access"],
  ["$.groups[?(@.name == 'staff')].role", "writer"],
  ["$.missing.role", undefined],
  ["$.roles", CLAIMS.roles],
])("%s is the path of %j", (path, role) => expect(claimAt(CLAIMS, parseClaimPath(path))).toEqual(role));

test.each(["", ".", "app..role", "app.role.", "roles[", "roles[x]", '.roles[?(@ ~= "x")]', '."open'])(
  "%j cannot be read, and the message shows what can",
  (path) =>
    expect(() => parseClaimPath(path)).toThrow(/a claim, a path such as app\.role or \.roles\[0\], or a JSONPath/),
);

test.each([["$."], ["$role"], ["$.roles["], ["$.roles[?(@ == x)]"], ["$.roles[?unknown(@)]"], ["$.a b"]])(
  "%j is not a valid JSONPath, and the message says why",
  (path) => expect(() => parseClaimPath(path)).toThrow(/^must be a valid JSONPath \(RFC 9535\): ./),
);

test("every text is a path or is rejected with a message", () => {
  for (const path of ["\0", "$\n", "$..*", "💥", "$".repeat(1000), `.${"a.".repeat(1000)}a`])
    try {
      claimAt(CLAIMS, parseClaimPath(path));
    } catch (error) {
      expect((error as Error).message).toMatch(/^must /);
    }
});
