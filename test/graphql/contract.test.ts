import { getIntrospectionQuery } from "postgraphile/graphql";
import { beforeAll, describe, expect, test } from "vitest";
import { type Client, useService } from "../support/http-client.ts";
import { ARGUMENTS, ENUMS, FIELDS, INPUT_FIELDS, SCALARS } from "./contract-tables.ts";

type TypeRef = { readonly kind: string; readonly name: string | null; readonly ofType: TypeRef | null };
type Value = { readonly name: string; readonly type: TypeRef; readonly defaultValue: string | null };
type Field = { readonly name: string; readonly type: TypeRef; readonly args: readonly Value[] };
type Type = {
  readonly name: string;
  readonly kind: string;
  readonly fields: readonly Field[] | null;
  readonly inputFields: readonly Value[] | null;
  readonly enumValues: readonly { readonly name: string }[] | null;
};

const service = useService();
const renamed = useService({ GRAPHQL_TIME_SCALAR: "DateTime" });
let types: readonly Type[];
beforeAll(async () => {
  types = await introspect(service);
});

const introspect = async (client: Client): Promise<readonly Type[]> =>
  (await client.data(getIntrospectionQuery())).__schema.types;

const named = <T extends { readonly name: string }>(
  all: readonly T[] | null | undefined,
  name: string,
): T | undefined => all?.find((each) => each.name === name);

/** `[Article!]!` */
function typeText({ kind, name, ofType }: TypeRef): string {
  if (kind === "NON_NULL") return `${typeText(ofType!)}!`;
  return kind === "LIST" ? `[${typeText(ofType!)}]` : name!;
}

/** `Int = 10` */
const valueText = ({ type, defaultValue }: Value) =>
  defaultValue === null ? typeText(type) : `${typeText(type)} = ${defaultValue}`;

const isRequired = ({ type, defaultValue }: Value) => type.kind === "NON_NULL" && defaultValue === null;

describe("the schema has the contract's", () => {
  test.each(SCALARS)("scalar %s", (name) => expect(named(types, name)?.kind).toBe("SCALAR"));

  test.each(ENUMS)("enum %s has the values %j and no other", (name, values) => {
    const served = named(types, name)?.enumValues?.map((value) => value.name);
    expect(served?.toSorted()).toEqual(values);
  });

  test.each(FIELDS)("%s.%s: %s", (type, field, expected) => {
    const served = named(named(types, type)?.fields, field);
    expect(served && typeText(served.type)).toBe(expected);
  });

  test.each(ARGUMENTS)("%s.%s(%s: %s)", (type, field, argument, expected) => {
    const served = named(named(named(types, type)?.fields, field)?.args, argument);
    expect(served && valueText(served)).toBe(expected);
  });

  test.each(INPUT_FIELDS)("input %s.%s: %s", (input, field, expected) => {
    const served = named(named(types, input)?.inputFields, field);
    expect(served && valueText(served)).toBe(expected);
  });
});

describe("the schema requires no arguments or fields beyond the contract", () => {
  test.each(FIELDS)("%s.%s", (type, field) => {
    const documented = ARGUMENTS.filter((row) => row[0] === type && row[1] === field).map((row) => row[2] as string);
    const required = named(named(types, type)?.fields, field)!.args.filter(isRequired);
    expect(required.map(({ name }) => name).filter((name) => !documented.includes(name))).toEqual([]);
  });

  test.each([...new Set(INPUT_FIELDS.map(([input]) => input))])("input %s", (input) => {
    const documented = INPUT_FIELDS.filter((row) => row[0] === input).map((row) => row[1] as string);
    const required = named(types, input)!.inputFields!.filter(isRequired);
    expect(required.map(({ name }) => name).filter((name) => !documented.includes(name))).toEqual([]);
  });
});

describe("with GRAPHQL_TIME_SCALAR=DateTime", () => {
  test("the scalar is named DateTime everywhere", async () => {
    const others = await introspect(renamed);
    expect(named(others, "Time")).toBeUndefined();
    expect(named(others, "DateTime")?.kind).toBe("SCALAR");
    expect(typeText(named(named(others, "User")!.fields, "createdAt")!.type)).toBe("DateTime!");
    expect(typeText(named(named(others, "Article")!.fields, "updatedAt")!.type)).toBe("DateTime");
    expect(typeText(named(named(others, "ArticleFilterInput")!.inputFields, "createdAfter")!.type)).toBe("DateTime");
  });

  test("the values are those of Time", async () => {
    await renamed.sql("update articles set created_at = '2026-11-20 08:30:00.1234+00' where id = 1");
    const query = `query ($after: DateTime) {
      articles(filter: { createdAfter: $after, createdBefore: "2026-11-20T08:30:01Z" }) { edges { node { id createdAt } } }
    }`;
    const { articles } = await renamed.data(query, { variables: { after: "2026-11-20T08:30:00Z" } });
    expect(articles.edges).toEqual([{ node: { id: "1", createdAt: "2026-11-20T08:30:00.123Z" } }]);
  });
});
