import { expect, test } from "vitest";
import { useService } from "../support/http-client.ts";

const client = useService({
  ...{ MAIL_URL: "keep", mailsPerAddress: 20, mailsPerHour: 40, METRICS: "on" },
  TRUST_PROXY: "127.0.0.1",
});

let count = 0;
async function request(network: number, email = `stranger${++count}@test.example`) {
  const { status, headers } = await client.send("/auth/forgot", {
    method: "POST",
    headers: { "content-type": "application/json", "x-forwarded-for": `203.0.113.${network}` },
    body: JSON.stringify({ email }),
  });
  return [status, headers.has("retry-after")];
}

test("few networks do not use up the e-mails of others: of the second half, each gets a tenth of its limit", async () => {
  for (let i = 0; i < 20; i++) expect(await request(1)).toEqual([202, false]);
  expect(await request(1)).toEqual([429, true]);
  for (let network = 2; network < 10; network++) {
    expect([await request(network), await request(network)]).toEqual([
      [202, false],
      [202, false],
    ]);
    expect(await request(network)).toEqual([429, true]);
  }
  expect(await request(77, "bob@example.com")).toEqual([202, false]);
});
