import { expect, test } from "vitest";
import { useResources } from "../../support/resource-client.ts";

const { api, failure } = useResources({ PARTS: "-openapi", API_KEY_REQUIRED: "off" });

test.each(["/rest/v1/", "/rest/v1/openapi.json", "/rest/v1/types.ts"])(
  "without the part, %s is 404 with the reason",
  async (path) => {
    const { status, json } = await api(path);
    expect([status, json]).toEqual([
      404,
      { code: "PGRST126", message: "The description is disabled (OPENAPI, PARTS=-openapi)", details: null, hint: null },
    ]);
    expect((await api(`OPTIONS ${path}`)).headers.get("allow")).toBe("OPTIONS,GET,HEAD");
  },
);

test("without it, /openapi.json is 404 with the reason, and data is served", async () => {
  expect(await failure("/openapi.json")).toEqual([
    404,
    "RESOURCE_NOT_FOUND",
    "the OpenAPI document is switched off (OPENAPI, PARTS=-openapi)",
  ]);
  for (const path of ["/users", "/rest/v1/users?limit=1"])
    expect([path, (await api(path)).status]).toEqual([path, 200]);
});
