import { z } from "zod";

const jsonType = z.enum(["string", "integer", "number", "boolean", "object", "array", "null"]);

/** The keywords of JSON Schema 2020-12 that documents of the service use; any other keyword is a fault. */
const jsonSchema: z.ZodType<unknown> = z.lazy(() =>
  z.strictObject({
    $ref: z.string().optional(),
    type: z.union([jsonType, z.array(jsonType).min(1)]).optional(),
    format: z.string().optional(),
    enum: z
      .array(z.union([z.string(), z.null()]))
      .min(1)
      .optional(),
    pattern: z
      .string()
      .refine((text) => new RegExp(text, "u") instanceof RegExp)
      .optional(),
    minimum: z.number().optional(),
    maximum: z.number().optional(),
    minLength: z.int().min(0).optional(),
    maxLength: z.int().min(0).optional(),
    items: jsonSchema.optional(),
    minItems: z.int().min(0).optional(),
    maxItems: z.int().min(0).optional(),
    properties: z.record(z.string(), jsonSchema).optional(),
    required: z.array(z.string()).optional(),
    additionalProperties: z.union([z.boolean(), jsonSchema]).optional(),
    anyOf: z.array(jsonSchema).min(1).optional(),
    oneOf: z.array(jsonSchema).min(1).optional(),
    description: z.string().optional(),
    default: z.unknown().optional(),
    examples: z.array(z.unknown()).optional(),
    readOnly: z.boolean().optional(),
    writeOnly: z.boolean().optional(),
  }),
);

const reference = z.strictObject({ $ref: z.string() });
const mediaType = z.string().regex(/^[\w*.+-]+\/[\w*.+-]+(;.*)?$/);
const content = z.record(mediaType, z.strictObject({ schema: jsonSchema }));
const parameter = z.strictObject({
  name: z.string().min(1),
  in: z.enum(["query", "header", "path"]),
  description: z.string().optional(),
  required: z.boolean(),
  schema: jsonSchema,
});
const response = z.strictObject({
  description: z.string(),
  headers: z.record(z.string(), reference).optional(),
  content: content.optional(),
});
const security = z.array(z.record(z.string(), z.array(z.string())));
const operation = z.strictObject({
  operationId: z.string().min(1),
  tags: z.array(z.string()),
  summary: z.string().min(1),
  description: z.string().optional(),
  parameters: z.array(z.union([reference, parameter])),
  requestBody: z.strictObject({ required: z.boolean(), content }).optional(),
  responses: z.record(z.string().regex(/^[1-5]\d\d$/), z.union([reference, response])),
  security: security.optional(),
  deprecated: z.boolean().optional(),
});
const pathItem = z.strictObject({
  get: operation.optional(),
  post: operation.optional(),
  put: operation.optional(),
  patch: operation.optional(),
  delete: operation.optional(),
  // `query` of OpenAPI 3.2.
  "x-query": operation.optional(),
});
const components = <T extends z.ZodType>(type: T) => z.record(z.string().regex(/^[a-zA-Z0-9._-]+$/), type);

/** The objects of OpenAPI 3.1.0, each with the fields it may have. Source: https://spec.openapis.org/oas/v3.1.0 */
const document = z.strictObject({
  openapi: z.literal("3.1.0"),
  info: z.strictObject({ title: z.string().min(1), description: z.string(), version: z.string() }),
  servers: z.array(z.strictObject({ url: z.url() })).min(1),
  security,
  tags: z.array(z.strictObject({ name: z.string(), description: z.string().optional() })),
  paths: z.record(z.string().regex(/^\/([^{}?# ]|\{\w+\})+$/), pathItem),
  components: z.strictObject({
    schemas: components(jsonSchema),
    parameters: components(parameter),
    headers: components(z.strictObject({ description: z.string(), schema: jsonSchema })),
    responses: components(response),
    securitySchemes: components(z.looseObject({ type: z.enum(["apiKey", "http"]) })),
  }),
});

/**
 * Schemas of bodies with a `default`: `components schemas articles_update properties status`. A client that fills in defaults resets a
 * column that is absent from a PATCH, and generated types require what may be absent. Parameters may have one.
 */
function defaultsInBodies(part: any, path = "", isBody = false): string[] {
  if (typeof part !== "object" || part === null) return [];
  const isNames = path.endsWith(" properties");
  const own = isBody && !isNames && "default" in part ? [`default in a body:${path}`] : [];
  const entries = Object.entries<any>(part).filter(
    ([key]) => isNames || !["parameters", "default", "examples"].includes(key),
  );
  const inBody = (key: string) => isBody || key === "schemas" || key === "schema";
  return [...own, ...entries.flatMap(([key, value]) => defaultsInBodies(value, `${path} ${key}`, inBody(key)))];
}

/** The faults of an OpenAPI 3.1 document; `[]` if it is valid. */
export function openApiFaults(given: any): string[] {
  const result = document.safeParse(given);
  if (!result.success) return result.error.issues.map((issue) => `${issue.path.join(" ")}: ${issue.message}`);
  const operations: any[] = Object.values<any>(given.paths).flatMap(Object.values);
  const tags = given.tags.map((tag: any) => tag.name);
  return [
    ...danglingReferences(given),
    ...defaultsInBodies(given),
    ...repeated(operations.map(({ operationId }) => operationId)).map((id) => `operationId twice: ${id}`),
    ...repeated(tags).map((tag) => `tag twice: ${tag}`),
    ...operations.flatMap((one) =>
      one.tags.filter((tag: string) => !tags.includes(tag)).map((tag: string) => `no tag ${tag}`),
    ),
    ...operations.flatMap((one) => repeatedParameters(given, one)),
    ...Object.entries<any>(given.paths).flatMap(([path, item]) => templateFaults(given, path, item)),
    ...operations
      .flatMap((one) => (one.security ?? []).flatMap(Object.keys))
      .filter((name) => !(name in given.components.securitySchemes)),
    ...given.security.flatMap(Object.keys).filter((name: string) => !(name in given.components.securitySchemes)),
  ];
}

/** The faults in references and parameters of an OpenAPI 2.0 document. */
export function swaggerFaults(given: any): string[] {
  const operations: any[] = Object.values<any>(given.paths).flatMap(Object.values);
  return [
    ...danglingReferences(given),
    ...operations.flatMap((one) => repeatedParameters(given, one)),
    ...operations.flatMap((one) => {
      const bodies = resolvedParameters(given, one).filter((parameter) => parameter.in === "body");
      return bodies.length > 1 ? ["two bodies"] : [];
    }),
  ];
}

/** The document with only the operations that have one of these tags. */
export function withTags(document: any, isWanted: (tag: string) => boolean): any {
  const operationsOf = (item: object) => Object.entries<any>(item).filter(([, { tags }]) => tags.some(isWanted));
  const paths = Object.entries<any>(document.paths)
    .filter(([, item]) => operationsOf(item).length > 0)
    .map(([path, item]) => [path, Object.fromEntries(operationsOf(item))]);
  return { ...document, paths: Object.fromEntries(paths) };
}

/** The target of a reference: `resolve(document, "#/components/schemas/articles")` */
export function resolve(document: any, reference: string): any {
  const steps = decodeURIComponent(reference.replace(/^#\//, "")).split("/");
  return steps.reduce((value, step) => {
    const key = step.replaceAll("~1", "/").replaceAll("~0", "~");
    return value !== undefined && Object.hasOwn(value, key) ? value[key] : undefined;
  }, document);
}

function danglingReferences(document: any, part: any = document): string[] {
  if (typeof part !== "object" || part === null) return [];
  const own =
    typeof part.$ref === "string" && resolve(document, part.$ref) === undefined ? [`nothing at ${part.$ref}`] : [];
  return [...own, ...Object.values(part).flatMap((value) => danglingReferences(document, value))];
}

/** Whether `{userId}` of a path and the parameters of its operations are the same. */
function templateFaults(document: any, path: string, item: any): string[] {
  const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name);
  return Object.values<any>(item).flatMap((operation) => {
    const given = resolvedParameters(document, operation).filter((parameter) => parameter.in === "path");
    const isSame = given.every(({ required }) => required) && String(given.map(({ name }) => name)) === String(inPath);
    return isSame ? [] : [`${path} has other parameters than ${operation.operationId}`];
  });
}

const resolvedParameters = (document: any, { parameters = [] }: any): any[] =>
  parameters.map((parameter: any) => (parameter.$ref ? resolve(document, parameter.$ref) : parameter));

const repeatedParameters = (document: any, operation: any) =>
  repeated(resolvedParameters(document, operation).map((parameter) => `${parameter?.in} ${parameter?.name}`)).map(
    (name) => `parameter twice: ${name} of ${operation.operationId ?? operation.tags}`,
  );

const repeated = (names: readonly string[]) => names.filter((name, index) => names.indexOf(name) !== index);
