import type { RequestHandler } from "express";
import { RefusedError } from "../../identity/refused.ts";
import { restRefusal } from "../conventions/problem.ts";

/** Nothing of it may be kept, and refusals are told as problems. */
export const route =
  (handler: (...given: Parameters<RequestHandler>) => Promise<void>): RequestHandler =>
  async (request, response, next) => {
    response.set("Cache-Control", "no-store");
    try {
      await handler(request, response, next);
    } catch (error) {
      throw error instanceof RefusedError ? restRefusal(error) : error;
    }
  };
