import { describe, expect, test } from "vitest";
import { NETWORKS_PER_SITE } from "../../db/network.ts";
import { useService } from "../support/http-client.ts";
import { sendJson } from "../support/json.ts";

const PASSWORD = "Correct-Horse-7!";
const WRONG = "Wrong-Horse-7!!!";
const settings = { TRUST_PROXY: "loopback", GRAPHQL_DOCUMENTS: "none" };
const client = useService({ ...settings, registrationsPerAddress: 2 });
const strict = useService({ ...settings, LOGIN_ATTEMPTS: "1", registrationsPerAddress: 1 });

const from = (address: string) => ({ "x-forwarded-for": address });
const login = (address: string, password: string, at = client, username = "ada") =>
  sendJson(at, "/auth/login", { username, password }, from(address));
let count = 0;
const aUser = () => ({ username: `user-${++count}`, name: "User", email: `user-${count}@test.example`, age: 20 });
const register = (address: string, at = client) =>
  sendJson(at, "/auth/register", { ...aUser(), password: PASSWORD }, from(address));

/** The status of each request, one after the other. */
async function statuses(requests: readonly (() => Promise<{ readonly status: number }>)[]): Promise<number[]> {
  const found: number[] = [];
  for (const request of requests) found.push((await request()).status);
  return found;
}
const times = (number: number, request: (i: number) => Promise<{ readonly status: number }>) =>
  Array.from({ length: number }, (_, i) => () => request(i));

describe("the addresses of one IPv6 network share a limit", () => {
  test("of wrong passwords: the sixth is 429, and so is the right password; another network may sign in", async () => {
    const address = (i: number) => `2001:db8:0:1:${i.toString(16)}::${i}`;
    expect(await statuses(times(6, (i) => login(address(i), WRONG)))).toEqual([401, 401, 401, 401, 401, 429]);
    expect((await login(address(99), PASSWORD)).status).toBe(429);
    expect((await login("2001:db8:0:2::1", PASSWORD)).status).toBe(200);
  });

  test("of wrong passwords in Basic credentials, and a password that is cached for one address is no exception", async () => {
    const basic = (address: string, password: string) =>
      client.send("/users/1", { headers: { ...from(address), authorization: `Basic ${btoa(`ada:${password}`)}` } });
    expect((await basic("2001:db8:0:3::1", PASSWORD)).status).toBe(200);
    const wrong = times(6, (i) => basic(`2001:db8:0:3::${i + 2}`, WRONG));
    expect(await statuses(wrong)).toEqual([401, 401, 401, 401, 401, 429]);
    expect((await basic("2001:db8:0:3::1", PASSWORD)).status).toBe(429);
  });

  test("of registrations", async () => {
    expect(await statuses(times(3, (i) => register(`2001:db8:0:4::${i}`)))).toEqual([201, 201, 429]);
    expect((await register("2001:db8:0:5::1")).status).toBe(201);
  });

  test("while the event of a login that is throttled keeps the address", async () => {
    for (let i = 1; i <= 6; i++) await login(`2001:db8:0:6::${i}`, WRONG);
    const [event] = await client.sql(
      "select host(address) as address from security_events where event = 'login_throttled' and address << '2001:db8:0:6::/64'",
    );
    expect(event).toEqual({ address: "2001:db8:0:6::6" });
  });
});

describe("the networks of one site share a wider limit", () => {
  const address = (site: number, i: number) => `2001:db8:${site}:${i.toString(16)}::1`;

  test("of wrong passwords", async () => {
    const wrong = await statuses(times(NETWORKS_PER_SITE + 1, (i) => login(address(1, i), WRONG, strict)));
    expect(wrong).toEqual([...new Array<number>(NETWORKS_PER_SITE).fill(401), 429]);
    expect((await login(address(1, 99), PASSWORD, strict)).status).toBe(429);
    expect((await login(address(2, 1), PASSWORD, strict)).status).toBe(200);
  });

  test("of registrations", async () => {
    const created = await statuses(times(NETWORKS_PER_SITE + 1, (i) => register(address(3, i), strict)));
    expect(created).toEqual([...new Array<number>(NETWORKS_PER_SITE).fill(201), 429]);
    expect((await register(address(4, 1), strict)).status).toBe(201);
  });
});

test("one IPv4 address has one limit, also with the 65,536 networks that 6to4 gives it", async () => {
  const addresses = [
    "203.0.113.7",
    "::ffff:203.0.113.7",
    "2002:cb00:7107:1::1",
    "2002:cb00:7107:2::1",
    "64:ff9b::cb00:7107",
  ];
  expect(await statuses(addresses.map((address) => () => login(address, WRONG)))).toEqual(addresses.map(() => 401));
  expect((await login("203.0.113.7", PASSWORD)).status).toBe(429);
});
