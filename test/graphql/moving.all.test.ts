import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { useService } from "../support/http-client.ts";
import { POLL } from "../support/until.ts";

const { data, gql, sql } = useService();

const blocks = (page: string, language: string) =>
  [...readFileSync(`docs/${page}.md`, "utf8").matchAll(new RegExp(`\`\`\`${language}\\n([\\s\\S]*?)\`\`\``, "g"))].map(
    ([, block]) => block!,
  );

test.each(["from-hasura", "from-postgraphile"])("docs/%s.md: the operations work", async (page) => {
  const operations = blocks(page, "graphql");
  expect(operations.length).toBeGreaterThan(0);
  for (const operation of operations) expect(await gql(operation)).not.toHaveProperty("errors");
});

describe("docs/from-hasura.md: policies in place of permissions", () => {
  test("each caller has its own rows, and creates them as itself", async () => {
    for (const block of blocks("from-hasura", "sql")) await sql(block);
    await sql(`
      create index on public.orders (tenant);
      insert into public.orders (user_id, total, tenant) values (1, 10, null), (2, 20, null), (2, 30, 'tenant');
      insert into public.order_items (order_id, product) values (1, 'ink'), (2, 'paper')`);
    const read =
      "{ orders(orderBy: [ID_ASC]) { edges { node { id total } } } orderItems { edges { node { product } } } }";
    const rows = async (as: "ada" | "bob") => {
      const answer = await gql(read, { as });
      if (answer.errors) return answer.errors;
      const { orders, orderItems } = answer.data;
      return [orders.edges.map(({ node }: any) => node.total), orderItems.edges.map(({ node }: any) => node.product)];
    };
    await expect.poll(() => rows("ada"), POLL).toEqual([[10], ["ink"]]);
    expect(await rows("bob")).toEqual([[20, 30], ["paper"]]);
    const { createOrder } = await data("mutation { createOrder(input: { total: 5 }) { id total } }", {
      as: "ada",
    });
    expect(createOrder.total).toBe(5);
    expect(await rows("ada")).toEqual([[10, 5], ["ink"]]);
    const foreign = await gql("mutation { createOrder(input: { total: 5, userId: 2 }) { id } }", { as: "ada" });
    expect(foreign.errors![0]!.message).toContain("userId");
  });
});
