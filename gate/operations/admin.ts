import type { Catalog } from "../../db/catalog/catalog.ts";
import { problem } from "../../problems/problem.ts";
import { type Exchange, setHead } from "../pipeline/exchange.ts";
import type { HttpInterface } from "../pipeline/pipeline.ts";
import { type OperatorAccess, refusalForOperators } from "./operator.ts";

export type AdminOptions = {
  /** Prometheus' text format; null if metrics are off here. */
  readonly metrics: (() => Promise<string>) | null;
  /** The settings, without secrets. */
  settings(): object;
  catalog(): Catalog;
  /** Who may read the settings and the schema. */
  readonly access: OperatorAccess;
  readonly reject: HttpInterface["reject"];
};

const ALLOW = "GET, HEAD, OPTIONS";
/** Source: https://prometheus.io/docs/instrumenting/exposition_formats */
const METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8";
const JSON_TYPE = "application/json; charset=utf-8";

/** `/metrics`, and for operators `/config` (the settings, masked) and `/schema_cache` (the served part of the database). */
export function adminInterface(options: AdminOptions): HttpInterface {
  const pages: Readonly<Record<string, { readonly type: string; text(): Promise<string> | string }>> = {
    "/config": { type: JSON_TYPE, text: () => JSON.stringify(options.settings(), null, 2) },
    "/schema_cache": { type: JSON_TYPE, text: () => schemaText(options.catalog()) },
    ...(options.metrics && { "/metrics": { type: METRICS_TYPE, text: options.metrics } }),
  };
  return {
    reject: options.reject,
    async handle(exchange: Exchange) {
      const { request, response, head } = exchange;
      const path = request.url!.split("?", 1)[0]!;
      const page = pages[path];
      if (!page) return options.reject(exchange, problem("no such path"));
      head.notes.route = path;
      if (request.method === "OPTIONS") {
        setHead(response, head);
        response.writeHead(204, { Allow: ALLOW }).end();
        return;
      }
      if (request.method !== "GET" && request.method !== "HEAD") {
        response.setHeader("Allow", ALLOW);
        return options.reject(exchange, problem("method not allowed", { method: request.method!, allowed: ALLOW }));
      }
      const refusal = path === "/metrics" ? null : await refusalForOperators(exchange, options.access);
      if (refusal) return options.reject(exchange, refusal);
      const body = Buffer.from(await page.text());
      setHead(response, head);
      response.writeHead(200, {
        "Content-Type": page.type,
        "Content-Length": body.length,
        "Cache-Control": "no-store",
      });
      response.end(request.method === "HEAD" ? undefined : body);
    },
  };
}

/** The schemas with their tables and functions; maps become objects and sets become lists. */
const schemaText = ({ version, schemas }: Catalog): string =>
  JSON.stringify({ version, schemas }, (_name, value) => {
    if (value instanceof Map) return Object.fromEntries(value);
    return value instanceof Set ? [...value] : value;
  });
