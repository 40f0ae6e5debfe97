import type { DatabaseFunction, FunctionArgument } from "../../db/catalog/catalog.ts";
import type { Content, JsonSchema, Parameter } from "./document.ts";
import { anyOf, schemaOf, sqlNameOf, textSchemaOf } from "./json-schema.ts";
import { queryParameter, RESERVED } from "./parameters.ts";
import { recordSchema } from "./table-schemas.ts";
import { type Offer, rawBodyOf } from "./visible-schema.ts";

/** The body of a call, by media type: an object of the named arguments, or the one unnamed argument itself. */
export function bodyContent(offer: Offer, overloads: readonly DatabaseFunction[]): Content {
  const byType = Map.groupBy(overloads, (fn) => rawBodyOf(fn) ?? "application/json");
  const entries = [...byType].map(([type, fns]) => [type, { schema: anyOf(fns.map((fn) => bodySchema(offer, fn))) }]);
  return Object.fromEntries(entries);
}

function bodySchema(offer: Offer, fn: DatabaseFunction): JsonSchema {
  if (rawBodyOf(fn) !== null) return schemaOf(fn.arguments[0]!.shape);
  const required = fn.arguments.filter(({ isRequired }) => isRequired).map(({ name }) => name);
  return {
    type: "object",
    properties: Object.fromEntries(fn.arguments.map((argument) => [argument.name, argumentSchema(offer, argument)])),
    ...(required.length > 0 && { required }),
    additionalProperties: false,
  };
}

/** An argument that is a row of a table is told with the columns of the table. */
function argumentSchema(offer: Offer, { shape }: FunctionArgument): JsonSchema {
  const table = shape.schema === offer.schema.name ? offer.tables.get(shape.name) : undefined;
  if (shape.category === "composite" && !shape.isArray && table !== undefined) return recordSchema(table);
  return { ...schemaOf(shape), description: `\`${sqlNameOf(shape)}\`` };
}

/** Arguments in a query string; those of overloads stand side by side. */
export function argumentParameters(overloads: readonly DatabaseFunction[]): Parameter[] {
  const names = new Set(overloads.flatMap((fn) => fn.arguments.map(({ name }) => name)));
  return [...names]
    .filter((name) => !RESERVED.has(name))
    .map((name) => {
      const found = overloads.map((fn) => fn.arguments.find((argument) => argument.name === name));
      const present = found.filter((argument) => argument !== undefined);
      const types = [...new Set(present.map(({ shape }) => `\`${sqlNameOf(shape)}\``))];
      const schema = anyOf(present.map((argument) => querySchema(argument)));
      return {
        ...queryParameter(name, types.join(" or "), schema),
        required: found.every((argument) => argument?.isRequired ?? false),
      };
    });
}

/** The values of a variadic argument are named one by one: `?v=1&v=2`. */
const querySchema = ({ isVariadic, shape }: FunctionArgument) => (isVariadic ? schemaOf(shape) : textSchemaOf(shape));
