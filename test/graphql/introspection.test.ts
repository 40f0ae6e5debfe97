import { expect, test } from "vitest";
import { useService } from "../support/http-client.ts";
import type { GqlOptions } from "../support/service.ts";

const services = {
  on: useService(),
  authenticated: useService({ GRAPHQL_INTROSPECTION: "authenticated" }),
  off: useService({ GRAPHQL_INTROSPECTION: "off" }),
};
const DOCUMENTS = [
  "{ __schema { queryType { name } } }",
  'query { ...Types } fragment Types on Query { __type(name: "User") { name } }',
];

test.each([
  ["on", "everyone", {}, undefined],
  ["authenticated", "anonymous callers", {}, "AUTH_REQUIRED"],
  ["authenticated", "signed-in callers", { as: "ada" }, undefined],
  ["off", "anonymous callers", {}, "PERMISSION_DENIED"],
  ["off", "signed-in callers", { as: "ada" }, "PERMISSION_DENIED"],
] as [keyof typeof services, string, GqlOptions, string | undefined][])(
  "GRAPHQL_INTROSPECTION=%s for %s",
  async (setting, _, options, code) => {
    const service = services[setting].service();
    for (const document of DOCUMENTS) {
      const { data, errors } = await service.gql(document, options);
      expect(errors?.[0]?.extensions.code).toBe(code);
      if (code) expect(errors![0]!.message).toContain(`GRAPHQL_INTROSPECTION=${setting}`);
      expect(data === undefined).toBe(code !== undefined);
    }
    // The name of a type is no secret to a client that reads its rows.
    expect((await service.gql("{ users(limit: 1) { __typename } }", options)).data.users).toEqual([
      { __typename: "User" },
    ]);
  },
);
