import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { useService } from "../support/http-client.ts";

const { gql } = useService();

const GUIDE = readFileSync("docs/graphql.md", "utf8");
const EXAMPLES = [...GUIDE.matchAll(/^## (.+)$|```graphql\n([\s\S]*?)```/gm)].reduce<[string, string][]>(
  (found, [, heading, example]) =>
    heading ? [...found, [heading, ""]] : [...found, [found.at(-1)?.[0] ?? "", example!]],
  [],
);

test.each(EXAMPLES.filter(([, example]) => example !== ""))(
  "docs/graphql.md, %s: the example works",
  async (_, example) => {
    const { data, errors } = await gql(example, { as: "ada" });
    expect(errors).toBeUndefined();
    for (const result of Object.values<any>(data)) if (result?.success !== undefined) expect(result.success).toBe(true);
  },
);
