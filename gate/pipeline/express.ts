import type { RequestHandler } from "express";
import { problem } from "../../problems/problem.ts";

export type Methods = Readonly<Partial<Record<"GET" | "POST" | "PUT" | "PATCH" | "DELETE", RequestHandler>>>;

/**
 * Serves a path with these methods: HEAD together with GET, OPTIONS with 204 and every other method with 405, both with Allow.
 *
 *   router.all("/auth/login", byMethod({ POST: login }));
 */
export function byMethod(methods: Methods): RequestHandler {
  const served = Object.keys(methods).flatMap((name) => (name === "GET" ? ["GET", "HEAD"] : [name]));
  const allow = [...served, "OPTIONS"].join(", ");
  return (request, response, next) => {
    const { method } = request;
    const handler = methods[(method === "HEAD" ? "GET" : method) as keyof Methods];
    if (handler) return handler(request, response, next);
    response.set("Allow", allow);
    if (method === "OPTIONS") return void response.status(204).end();
    throw problem("method not allowed", { method, allowed: allow });
  };
}
