import { expect, test } from "vitest";
import { deviceName, networkAround } from "../../../rest-gateway/auth/device.ts";

const WEBKIT = "AppleWebKit/537.36 (KHTML, like Gecko)";

test.each([
  ["Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0", "Firefox on Linux"],
  [`Mozilla/5.0 (Windows NT 10.0; Win64; x64) ${WEBKIT} Chrome/142.0.0.0 Safari/537.36`, "Chrome on Windows"],
  [`Mozilla/5.0 (Windows NT 10.0) ${WEBKIT} Chrome/142.0.0.0 Safari/537.36 Edg/142.0.0.0`, "Edge on Windows"],
  [`Mozilla/5.0 (Linux; Android 15; Pixel 9) ${WEBKIT} Chrome/142.0.0.0 Mobile Safari/537.36`, "Chrome on Android"],
  [
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 Version/18.0 Safari/605.1.15",
    "Safari on macOS",
  ],
  [
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 CriOS/142.0 Safari/604.1",
    "Chrome on iOS",
  ],
  ["Mozilla/5.0", "Browser"],
  ["curl/8.5.0", "curl"],
  ["python-requests/2.32", "python-requests"],
  [`${"x".repeat(1000)}/1`, "x".repeat(50)],
  ["www.evil.example/1", "www evil example"],
  ["<script>", null],
  ["", null],
])("the device of %j is %j", (agent, device) => {
  expect(deviceName(agent)).toBe(device);
});

test.each([
  ["203.0.113.7", "203.0.113.0/24"],
  ["::ffff:203.0.113.7", "203.0.113.0/24"],
  ["2001:db8:1:2:3::7", "2001:db8:1:2::/64"],
  ["::1", "0:0:0:0::/64"],
  ["", null],
  ["unix", null],
])("the network around %j is %j", (address, network) => {
  expect(networkAround(address)).toBe(network);
});
