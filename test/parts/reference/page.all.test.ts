import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { gunzipSync } from "node:zlib";
import express from "express";
import { beforeAll, expect, test } from "vitest";
import { BUNDLE_FILE, docsRouter } from "../../../parts/reference/page.ts";

/** `bf09…`, from scalar.md in the folder of the bundle. */
const SHA256 = "bf091006bdc3af6067af77c2f534812e3e633e94a94e87138069f570f33b762c";
const SCALAR = readFileSync(new URL("../../../parts/reference/scalar.md", import.meta.url), "utf8");

const sha256 = (bytes: Uint8Array, encoding: "hex" | "base64") => createHash("sha256").update(bytes).digest(encoding);

let url: string;
beforeAll(async () => {
  const app = express().use(
    docsRouter({
      anonKey: `"><script>alert(1)</script>`,
      settings: { dbSchemas: ["public"] },
      versions: [1, 2],
      hasAccounts: true,
      links: [],
    }),
  );
  const server = app.listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return () => void server.close();
});

test("the bundle is the file that Scalar has released", () => {
  expect(sha256(gunzipSync(readFileSync(BUNDLE_FILE)), "hex")).toBe(SHA256);
  expect(SCALAR).toContain(SHA256);
});

test.each([
  ["gzip", "gzip"],
  ["identity", null],
])(
  "with Accept-Encoding: %s the bundle has Content-Encoding: %s and may be cached forever",
  async (accepted, encoding) => {
    const response = await fetch(`${url}/docs/scalar-1.72.1.js`, { headers: { "accept-encoding": accepted } });
    expect(response.headers.get("content-encoding")).toBe(encoding);
    expect(response.headers.get("content-type")).toMatch(/^text\/javascript/);
    expect(response.headers.get("cache-control")).toBe("public, max-age=31536000, immutable");
    expect(response.headers.get("vary")).toContain("Accept-Encoding");
    expect(sha256(await response.bytes(), "hex")).toBe(SHA256);
  },
);

test("the page allows only its own scripts and names no other host", async () => {
  const response = await fetch(`${url}/docs`);
  const policy = response.headers.get("content-security-policy")!;
  const html = await response.text();
  const [, script] = /<script type="module">(.*?)<\/script>/s.exec(html)!;
  expect(policy).toContain(`script-src 'self' 'sha256-${sha256(Buffer.from(script!), "base64")}';`);
  expect(policy).toContain("connect-src 'self';");
  // Icons name the namespace of SVG, which nothing loads.
  expect(`${policy} ${html.replaceAll("http://www.w3.org/2000/svg", "")}`).not.toMatch(/https?:|\/\/\w/);
});

test("the key is escaped in the page", async () => {
  const html = await (await fetch(`${url}/docs`)).text();
  expect(html).toContain('data-key="&#34;&#62;&#60;script&#62;alert(1)&#60;/script&#62;"');
});
