import { expect, test } from "vitest";
import { ReturnUrls } from "../../../rest-gateway/auth/return-urls.ts";

const logged: unknown[] = [];
const urls = new ReturnUrls("https://api.example.com/v1", ["https://app.example.com"], {
  info: (...line: unknown[]) => void logged.push(line),
});

test.each([
  ["/app?a=b", "https://api.example.com/app?a=b"],
  ["https://app.example.com/welcome", "https://app.example.com/welcome"],
  ["https://APP.example.com", "https://app.example.com/"],
  ["//evil.example", null],
  ["/\\evil.example", null],
  ["https://ada@app.example.com/", null],
  ["javascript:alert(1)", null],
])("a browser returns from %j to %j", (text, url) => {
  expect(urls.parse(text)).toBe(url);
});

test("the log names the setting once for each origin that is not allowed", () => {
  logged.length = 0;
  for (const path of ["/a?token=secret", "/b"]) expect(urls.parse(`https://new.example.com${path}`)).toBeNull();
  expect(logged).toEqual([
    [{ origin: "https://new.example.com" }, expect.stringContaining("add it to AUTH_RETURN_ORIGINS")],
  ]);
});
