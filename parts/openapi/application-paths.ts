import type { Method, Route } from "../../rest-gateway/routes/route.ts";
import { answered, problems } from "./conventions/responses.ts";
import type { Operation, PathItem } from "./document.ts";

export const APPLICATION_TAG = { name: "application", description: "Paths of the application." };

/** The paths of an application. */
export function routePaths(routes: readonly Route[]): Readonly<Record<string, PathItem>> {
  return Object.fromEntries(
    routes.map((route) => {
      const path = route.path.replace(/[:*](\w+)/g, "{$1}");
      const operations = (Object.keys(route.methods) as Method[]).map((method) => {
        const name = method.toLowerCase() as Lowercase<Method>;
        return [name, { ...usual(path, name), ...route.openapi?.[name] }];
      });
      return [path, Object.fromEntries(operations)];
    }),
  );
}

/** What every operation has: `GET /reports/{id}` is `getReportsId`. */
function usual(path: string, method: string): Operation {
  const words = path.match(/\w+/g) ?? [];
  const parameters = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => ({
    name: name!,
    in: "path" as const,
    required: true,
    schema: { type: "string" as const },
  }));
  return {
    operationId: [method, ...words.map((word) => word[0]!.toUpperCase() + word.slice(1))].join(""),
    tags: [APPLICATION_TAG.name],
    summary: `${method.toUpperCase()} ${path}`,
    parameters,
    responses: { 200: answered("The result.", {}), ...problems(400, 401, 403, 404, 429, 503) },
  };
}
