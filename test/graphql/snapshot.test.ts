import { buildClientSchema, getIntrospectionQuery, lexicographicSortSchema, printSchema } from "postgraphile/graphql";
import { expect, test } from "vitest";
import { useService } from "../support/http-client.ts";

const service = useService();

const ADVICE = `demo/schema.graphql is not the schema that is served. Renew it, and review its diff as a change of the API:
  npx vitest run test/graphql/snapshot.test.ts -u`;

test("demo/schema.graphql is the schema that is served", async () => {
  const schema = buildClientSchema(await service.data(getIntrospectionQuery()));
  const printed = `${printSchema(lexicographicSortSchema(schema))}\n`;
  await expect(printed, ADVICE).toMatchFileSnapshot("../../demo/schema.graphql");
});
