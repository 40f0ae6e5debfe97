/** The parts of OpenAPI 3.1 that this service uses. */
export type OpenApiDocument = {
  readonly openapi: "3.1.0";
  readonly info: { readonly title: string; readonly description: string; readonly version: string };
  readonly servers: readonly { readonly url: string }[];
  readonly security: readonly SecurityRequirement[];
  readonly tags: readonly { readonly name: string; readonly description?: string }[];
  readonly paths: Readonly<Record<string, PathItem>>;
  readonly components: Components;
};

export type Components = {
  readonly schemas: Readonly<Record<string, JsonSchema>>;
  readonly parameters: Readonly<Record<string, Parameter>>;
  readonly headers: Readonly<Record<string, Header>>;
  readonly responses: Readonly<Record<string, Response>>;
  readonly securitySchemes: Readonly<Record<string, SecurityScheme>>;
};

/** Schemes that must be used together; `{}` means that none is needed. */
export type SecurityRequirement = Readonly<Record<string, readonly string[]>>;

export type Reference = { readonly $ref: string };

/** `x-query` is `query` of OpenAPI 3.2. */
export type PathItem = { readonly [M in "get" | "post" | "put" | "patch" | "delete" | "x-query"]?: Operation };

export type Operation = {
  readonly operationId: string;
  readonly tags: readonly string[];
  readonly summary: string;
  readonly description?: string;
  readonly parameters: readonly (Parameter | Reference)[];
  readonly requestBody?: { readonly required: boolean; readonly content: Content };
  readonly responses: Readonly<Record<string, Response | Reference>>;
  /** Alternatives, which replace those of the document. */
  readonly security?: readonly SecurityRequirement[];
  readonly deprecated?: boolean;
};

export type Parameter = {
  readonly name: string;
  readonly in: "query" | "header" | "path";
  readonly description?: string;
  readonly required: boolean;
  readonly schema: JsonSchema;
};

export type Response = {
  readonly description: string;
  readonly headers?: Readonly<Record<string, Reference>>;
  readonly content?: Content;
};

export type Header = { readonly description: string; readonly schema: JsonSchema };

/** By media type. */
export type Content = Readonly<Record<string, { readonly schema: JsonSchema }>>;

export type SecurityScheme = { readonly description: string } & (
  | { readonly type: "apiKey"; readonly in: "header" | "cookie"; readonly name: string }
  | { readonly type: "http"; readonly scheme: "bearer"; readonly bearerFormat: string }
  | { readonly type: "http"; readonly scheme: "basic" }
);

type JsonType = "string" | "integer" | "number" | "boolean" | "object" | "array" | "null";

/** JSON Schema 2020-12; `{}` is any value. */
export type JsonSchema = {
  readonly $ref?: string;
  readonly type?: JsonType | readonly JsonType[];
  readonly format?: string;
  readonly enum?: readonly (string | null)[];
  readonly pattern?: string;
  readonly minimum?: number;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly items?: JsonSchema;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: boolean | JsonSchema;
  readonly anyOf?: readonly JsonSchema[];
  readonly oneOf?: readonly JsonSchema[];
  readonly description?: string;
  readonly default?: unknown;
  readonly readOnly?: boolean;
  readonly writeOnly?: boolean;
};
