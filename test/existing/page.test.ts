import { readFileSync } from "node:fs";
import jwt from "jsonwebtoken";
import { afterAll, beforeAll, expect, test } from "vitest";
import { connect } from "../support/graphql-client.ts";
import { POLL } from "../support/until.ts";
import { type RunningApplication, startApplication } from "./application.ts";

const PAGE = readFileSync("docs/existing-database.md", "utf8");
const EXAMPLES = [...PAGE.matchAll(/^```graphql\n([\s\S]*?)^```$/gm)].map(([, example]) => example!);
const CUSTOMER = { role: "shop_customer", sub: "1" };

let shop: RunningApplication;
beforeAll(async () => {
  shop = await startApplication(
    {
      files: ["applications/shop.sql"],
      prefix: "shop_",
      login: "shop_api",
      feed: "shop_feed",
      settings: { DB_SCHEMAS: "store", DB_ANON_ROLE: "shop_web", JWT_SECRET: "the secret of the shop, long enough" },
      sign: (claims) => jwt.sign(claims, "the secret of the shop, long enough"),
    },
    { change: "create publication content_changes for table store.orders with (publish_via_partition_root)" },
  );
});
afterAll(() => shop?.stop());

test.each(EXAMPLES.filter((example) => !example.startsWith("subscription")))(
  "docs/existing-database.md: customer 1 gets rows for %s",
  async (example) => {
    const { data, errors } = await shop.gql(example, CUSTOMER);
    expect(errors).toBeUndefined();
    expect(JSON.stringify(data)).toMatch(/"number":"O000\d\d"|"success":true/);
  },
);

test.each(EXAMPLES.filter((example) => example.startsWith("subscription")))(
  "docs/existing-database.md: customer 1 gets changes for %s",
  async (example) => {
    const client = connect(shop, { params: { Authorization: `Bearer ${shop.token(CUSTOMER)}` } });
    const subscription = await client.subscribe(example);
    await shop.database.owner.query("update store.orders set note = 'Ring.' where number = 'O00012'");
    await expect
      .poll(() => subscription.events, POLL)
      .toEqual([{ onOrderUpdated: { number: "O00012", note: "Ring." } }]);
  },
);

test("git ignores the files that the page writes, and the page removes them", () => {
  const written = [...PAGE.matchAll(/^(?:schema|\(umask 077 && cat) > ([^\s)]+)|^Save this as `(\S+)`/gm)].map(
    ([, one, other]) => one ?? other!,
  );
  expect(written).toEqual(["before.sql", "shop.env", "listen.mjs"]);
  const ignored = readFileSync(".gitignore", "utf8").split("\n");
  expect(written.filter((file) => !ignored.includes(`/${file}`))).toEqual([]);
  const [, removed] = /^rm (.*)$/m.exec(PAGE)!;
  expect(removed!.split(" ")).toEqual(written);
});
