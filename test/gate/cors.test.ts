import { describe, expect, test } from "vitest";
import { useService } from "../support/http-client.ts";

const { send } = useService();
const named = useService({ CORS_ORIGINS: "https://app.example, https://admin.example" });

const ORIGIN = { origin: "https://app.example" };
const PATHS = ["/users/1", "/rest/v1/users", "/auth/login", "/graphql"];

describe("a page", () => {
  test("may read every header of a response", async () => {
    for (const ask of [send, named.send]) {
      const { headers } = await ask("/rest/v1/users", { headers: ORIGIN });
      expect(headers.get("access-control-expose-headers")!.split(",")).toEqual(
        expect.arrayContaining([
          ..."Content-Range ETag Last-Modified Link Location Allow Retry-After Preference-Applied".split(" "),
          ...["X-Request-Id", "X-Total-Count", "X-RateLimit-Limit", "X-RateLimit-Remaining"],
          ...["X-API-Version", "X-API-Warn", "X-API-Sunset"],
        ]),
      );
    }
  });

  test.each(["GET", "HEAD", "QUERY", "POST", "PUT", "PATCH", "DELETE"])(
    "may send %s with any headers",
    async (method) => {
      const requested = "authorization,if-match,if-none-match,prefer,x-api-version,x-csrf-token";
      for (const path of PATHS) {
        const { status, headers } = await send(path, {
          method: "OPTIONS",
          headers: {
            ...ORIGIN,
            "access-control-request-method": method,
            "access-control-request-headers": requested,
          },
        });
        expect([status, headers.get("access-control-allow-headers")]).toEqual([204, requested]);
        expect(headers.get("access-control-allow-methods")!.split(",")).toContain(method);
        expect(headers.get("access-control-max-age")).toBe("600");
        expect([headers.get("access-control-allow-origin"), headers.get("allow")]).toEqual(["*", null]);
        expect(headers.has("access-control-allow-credentials")).toBe(false);
      }
    },
  );

  test.each([
    ["https://app.example", "https://app.example"],
    ["https://admin.example", "https://admin.example"],
    ["https://page.example", null],
    ["null", null],
  ])("of the origin %s is allowed by CORS_ORIGINS: %s", async (origin, allowed) => {
    for (const path of PATHS)
      for (const method of ["OPTIONS", "GET"]) {
        const more = method === "OPTIONS" && { "access-control-request-method": "POST" };
        const { headers } = await named.send(path, { method, headers: { origin, ...more } });
        expect([path, headers.get("access-control-allow-origin")]).toEqual([path, allowed]);
        // Responses that depend on the origin have Vary: Origin.
        expect(headers.get("vary")).toMatch(/\bOrigin\b/);
      }
  });
});
