import { resolve } from "./openapi-rules.ts";

/**
 * The differences between a value and a schema of the document; `[]` if it is valid. Stricter than JSON Schema: a property
 * that the schema does not name is a fault, unless the schema explicitly allows additional properties.
 */
export function schemaFaults(document: any, schema: any, value: unknown, place = "body"): string[] {
  if (schema.$ref !== undefined) return schemaFaults(document, resolve(document, schema.$ref), value, place);
  const faultsOf = (part: any) => schemaFaults(document, part, value, place);
  const { anyOf, oneOf } = schema;
  if (anyOf !== undefined) return choiceFaults(anyOf.map(faultsOf), (fitting) => fitting > 0, place);
  if (oneOf !== undefined) return choiceFaults(oneOf.map(faultsOf), (fitting) => fitting === 1, place);
  const types: readonly string[] | undefined = schema.type === undefined ? undefined : [schema.type].flat();
  if (types !== undefined && !typesOf(value).some((type) => types.includes(type)))
    return [`${place} is ${typesOf(value)[0]}, and not ${types.join(" or ")}`];
  if (schema.enum !== undefined && !schema.enum.includes(value)) return [`${place} must be one of ${schema.enum}`];
  if (Array.isArray(value)) return arrayFaults(document, schema, value, place);
  if (typeof value === "object" && value !== null) return objectFaults(document, schema, value, place);
  return typeof value === "string" && !FORMATS[schema.format]?.test(value) && schema.format in FORMATS
    ? [`${place} is not a valid ${schema.format}`]
    : [];
}

const FORMATS: Readonly<Record<string, RegExp>> = {
  "date-time": /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/,
  uuid: /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/,
};

function choiceFaults(choices: readonly (readonly string[])[], isRight: (fitting: number) => boolean, place: string) {
  const fitting = choices.filter((faults) => faults.length === 0).length;
  return isRight(fitting) ? [] : [`${place} fits ${fitting} of ${choices.length}: ${choices.flat().join("; ")}`];
}

/** The JSON Schema types of a value, the narrowest first. */
function typesOf(value: unknown): string[] {
  if (value === null) return ["null"];
  if (Array.isArray(value)) return ["array"];
  return Number.isInteger(value) ? ["integer", "number"] : [typeof value];
}

const arrayFaults = (document: any, { items = {} }: any, values: readonly unknown[], place: string) =>
  values.flatMap((value, i) => schemaFaults(document, items, value, `${place}[${i}]`));

function objectFaults(document: any, schema: any, value: object, place: string): string[] {
  const { properties, required = [], additionalProperties = properties === undefined } = schema;
  const missing = required.filter((name: string) => !Object.hasOwn(value, name));
  return [
    ...missing.map((name: string) => `${place}.${name} is missing`),
    ...Object.entries(value).flatMap(([name, each]) => {
      const known = properties?.[name] ?? additionalProperties;
      if (known === false) return [`${place}.${name} is not in the schema`];
      return known === true ? [] : schemaFaults(document, known, each, `${place}.${name}`);
    }),
  ];
}
